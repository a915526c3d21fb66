#!/bin/sh
# FIGURES ARE FROM ANOTHER SERVER THAN THIS DEPLOYS: simulated with a model of vLLM on CPU, no server was launched; this deploys vLLM.
# Check it once it runs (replace ADDRESS with its host): tune verify --url http://ADDRESS --protocol openai --model llama-3.1-8b --rate 152rps --slo 'p99 ttft<300ms tpot<30ms'
# Best found, NOT confirmed: 2 cores, 0.25 T4, batch 8: 191 req/s at p99 36 ms (estimated), $0.12 per million requests, 83 % cheaper than the baseline
# Status: simulated (models of servers and load computed it; nothing was measured).
# Written by tune from experiment bert-7f3a, trial 2 (simulated, seed 7).
#   maxNumSeqs = 64                                      tuned, trial 2
#   gpus = 1                                             tuned, trial 2
#   safe capacity 191 req/s (estimate 212 [206 to 218])  trial 2, simulated: p99 of TTFT and TPOT at 12 % of the limits (estimated), SLO TTFT <= 300 ms and TPOT <= 30 ms for 99 % of requests
#   replicas 1                                           one, because no demand is configured
#   3 cores                                              every trial had 2, which the price is for; a real start needs 3
#   memory 23552 MiB                                     estimated: weights 15317 MiB, 2048 MiB and 4096 MiB per GPU for its processes, 2048 MiB shared; adjust the request once it has run
#   shared memory 2048 MiB                               between its processes; counted in the memory
#   startup deadline 377 s                               the launch of this server was not measured: 300 s + 77 s to read the weights
#   grace period 134 s                                   an answer of 4096 tokens at the latency limits of the SLO, at most an hour
#   price $0.085 per hour and replica                    price book
exec vllm serve s3://bucket/llama \
  --served-model-name llama-3.1-8b \
  --load-format runai_streamer \
  --max-num-seqs 64 \
  --max-model-len 4096

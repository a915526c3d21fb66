#!/bin/sh
# Best found, NOT confirmed: 2 cores, 0.25 T4, batch 8: 191 req/s at p99 36 ms (estimated), $0.12 per million requests, 83 % cheaper than the baseline
# Status: measured (measured once).
# Written by tune from experiment bert-7f3a, trial 2 (measured, seed 7).
#   cpuCores = 2                                         tuned, trial 2
#   gpu = T4                                             tuned, trial 2
#   gpuMemoryPercent = 25                                tuned, trial 2
#   batchSize = 8                                        tuned, trial 2
#   memoryMiB = 4096                                     tuned, trial 2
#   maxDelayMs = 2.5                                     tuned, trial 2
#   instances = 2                                        tuned, trial 2
#   safe capacity 191 req/s (estimate 212 [206 to 218])  trial 2, measured: p99 36 ms (estimated), SLO 50 ms
#   replicas 6                                           demand 900 req/s / (safe capacity x (1 - headroom 20 %)), rounded up
#   1.5 cores                                            tuned
#   memory 1500 MiB                                      tuned
#   startup deadline 93 s                                three times the measured launch of 31 s, at least 60 s
#   grace period 30 s                                    no response time was measured
#   price $0.085 per hour and replica                    price book
# Note: put each config.pbtxt into the folder of its model in that repository
exec tritonserver --model-repository=s3://bucket/bert

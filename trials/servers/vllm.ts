/** vLLM 0.11.0, as the device model has it: its command line is the one that was modelled. */
import { type DraftMethods, maxMatchedNgram, writeDrafts } from './drafts.ts'
import {
  readLanguageKnobs,
  readSwitch,
  selectKernels,
  writeFlags,
  writeSwitch,
} from './language-knobs.ts'
import type { LanguageProgram, ValuedFlags } from './language-program.ts'

/** vLLM 0.11 refuses draft models. */
const drafts: DraftMethods<ValuedFlags> = {
  ngram: (tokens) =>
    createSpeculativeConfig({
      method: 'ngram',
      num_speculative_tokens: tokens,
      prompt_lookup_max: maxMatchedNgram,
    }),
  eagle3: (tokens, model) =>
    createSpeculativeConfig({ method: 'eagle3', model, num_speculative_tokens: tokens }),
}

function createSpeculativeConfig(config: Readonly<Record<string, string | number>>): ValuedFlags {
  return [['speculative-config', JSON.stringify(config)]]
}

export const vllm: LanguageProgram = {
  image: 'vllm/vllm-openai:v0.11.0',
  install: 'pip install vllm==0.11.0',
  command: (weights) => ['vllm', 'serve', weights],
  serves: ({ host, port, model }) => [
    ...(host === undefined ? [] : [`--host=${host}`]),
    `--port=${port}`,
    `--served-model-name=${model}`,
  ],
  flags: (knobs, grant) => {
    const tuned = readLanguageKnobs(knobs, grant)
    return [
      ...writeFlags([
        ['max-num-seqs', tuned.sequences],
        ['max-num-batched-tokens', tuned.tokens],
        ['gpu-memory-utilization', tuned.memory],
        ['max-model-len', tuned.length],
        ['tensor-parallel-size', tuned.gpus],
        ['pipeline-parallel-size', tuned.stages],
        ['data-parallel-size', tuned.copies],
        ['quantization', selectKernels(knobs, grant)],
        ['dtype', tuned.dtype],
        ['kv-cache-dtype', tuned.cache],
        ...(writeDrafts(drafts, knobs) ?? []),
      ]),
      ...writeSwitch('enable-prefix-caching', readSwitch(knobs, 'enablePrefixCaching')),
      ...writeSwitch('enable-chunked-prefill', readSwitch(knobs, 'enableChunkedPrefill')),
    ]
  },
  drafts,
  metrics: {
    sequences: ['vllm:num_requests_running'],
    waiting: ['vllm:num_requests_waiting'],
    cacheUse: ['vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc'],
    preemptions: ['vllm:num_preemptions_total'],
    accepted: ['vllm:spec_decode_num_accepted_tokens_total'],
    draftings: ['vllm:spec_decode_num_drafts_total'],
  },
}

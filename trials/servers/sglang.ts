/** SGLang 0.5.4. */
import { type DraftMethods, writeDrafts } from './drafts.ts'
import {
  readLanguageKnobs,
  readSwitch,
  selectKernels,
  translateCacheType,
  writeFlags,
} from './language-knobs.ts'
import type { LanguageProgram, ValuedFlags } from './language-program.ts'

const drafts: DraftMethods<ValuedFlags> = {
  ngram: (tokens) => [
    ['speculative-algorithm', 'NGRAM'],
    ['speculative-num-draft-tokens', String(tokens + 1)],
  ],
  draft: (tokens, model) => createDraftChain('STANDALONE', tokens, model),
  eagle3: (tokens, model) => createDraftChain('EAGLE3', tokens, model),
}

/** A chain, not a tree: `tokens` passes of the draft model, and the model's own token. */
function createDraftChain(algorithm: string, tokens: number, model: string): ValuedFlags {
  return [
    ['speculative-algorithm', algorithm],
    ['speculative-draft-model-path', model],
    ['speculative-num-steps', String(tokens)],
    ['speculative-eagle-topk', '1'],
    ['speculative-num-draft-tokens', String(tokens + 1)],
  ]
}

export const sglang: LanguageProgram = {
  image: 'lmsysorg/sglang:v0.5.4',
  install: "pip install 'sglang==0.5.4'",
  command: (weights) => ['python3', '-m', 'sglang.launch_server', `--model-path=${weights}`],
  serves: ({ host = '0.0.0.0', port, model }) => [
    `--host=${host}`,
    `--port=${port}`,
    `--served-model-name=${model}`,
    '--enable-metrics',
  ],
  flags: (knobs, grant) => {
    const tuned = readLanguageKnobs(knobs, grant)
    const chunked = readSwitch(knobs, 'enableChunkedPrefill')
    const cached = readSwitch(knobs, 'enablePrefixCaching')
    return [
      ...writeFlags([
        ['max-running-requests', tuned.sequences],
        ['chunked-prefill-size', chunked === false ? -1 : tuned.tokens],
        ['mem-fraction-static', tuned.memory],
        ['context-length', tuned.length],
        ['tp-size', tuned.gpus],
        ['pp-size', tuned.stages],
        ['dp-size', tuned.copies],
        ['quantization', selectKernels(knobs, grant)],
        ['dtype', tuned.dtype],
        ['kv-cache-dtype', translateCacheType({ fp8: 'fp8_e4m3' }, tuned.cache)],
        ...(writeDrafts(drafts, knobs) ?? []),
      ]),
      ...(cached === false ? ([['disable-radix-cache']] as const) : []),
    ]
  },
  drafts,
  metrics: {
    sequences: ['sglang:num_running_reqs'],
    waiting: ['sglang:num_queue_reqs'],
    cacheUse: ['sglang:token_usage'],
    preemptions: ['sglang:num_retracted_requests_total', 'sglang:num_retracted_reqs_total'],
    stepTokens: ['sglang:spec_accept_length'],
  },
}

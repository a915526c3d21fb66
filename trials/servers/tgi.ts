/** Text Generation Inference 3.3.6. */
import { type DraftMethods, writeDrafts } from './drafts.ts'
import {
  readLanguageKnobs,
  readQuantization,
  translateCacheType,
  writeFlags,
} from './language-knobs.ts'
import type { LanguageProgram, ValuedFlags } from './language-program.ts'

/** Other heads are taken from the weights, where they have some. */
const drafts: DraftMethods<ValuedFlags> = {
  ngram: (tokens) => [['speculate', String(tokens)]],
}

export const tgi: LanguageProgram = {
  image: 'ghcr.io/huggingface/text-generation-inference:3.3.6',
  install:
    'text-generation-inference 3.3.6 has no package: build it from its sources, or run tune in its image',
  command: (weights) => ['text-generation-launcher', `--model-id=${weights}`],
  serves: ({ host = '0.0.0.0', port, model }) => [
    `--hostname=${host}`,
    `--port=${port}`,
    `--served-model-name=${model}`,
  ],
  flags: (knobs, grant) => {
    const tuned = readLanguageKnobs(knobs, grant)
    const quantization = readQuantization(knobs)
    return writeFlags([
      ['max-batch-size', tuned.sequences],
      ['max-batch-prefill-tokens', tuned.tokens],
      ['cuda-memory-fraction', tuned.memory],
      ['max-total-tokens', tuned.length],
      ['num-shard', tuned.gpus],
      // It takes one of two types, and none together with a quantization.
      quantization === undefined
        ? ['dtype', tuned.dtype === 'float32' || tuned.dtype === 'auto' ? undefined : tuned.dtype]
        : ['quantize', quantization],
      [
        'kv-cache-dtype',
        translateCacheType({ fp8: 'fp8_e4m3fn', fp8_e4m3: 'fp8_e4m3fn' }, tuned.cache),
      ],
      ...(writeDrafts(drafts, knobs) ?? []),
    ])
  },
  drafts,
  // It reports no use of its cache, and never preempts.
  metrics: { sequences: ['tgi_batch_current_size'], waiting: ['tgi_queue_size'] },
}

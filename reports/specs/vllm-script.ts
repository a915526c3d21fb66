/** vLLM: `serve.sh` with its command line. */
import { Knobs, unusedNote } from '../../trials/launchers/server-files/knobs.ts'
import { header, type SpecFile, weightsHint } from './manifest.ts'
import { hubName, scriptPlace } from './model-storage.ts'
import type { Serving } from './serving.ts'
import { quotedWord } from './shell-words.ts'
import type { SpecTarget } from './target.ts'

export const target: SpecTarget = { title: 'vLLM', servers: ['vllm'], implies: 'vllm', imageless: true, render: vllmSpec }

/** What was tuned as vLLM's flags, without those that say what is served and where. */
export function vllmFlags(knobs: Knobs, { resources: { gpu, gpuShare, gpus } }: Serving): readonly (readonly [string, string])[] {
  const flags: readonly (readonly [string, number | string | undefined])[] = [
    ['max-num-seqs', knobs.number('maxNumSeqs', 'batchSize', 'maxBatchSize')],
    ['max-num-batched-tokens', knobs.number('maxNumBatchedTokens')],
    ['gpu-memory-utilization', knobs.number('gpuMemoryUtilization') ?? (gpu && gpuShare < 1 ? gpuShare : undefined)],
    ['max-model-len', knobs.number('maxModelLen', 'sequenceLength')],
    ['tensor-parallel-size', knobs.number('tensorParallelSize') ?? (gpus > 1 ? gpus : undefined)],
    ['quantization', quantizationOf(knobs.value('quantization'))],
    ['dtype', dtypeOf(knobs.value('dtype', 'precision'))],
  ]
  return flags.flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)] as const]))
}

/** How vLLM reads object stores by itself. */
const loadFormat = (uri = ''): readonly (readonly [string, string])[] =>
  /^(s3|gs):\/\//.test(uri) ? [['load-format', 'runai_streamer']] : []

function vllmSpec(serving: Serving): SpecFile[] {
  const knobs = new Knobs(serving.configuration)
  const { modelUri } = serving
  // The shell itself refuses, with the reason.
  const weights =
    modelUri === undefined
      ? `"\${MODEL:?no weights were named: set MODEL to their place. ${weightsHint}}"`
      : quotedWord(hubName(modelUri) ?? scriptPlace(modelUri))
  const flags = [['served-model-name', serving.model] as const, ...loadFormat(modelUri), ...vllmFlags(knobs, serving)]
  const lines = [`exec vllm serve ${weights}`, ...flags.map(([name, value]) => `--${name} ${quotedWord(value)}`)]
  return [{ name: 'serve.sh', text: `#!/bin/sh\n${header(serving, unusedNote(knobs))}${lines.join(' \\\n  ')}\n` }]
}

const quantizationOf = (value: number | string | undefined) => (value === undefined || value === 'none' ? undefined : String(value))

function dtypeOf(precision: number | string | undefined): string | undefined {
  return precision === undefined ? undefined : ({ fp16: 'float16', bf16: 'bfloat16', fp32: 'float32' }[String(precision)] ?? 'auto')
}

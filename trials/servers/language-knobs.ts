/** Tuned parameters that servers of language models have in common, whatever each calls them. */
import { gpuCatalogue } from '../devices/catalogue.ts'
import type { Knobs } from './knobs.ts'
import type { Flags, GpuGrant } from './language-program.ts'

/** Names of the maximum length of prompt and answer. */
export const sequenceNames = [
  'maxModelLen',
  'contextLength',
  'maxTotalTokens',
  'maxSeqLen',
  'sequenceLength',
] as const

/** Gets the maximum tokens of prompt and answer together; undefined if that was not tuned. */
export const getMaxSequence = (knobs: Knobs): number | undefined => knobs.number(...sequenceNames)

/**
 * Reads the limits, parallelism and number formats; undefined if neither tuned nor in the grant.
 */
export function readLanguageKnobs(knobs: Knobs, { gpus, share, length }: GpuGrant) {
  const cache = knobs.value('kvCacheDtype')
  const stages = knobs.number('pipelineParallelSize', 'ppSize')
  const copies = knobs.number('dataParallelSize', 'dpSize')
  // GPUs that are left for one copy of a stage.
  const split = Math.max(1, Math.floor(gpus / ((stages ?? 1) * (copies ?? 1))))
  return {
    sequences: knobs.number('maxNumSeqs', 'maxRunningRequests', 'batchSize', 'maxBatchSize'),
    tokens: knobs.number(
      'maxNumBatchedTokens',
      'chunkedPrefillSize',
      'maxBatchPrefillTokens',
      'maxNumTokens',
    ),
    memory:
      knobs.number(
        'gpuMemoryUtilization',
        'memFractionStatic',
        'cudaMemoryFraction',
        'freeGpuMemoryFraction',
        'kvCacheFreeGpuMemoryFraction',
      ) ?? share,
    length: getMaxSequence(knobs) ?? length,
    gpus:
      knobs.number('tensorParallelSize', 'tpSize', 'numShard') ?? (split > 1 ? split : undefined),
    stages,
    copies,
    dtype: readDtype(knobs.value('dtype', 'precision')),
    cache: cache === undefined || cache === 'auto' ? undefined : String(cache),
  }
}

function readDtype(precision: number | string | undefined): string | undefined {
  return precision === undefined
    ? undefined
    : ({ fp16: 'float16', bf16: 'bfloat16', fp32: 'float32' }[String(precision)] ?? 'auto')
}

/** Whether a parameter switches something on; undefined if it was not tuned. */
export function readSwitch(knobs: Knobs, name: string): boolean | undefined {
  const value = knobs.value(name)
  return value === undefined ? undefined : !['off', 'false', '0'].includes(String(value))
}

/**
 * Reads the quantization that a server applies to 16-bit weights, or that the weights already have.
 */
export function readQuantization(knobs: Knobs): string | undefined {
  const quantization = knobs.value('quantization', 'quantize')
  return quantization === undefined || quantization === 'none' ? undefined : String(quantization)
}

/** GPU generations that the Marlin kernels for 4-bit weights support. */
const marlinGenerations: readonly string[] = ['Ampere', 'Ada', 'Hopper', 'Blackwell']

/**
 * Returns the quantization argument that makes vLLM and SGLang use the Marlin kernels, which the
 * device model assumes. With plain `awq` or `gptq`, both use the kernels of those names, which are
 * many times slower (override_quantization_method of their awq_marlin.py and gptq_marlin.py).
 */
export function selectKernels(knobs: Knobs, { gpu }: GpuGrant): string | undefined {
  const quantization = readQuantization(knobs)
  if (quantization !== 'awq' && quantization !== 'gptq') return quantization
  const generation = gpuCatalogue.find(({ name }) => name === gpu)?.generation
  return generation !== undefined && marlinGenerations.includes(generation)
    ? `${quantization}_marlin`
    : quantization
}

/** Translates vLLM's name of a cache type for a server that has other names. */
export const translateCacheType = <T extends string | undefined>(
  names: Readonly<Record<string, string>>,
  cache: T,
) => (cache === undefined ? cache : (names[cache] ?? cache))

/** Flags of the values that are defined. */
export const writeFlags = (
  flags: readonly (readonly [string, number | string | undefined])[],
): Flags =>
  flags.flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)] as const]))

/** Writes a switch of argparse's BooleanOptionalAction: --name or --no-name. */
export const writeSwitch = (name: string, on: boolean | undefined): Flags =>
  on === undefined ? [] : [[on ? name : `no-${name}`]]

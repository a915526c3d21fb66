/** The bottleneck of a language-model server, by its own counts of sequences and its KV cache. */
import type { Configuration } from '../../search/types.ts'
import { findGpu } from '../../trials/devices/catalogue.ts'
import { DeviceModelError } from '../../trials/devices/device-model-error.ts'
import { inferAcceptance } from '../../trials/predictor/llm/speculation.ts'
import { resolveArithmetic } from '../../trials/predictor/llm/step-model.ts'
import { Knobs } from '../../trials/servers/knobs.ts'
import type { Usage } from '../../trials/types.ts'
import { percent } from '../format.ts'
import type { Binding } from './types.ts'

/** A KV cache is full from this share on: it has no blocks for another sequence. */
const minFullCacheShare = 0.95

interface EngineBinding {
  readonly what: Extract<Binding, 'kv-memory' | 'scheduler' | 'compute' | 'bandwidth'>
  readonly evidence: string
  /** True for a limit that was reached; false for what the GPU does most while it is busy. */
  readonly isLimitReached: boolean
}

/** Undefined for servers without these counts, and for GPUs without known figures. */
export function findEngineBinding(
  usage: Usage,
  configuration: Configuration,
): EngineBinding | undefined {
  const { sequences, waiting = 0, cacheUse = 0, preemptions = 0 } = usage
  if (sequences === undefined) return undefined
  const evidence = describeEngine(usage, configuration)
  if (cacheUse >= minFullCacheShare || preemptions > 0)
    return { what: 'kv-memory', evidence, isLimitReached: true }
  const maxSequences = readMaxSequences(configuration)
  if (maxSequences !== undefined && sequences >= maxSequences && waiting > 0)
    return { what: 'scheduler', evidence, isLimitReached: true }
  const minComputeBound = computeMinComputeBoundSequences(configuration)
  if (minComputeBound === undefined) return undefined
  // Prefill is limited by arithmetic. With separate prefill servers the busier kind is the limit.
  if ((usage.prefillUtilization ?? 0) > (usage.decodeUtilization ?? 0))
    return { what: 'compute', evidence, isLimitReached: false }
  const isComputeBound = sequences >= minComputeBound
  const why = `above ${Math.round(minComputeBound)} sequences per step, arithmetic takes longer than reading the weights`
  return {
    what: isComputeBound ? 'compute' : 'bandwidth',
    evidence: `${evidence}, and ${why}`,
    isLimitReached: false,
  }
}

/**
 * 'KV cache 97 % full, 14 preemptions, 64 of 64 sequences at once, 20 waiting, 1.8 of 4 draft
 * tokens accepted'; '' where the server reports no sequences.
 */
export function describeEngine(usage: Usage, configuration: Configuration): string {
  const { sequences, waiting = 0, cacheUse, preemptions = 0 } = usage
  if (sequences === undefined) return ''
  const maxSequences = readMaxSequences(configuration)
  return [
    ...(cacheUse === undefined ? [] : [`KV cache ${percent(cacheUse)} full`]),
    ...(preemptions > 0
      ? [`${preemptions} ${preemptions === 1 ? 'preemption' : 'preemptions'}`]
      : []),
    `${sequences}${maxSequences === undefined ? '' : ` of ${maxSequences}`} concurrent sequences`,
    ...(waiting > 0 ? [`${waiting} waiting`] : []),
    ...describeDrafts(usage, configuration),
    ...describePools(usage),
  ].join(', ')
}

/**
 * Accepted draft tokens, and the acceptance probability that follows: the value that
 * `predictor.acceptance` takes.
 */
function describeDrafts({ acceptedTokens }: Usage, configuration: Configuration): string[] {
  const drafted = readDraftTokens(configuration)
  if (acceptedTokens === undefined || !(drafted > 0)) return []
  return [
    `${acceptedTokens.toFixed(1)} of ${drafted} draft tokens accepted (acceptance ${inferAcceptance(acceptedTokens, drafted).toFixed(2)})`,
  ]
}

/**
 * How busy the prefill and the decode servers were, where they are separate. It shows whether there
 * are too few of one kind.
 */
export const describePools = ({
  prefillUtilization: prefill,
  decodeUtilization: decode,
}: Usage): string[] =>
  prefill === undefined || decode === undefined
    ? []
    : [`prefill servers busy ${percent(prefill)}, decode servers ${percent(decode)} of the time`]

const readMaxSequences = (configuration: Configuration): number | undefined =>
  new Knobs(configuration).number('maxNumSeqs', 'maxRunningRequests', 'maxBatchSize', 'parallel')

const readDraftTokens = (configuration: Configuration): number =>
  new Knobs(configuration).number('speculativeTokens') ?? 0

/**
 * Sequences per step above which arithmetic takes longer than reading the weights (a roofline of
 * the GPU's data sheet figures, KV cache reads left out). Undefined if the GPU is not known.
 */
function computeMinComputeBoundSequences(configuration: Configuration): number | undefined {
  const { gpu: name, precision, quantization } = configuration
  if (name === undefined || name === 'none') return undefined
  try {
    const gpu = findGpu(String(name))
    const modelledQuantization =
      quantization === 'awq' || quantization === 'gptq' || quantization === 'fp8'
        ? quantization
        : 'none'
    const { tflops, weightBytes } = resolveArithmetic({
      gpu,
      precision: precision === 'bf16' ? 'bf16' : 'fp16',
      quantization: modelledQuantization,
    })
    return (
      (tflops * 1e12 * weightBytes) /
      (2 * gpu.bandwidthGBs * 1e9) /
      (1 + readDraftTokens(configuration))
    )
  } catch (error) {
    if (error instanceof DeviceModelError) return undefined
    throw error
  }
}

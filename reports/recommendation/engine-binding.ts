/** What binds of a server of language models, by its own count of sequences and cache. */
import type { Configuration } from '../../search/types.ts'
import { findGpu } from '../../trials/devices/catalogue.ts'
import { DeviceModelError } from '../../trials/devices/device-model-error.ts'
import { Knobs } from '../../trials/servers/knobs.ts'
import { acceptanceOf } from '../../trials/predictor/llm/speculation.ts'
import { arithmeticOf } from '../../trials/predictor/llm/step-model.ts'
import type { Usage } from '../../trials/types.ts'
import { percent } from '../format.ts'
import type { Binding } from './types.ts'

/** A cache this full has no block left for a sequence that comes, a few aside. */
const fullCache = 0.95

interface EngineBinding {
  readonly what: Extract<Binding, 'kv-memory' | 'scheduler' | 'compute' | 'bandwidth'>
  readonly evidence: string
  /** A limit was reached; else what the GPU does most while it is busy. */
  readonly full: boolean
}

/** Undefined of servers that tell nothing of it, and of GPUs whose figures are not known. */
export function engineBinding(
  usage: Usage,
  configuration: Configuration,
): EngineBinding | undefined {
  const { sequences, waiting = 0, cacheUse = 0, preemptions = 0 } = usage
  if (sequences === undefined) return undefined
  const evidence = engineWords(usage, configuration)
  if (cacheUse >= fullCache || preemptions > 0) return { what: 'kv-memory', evidence, full: true }
  const most = mostSequences(configuration)
  if (most !== undefined && sequences >= most && waiting > 0)
    return { what: 'scheduler', evidence, full: true }
  const turns = turningPoint(configuration)
  if (turns === undefined) return undefined
  // Prompts compute; where they have servers of their own, those that are busier bind.
  if ((usage.prefillUtilization ?? 0) > (usage.decodeUtilization ?? 0))
    return { what: 'compute', evidence, full: false }
  const computes = sequences >= turns
  const why = `above ${Math.round(turns)} sequences per step, arithmetic takes longer than reading the weights`
  return {
    what: computes ? 'compute' : 'bandwidth',
    evidence: `${evidence}, and ${why}`,
    full: false,
  }
}

/**
 * 'KV cache 97 % full, 14 preemptions, 64 of 64 sequences at once, 20 waiting, 1.8 of 4 draft
 * tokens accepted'; '' where the server tells nothing.
 */
export function engineWords(usage: Usage, configuration: Configuration): string {
  const { sequences, waiting = 0, cacheUse, preemptions = 0 } = usage
  if (sequences === undefined) return ''
  const most = mostSequences(configuration)
  return [
    ...(cacheUse === undefined ? [] : [`KV cache ${percent(cacheUse)} full`]),
    ...(preemptions > 0
      ? [`${preemptions} ${preemptions === 1 ? 'preemption' : 'preemptions'}`]
      : []),
    `${sequences}${most === undefined ? '' : ` of ${most}`} concurrent sequences`,
    ...(waiting > 0 ? [`${waiting} waiting`] : []),
    ...draftWords(usage, configuration),
    ...poolWords(usage),
  ].join(', ')
}

/**
 * What became of drafts, and the probability that it comes to: what `predictor.acceptance` takes.
 */
function draftWords({ acceptedTokens }: Usage, configuration: Configuration): string[] {
  const drafted = draftedTokens(configuration)
  if (acceptedTokens === undefined || !(drafted > 0)) return []
  return [
    `${acceptedTokens.toFixed(1)} of ${drafted} draft tokens accepted (acceptance ${acceptanceOf(acceptedTokens, drafted).toFixed(2)})`,
  ]
}

/**
 * How busy either pool was, where prompts and answers have servers of their own: by it one sees
 * whether there are too few of one kind.
 */
export const poolWords = ({
  prefillUtilization: prefill,
  decodeUtilization: decode,
}: Usage): string[] =>
  prefill === undefined || decode === undefined
    ? []
    : [`prefill servers busy ${percent(prefill)}, decode servers ${percent(decode)} of the time`]

const mostSequences = (configuration: Configuration): number | undefined =>
  new Knobs(configuration).number('maxNumSeqs', 'maxRunningRequests', 'maxBatchSize', 'parallel')

const draftedTokens = (configuration: Configuration): number =>
  new Knobs(configuration).number('speculativeTokens') ?? 0

/**
 * Sequences of a step that are computed in the time that its weights are read, by the GPU's own
 * figures; what they do to caches is left out.
 */
function turningPoint(configuration: Configuration): number | undefined {
  const { gpu: name, precision, quantization } = configuration
  if (name === undefined || name === 'none') return undefined
  try {
    const gpu = findGpu(String(name))
    const four =
      quantization === 'awq' || quantization === 'gptq' || quantization === 'fp8'
        ? quantization
        : 'none'
    const { tflops, weightBytes } = arithmeticOf({
      gpu,
      precision: precision === 'bf16' ? 'bf16' : 'fp16',
      quantization: four,
    })
    return (
      (tflops * 1e12 * weightBytes) /
      (2 * gpu.bandwidthGBs * 1e9) /
      (1 + draftedTokens(configuration))
    )
  } catch (error) {
    if (error instanceof DeviceModelError) return undefined
    throw error
  }
}

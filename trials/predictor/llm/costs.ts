/** How long one step of a language model takes on the device model, and how many tokens its cache holds. */
import { type Decoder, kvBytesPerToken } from '../../devices/architecture.ts'
import { type Gpu, type Precision, usableMemoryMiB } from '../../devices/catalogue.ts'
import { deviceLatencyMs, gpuMemoryMiB } from '../../devices/model.ts'
import { OutOfMemoryError } from '../engine.ts'

export interface LlmDevice {
  readonly architecture: Decoder
  readonly gpu: Gpu
  readonly precision: Precision
  /** GPUs that share every layer. */
  readonly tensorParallel: number
}

/** What one step does: new tokens of prompts, and one token of each running sequence. */
export interface StepWork {
  readonly prefillTokens: number
  readonly decodes: number
  /** Tokens in the cache of the decoding sequences, all together. */
  readonly decodeContext: number
}

/** One all-reduce of a few bytes, NCCL over NVLink or PCIe, ms. An assumption, not calibrated. */
const allReduceMs = 0.02
/** GB/s that an all-reduce moves: NVLink on boards that have it, else PCIe. Assumptions, not calibrated. */
const linkGBs = (gpu: Gpu) => (/^(V100$|V100-32GB|P100-SXM2|A100-\d|H100$|H200|B\d)/.test(gpu.name) ? 200 : 12)

/**
 * Times of steps. A step of decodes alone is a decode call of the device model. With prompt tokens it is one forward pass over all
 * its tokens (the weights are read once), and the reads of the decoding sequences' cache are added.
 */
export function stepTimes({ architecture, gpu, precision, tensorParallel }: LlmDevice): (work: StepWork) => number {
  const group = grouped(gpu, tensorParallel)
  const known = new Map<string, number>()
  const modelled = (phase: 'prefill' | 'decode', batch: number, sequenceLength: number): number => {
    // Times are smooth: a grid of about 3 % keeps the model from being asked for every length.
    const [b, length] = [batch, onGrid(Math.min(sequenceLength, architecture.maxSequenceLength))]
    const key = `${phase} ${b} ${length}`
    const found = known.get(key)
    if (found !== undefined) return found
    const { ms } = deviceLatencyMs({ architecture, gpu: group, precision, batch: b, sequenceLength: length, phase })
    known.set(key, ms)
    return ms
  }
  const exchange = (tokens: number): number => {
    if (tensorParallel === 1) return 0
    const bytes = (2 * (tensorParallel - 1) * tokens * architecture.hidden * 2) / tensorParallel
    return 2 * architecture.layers * (allReduceMs + bytes / (linkGBs(gpu) * 1e6))
  }
  return ({ prefillTokens, decodes, decodeContext }) => {
    const context = decodes === 0 ? 1 : Math.max(1, decodeContext / decodes)
    const tokens = prefillTokens + decodes
    if (tokens === 0) return 0
    if (prefillTokens === 0) return modelled('decode', decodes, context) + exchange(tokens)
    const cacheReads = decodes === 0 ? 0 : Math.max(0, modelled('decode', decodes, context) - modelled('decode', decodes, 1))
    return modelled('prefill', 1, tokens) + cacheReads + exchange(tokens)
  }
}

const onGrid = (length: number): number =>
  length <= 32 ? Math.ceil(length) : Math.round(32 * 1.03 ** Math.round(Math.log(length / 32) / Math.log(1.03)))

/** k GPUs as one with k times everything; what they exchange is added apart. */
const grouped = (gpu: Gpu, k: number): Gpu =>
  k === 1
    ? gpu
    : {
        ...gpu,
        multiprocessors: gpu.multiprocessors * k,
        bandwidthGBs: gpu.bandwidthGBs * k,
        l2MiB: gpu.l2MiB * k,
        tdpWatts: gpu.tdpWatts * k,
        peakTflops: Object.fromEntries(Object.entries(gpu.peakTflops).map(([name, tflops]) => [name, tflops * k])),
      }

export interface CacheSize {
  /** Tokens whose keys and values fit. */
  readonly tokens: number
  /** GPU memory of each GPU that is used, MiB. */
  readonly memoryMiB: number
}

/**
 * What is left for keys and values once weights, context and the activations of the largest step are in place, as vLLM profiles it.
 * @param utilization share of each GPU's memory that may be used, 0-1
 * @throws OutOfMemoryError when no sequence of `maxModelLength` tokens fits
 */
export function cacheSize(device: LlmDevice, utilization: number, maxBatchedTokens: number, maxModelLength: number): CacheSize {
  const { architecture, gpu, precision, tensorParallel } = device
  const memoryMiB = usableMemoryMiB(gpu) * utilization
  const perToken = kvBytesPerToken(architecture, precision) / 2 ** 20
  const length = Math.min(maxBatchedTokens, architecture.maxSequenceLength)
  const whole = gpuMemoryMiB({ architecture, gpu, precision, batch: 1, sequenceLength: length, phase: 'prefill' }).mib - perToken * length
  const context = gpuContextMiB(device)
  const needed = context + (whole - context) / tensorParallel
  const tokens = Math.floor((memoryMiB - needed) / (perToken / tensorParallel))
  if (tokens < maxModelLength)
    throw new OutOfMemoryError(
      `CUDA out of memory (emulated): ${architecture.name} needs ${Math.ceil(needed)} MiB of each of ${tensorParallel} ${gpu.name} before its cache; ` +
        `of ${Math.floor(memoryMiB)} MiB that leaves room for ${Math.max(0, tokens)} tokens, fewer than max-model-len ${maxModelLength}`,
    )
  return { tokens, memoryMiB }
}

/** What each process holds whatever the model: what a model of no size needs. */
function gpuContextMiB({ gpu, precision }: LlmDevice): number {
  const empty: Decoder = {
    kind: 'decoder',
    name: 'empty',
    layers: 0,
    hidden: 1,
    heads: 1,
    kvHeads: 1,
    headSize: 1,
    intermediate: 1,
    vocabulary: 1,
    maxSequenceLength: 2,
  }
  return gpuMemoryMiB({ architecture: empty, gpu, precision, batch: 1, sequenceLength: 1, phase: 'decode' }).mib
}

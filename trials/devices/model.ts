/**
 * The device model: how long a batch takes on a GPU, how much of its memory it needs, and how sure that is.
 *
 * latency = launches × overhead + FLOPs / (efficiency × peak) + bytes / (efficiency × bandwidth), the terms added.
 */
import type { Architecture, CallShape } from './architecture.ts'
import { architectures, defaultSequenceLength, kvBytesPerToken, parameterCount, workOf } from './architecture.ts'
import { effectivePrecision, type Gpu, type Precision, usableMemoryMiB } from './catalogue.ts'
import { bytesPerElement } from './convnets.ts'
import { DeviceModelError } from './errors.ts'

/** How several processes share one GPU. */
export type Sharing = 'time-slice' | 'mps' | 'memory-only'

export interface DeviceCall extends CallShape {
  readonly architecture: Architecture
  readonly gpu: Gpu
  /** fp16 unless said. */
  readonly precision?: Precision
  /** Part of the GPU in (0, 1]; 1 unless said. */
  readonly share?: number
  /** What the share bounds; 'time-slice' unless said. */
  readonly sharing?: Sharing
}

/** A modelled quantity. `relativeError`: 0.06 = the truth lies within ± 6 % with a probability of about two in three. */
export interface DeviceLatency {
  readonly ms: number
  readonly relativeError: number
}

const typical = { launchMs: 0.0035, computeEfficiency: 0.55, bandwidthEfficiency: 0.7, relativeError: 0.25 }
const megabyte = 2 ** 20

/**
 * Time of one batch on the device, host and queueing excluded.
 * @throws DeviceModelError when the precision, the share or the shape is impossible.
 */
export function deviceLatencyMs(call: DeviceCall): DeviceLatency {
  const share = checkedShare(call)
  const { precision, tflops } = effectivePrecision(call.gpu, call.precision ?? 'fp16')
  const work = workOf(call.architecture, call, precision)
  const launch = work.kernels * typical.launchMs
  const compute = (work.flops + work.attentionFlops) / (typical.computeEfficiency * tflops * 1e9)
  const memory = (work.weightBytes + work.activationBytes + work.kvBytes) / (typical.bandwidthEfficiency * call.gpu.bandwidthGBs * 1e6)
  return { ms: launch + (compute + memory) / share, relativeError: typical.relativeError }
}

function checkedShare(call: DeviceCall): number {
  const share = call.share ?? 1
  if (!(share > 0 && share <= 1)) throw new DeviceModelError(`a GPU share of ${share} is not in (0, 1]`)
  if (!(call.batch >= 1)) throw new DeviceModelError(`a batch of ${call.batch} is below 1`)
  const length = call.sequenceLength ?? defaultSequenceLength
  if (call.architecture.kind !== 'convnet' && length > call.architecture.maxSequenceLength)
    throw new DeviceModelError(
      `${call.architecture.name} takes at most ${call.architecture.maxSequenceLength} tokens, not ${length}`,
      'lower sequenceLength',
    )
  return call.sharing === 'memory-only' ? 1 : share
}

export interface MemoryNeed {
  readonly mib: number
  readonly relativeError: number
}

/** CUDA context and libraries, MiB. */
const contextMiB = 350
const workspaceMiB = 64

/** GPU memory that a process needs to serve batches of this size: context + weights + workspace + activations × batch (+ key-value cache). */
export function gpuMemoryMiB(call: DeviceCall): MemoryNeed {
  const { precision } = effectivePrecision(call.gpu, call.precision ?? 'fp16')
  const weights = (parameterCount(call.architecture) * bytesPerElement(precision)) / megabyte
  return {
    mib: contextMiB + weights + workspaceMiB + (activationBytesHeld(call, precision) + cacheBytes(call, precision)) / megabyte,
    relativeError: 0.15,
  }
}

/** Two live layers' activations and, for encoders, the scores of one layer. */
function activationBytesHeld(call: DeviceCall, precision: Precision): number {
  const { architecture, batch } = call
  const work = workOf(architecture, call, precision)
  const layers = architecture.kind === 'convnet' ? Math.max(1, work.kernels / 4) : architecture.layers
  return (work.activationBytes + work.scoreBytes) / layers + (architecture.kind === 'decoder' ? architecture.vocabulary * 4 * batch : 0)
}

const cacheBytes = (call: DeviceCall, precision: Precision): number =>
  call.architecture.kind === 'decoder'
    ? kvBytesPerToken(call.architecture, precision) * call.batch * (call.sequenceLength ?? defaultSequenceLength)
    : 0

export interface Fit {
  readonly fits: boolean
  readonly neededMiB: number
  readonly availableMiB: number
}

/** Whether a batch fits the share of a GPU's memory, or the MiB given. */
export function fits(call: DeviceCall, availableMiB = usableMemoryMiB(call.gpu) * (call.share ?? 1)): Fit {
  const neededMiB = gpuMemoryMiB(call).mib
  return { fits: neededMiB <= availableMiB, neededMiB, availableMiB }
}

/** Names of the architectures the model knows. */
export const architectureNames = (): string[] => architectures.map((a) => a.name)

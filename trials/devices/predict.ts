/** Latency of a call under a set of coefficients: physics, corrected where tables were measured, then shared. */
import type { Architecture, CallShape } from './architecture.ts'
import type { Gpu, Precision } from './catalogue.ts'
import { type Coefficients, type Runtime, type ShareCurve, shareCurveMs } from './coefficients.ts'
import { DeviceModelError } from './device-model-error.ts'
import { executedPrecision, latencyParts, noDeviation } from './device-physics.ts'
import type { MigProfile } from './mig.ts'
import { type Correction, noCorrection, residualFeatures, residualPosterior, tableNoise } from './residual.ts'
import { workOf } from './work.ts'

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
  /** A hardware slice; the share then says nothing. */
  readonly mig?: MigProfile
  /** 'tensorrt' unless said; any of the calibrated runtimes. */
  readonly runtime?: string
}

/** A modelled quantity. `relativeError`: 0.06 = the truth lies within ± 6 % with a probability of about two in three. */
export interface DeviceLatency {
  readonly ms: number
  readonly relativeError: number
}

export function predictLatency(call: DeviceCall, coefficients: Coefficients): DeviceLatency {
  const { architecture } = call
  const executed = executedPrecision(call.gpu, call.precision ?? 'fp16')
  const work = workOf(architecture, call, executed.precision)
  const deviation = coefficients.deviations[call.gpu.name]
  const on = (gpu: Gpu) => {
    const tflops = (executed.tflops * gpu.multiprocessors) / call.gpu.multiprocessors
    const parts = latencyParts(
      work,
      gpu,
      { ...executed, tflops },
      coefficients.physics,
      deviation ?? noDeviation,
      architecture.kind === 'convnet',
    )
    return parts.launchMs + parts.computeMs + parts.memoryMs
  }
  const block = posteriorOf(coefficients, call.gpu.name, executed.precision, architecture.kind)
  const correction = block?.(residualFeatures(architecture, call)) ?? noCorrection
  const deviceMs = shared(call, executed.precision, on, coefficients) * Math.exp(correction.logRatio)
  const runtime = runtimeOf(call, coefficients)
  return {
    ms: Math.max(runtime.floorMs + runtime.floorPerItemMs * call.batch, runtime.slowdown * deviceMs) + runtime.hostMs,
    relativeError: errorOf(call, executed.precision, correction, deviation !== undefined, coefficients),
  }
}

/**
 * A slice is a small GPU: its multiprocessors, and its part of bandwidth, cache and power. Time-slicing gives the device for a share of the time.
 * MPS bounds the multiprocessors alone: launches and memory traffic go on at full speed. A share of memory alone slows nothing.
 */
function shared(call: DeviceCall, precision: Precision, on: (gpu: Gpu) => number, coefficients: Coefficients): number {
  const { gpu, mig, batch, share = 1 } = call
  if (mig)
    return on({
      ...gpu,
      multiprocessors: mig.multiprocessors,
      bandwidthGBs: gpu.bandwidthGBs * mig.memoryFraction,
      l2MiB: gpu.l2MiB * mig.memoryFraction,
      tdpWatts: (gpu.tdpWatts * mig.multiprocessors) / gpu.multiprocessors,
    })
  const sharing = share < 1 ? (call.sharing ?? 'time-slice') : 'memory-only'
  if (sharing === 'memory-only') return on(gpu)
  if (sharing === 'time-slice') return on(gpu) / share
  const curve = shareCurveOf(call, precision, coefficients)
  if (curve) return (on(gpu) * shareCurveMs(curve, batch, share)) / shareCurveMs(curve, batch, 1)
  return on({ ...gpu, multiprocessors: Math.max(1, gpu.multiprocessors * share) })
}

const shareCurveOf = ({ gpu, architecture }: DeviceCall, precision: Precision, { shareCurves }: Coefficients): ShareCurve | undefined =>
  shareCurves.find((c) => c.gpu === gpu.name && c.model === architecture.name && c.precision === precision)

const compiled: Runtime = { hostMs: 0, floorMs: 0, floorPerItemMs: 0, slowdown: 1 }

function runtimeOf(call: DeviceCall, coefficients: Coefficients): Runtime {
  const name = call.runtime ?? 'tensorrt'
  if (name === 'tensorrt') return compiled
  const known = coefficients.runtimes[name]
  if (known === undefined)
    throw new DeviceModelError(`unknown runtime '${name}'`, `known: tensorrt, ${Object.keys(coefficients.runtimes).join(', ')}`)
  return known
}

/** No table of language models is behind the model; against composed latencies of four GPUs it is off by 10-40 %. */
const decoderError = 0.3

function errorOf(
  call: DeviceCall,
  precision: Precision,
  { ignorance }: Correction,
  calibratedGpu: boolean,
  coefficients: Coefficients,
): number {
  const { errors } = coefficients
  const unseen = !calibratedGpu ? errors.otherGpu : errors.otherModel
  const device = Math.hypot(tableNoise, errors.calibrated, ignorance ** 2 * unseen)
  const slice = call.mig ? errors.otherModel : 0
  const family = call.architecture.kind === 'decoder' ? decoderError : 0
  const bounded = call.sharing === 'mps' && !call.mig && (call.share ?? 1) < 1
  const share = bounded ? (shareCurveOf(call, precision, coefficients) ? errors.share : errors.otherShare) : 0
  return Math.hypot(device, slice, share, family)
}

type Posterior = ReturnType<typeof residualPosterior>
const posteriors = new WeakMap<Coefficients, Map<string, Posterior>>()

function posteriorOf(coefficients: Coefficients, gpu: string, precision: Precision, kind: Architecture['kind']): Posterior | undefined {
  let known = posteriors.get(coefficients)
  if (known === undefined) {
    known = new Map()
    posteriors.set(coefficients, known)
  }
  const key = `${gpu} ${precision} ${kind}`
  const found = known.get(key)
  if (found !== undefined) return found
  const block = coefficients.residuals.find((b) => b.gpu === gpu && b.precision === precision && b.kind === kind)
  if (block === undefined) return undefined
  const posterior = residualPosterior(block.points)
  known.set(key, posterior)
  return posterior
}

/**
 * Latency of a call under a set of coefficients: physics, corrected where tables were measured,
 * then shared.
 */

import {
  type Anchored,
  anchorError,
  anchoredMs,
  deviceSensitivity,
  type ServerMemory,
} from './anchor.ts'
import {
  type Architecture,
  type CallShape,
  defaultSequenceLength,
  takesOf,
} from './architecture.ts'
import type { Gpu, Precision, Sharing } from './catalogue.ts'
import {
  type Coefficients,
  type Runtime,
  type ShareCurve,
  shareCurveMs,
  tablesOf,
} from './coefficients.ts'
import { DeviceModelError } from './device-model-error.ts'
import { executedPrecision, latencyParts, noDeviation } from './device-physics.ts'
import type { MigProfile } from './mig.ts'
import { monotoneMs, type Surface } from './monotone.ts'
import {
  type Correction,
  noCorrection,
  residualFeatures,
  residualPosterior,
  tableNoise,
} from './residual.ts'
import { isConvolutional, workOf } from './work.ts'

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
  /** What the server's own latencies say of it, in place of a runtime. */
  readonly anchored?: AnchoredOn
  /**
   * Processes of the server that take turns on the GPU, 1 unless said; read where the server is
   * anchored.
   */
  readonly processes?: number
}

/** A server's fit, and the device that it was measured on. Absent: nothing was measured of it. */
export interface AnchoredOn extends Anchored {
  readonly on?: Pick<DeviceCall, 'gpu' | 'mig' | 'share' | 'sharing'>
  /** GPU memory of one process at a batch, fitted to readings of it. */
  readonly memory?: ServerMemory
  /**
   * What its host does for each request, one after the other, as far as it holds the batches up:
   * ms, and how unsure.
   */
  readonly perRequest?: DeviceLatency
}

/**
 * A modelled quantity. `relativeError`: 0.06 = it is off by at most 6 % of the truth in about two
 * of three cases; by 0.5, the truth is 2/3 to twice of it.
 */
export interface DeviceLatency {
  readonly ms: number
  readonly relativeError: number
}

export function predictLatency(call: DeviceCall, coefficients: Coefficients): DeviceLatency {
  const executed = executedPrecision(call.gpu, call.precision ?? 'fp16')
  const tables = tablesOf(call.gpu, coefficients)
  const posterior = posteriorOf(coefficients, tables, executed.precision, call.architecture.kind)
  const curve = shareCurveOf(call, executed.precision, coefficients)
  const correctionOf = (shape: DeviceCall) =>
    posterior?.(residualFeatures(shape.architecture, shape)) ?? noCorrection
  const at = (shape: DeviceCall) =>
    shared(shape, curve, (gpu) => physicsMs(shape, gpu, executed, coefficients)) *
    Math.exp(correctionOf(shape).logRatio)
  const deviceMs =
    posterior === undefined && curve === undefined
      ? at(call)
      : raised(call, executed.precision, at, coefficients)
  const known = { curve: curve !== undefined, kindInTables: posterior !== undefined }
  const { anchored, batch, processes } = call
  if (anchored) {
    const moved = transferError(
      call,
      anchored,
      (there) => errorOf(there, correctionOf(there), known, coefficients),
      coefficients,
    )
    return {
      ms: anchoredMs(anchored.at, batch, deviceMs, processes),
      relativeError: Math.hypot(
        anchorError(anchored, batch, deviceMs, processes),
        moved * deviceSensitivity(anchored.at, batch, deviceMs, processes),
      ),
    }
  }
  const runtime = runtimeOf(call, coefficients)
  return {
    ms:
      Math.max(runtime.floorMs + runtime.floorPerItemMs * batch, runtime.slowdown * deviceMs) +
      runtime.hostMs,
    relativeError: Math.hypot(
      errorOf(call, correctionOf(call), known, coefficients),
      engineError(call, coefficients),
    ),
  }
}

/**
 * Convolutional networks of the tables ran in an engine inside a framework; one by itself departs
 * from that by its version and what it fuses.
 */
const engineError = (
  { architecture, runtime = 'tensorrt' }: DeviceCall,
  { errors }: Coefficients,
): number => (isConvolutional(architecture) && runtime === 'tensorrt' ? errors.engine : 0)

/**
 * How unsure the ratio of two device times is, here and where the server was measured: none on the
 * same device, both errors on another GPU.
 */
function transferError(
  call: DeviceCall,
  { on }: AnchoredOn,
  errorAt: (call: DeviceCall) => number,
  { errors }: Coefficients,
): number {
  const plain = { ...call, anchored: undefined }
  if (on === undefined) return errorAt(plain)
  if (call.gpu.name !== on.gpu.name) return Math.hypot(errorAt(plain), errorAt({ ...plain, ...on }))
  const sameShare = (call.share ?? 1) === (on.share ?? 1) && call.mig?.name === on.mig?.name
  return sameShare ? 0 : errors.otherModel
}

/** A whole GPU, or a part of one that is described as a smaller GPU. */
function physicsMs(
  call: DeviceCall,
  gpu: Gpu,
  executed: ReturnType<typeof executedPrecision>,
  coefficients: Coefficients,
): number {
  const { architecture } = call
  const tflops = (executed.tflops * gpu.multiprocessors) / call.gpu.multiprocessors
  const deviation = coefficients.deviations[tablesOf(call.gpu, coefficients) ?? ''] ?? noDeviation
  const work = workOf(architecture, call, executed.precision)
  const parts = latencyParts(
    work,
    gpu,
    { ...executed, tflops },
    coefficients.physics,
    deviation,
    isConvolutional(architecture),
  )
  return parts.launchMs + parts.computeMs + parts.memoryMs
}

type Surfaces = WeakMap<Gpu, WeakMap<Architecture, Map<string, Surface['known']>>>
const surfaces = new WeakMap<Coefficients, Surfaces>()

/** The latency as a surface over batch and length that rises in both. */
function raised(
  call: DeviceCall,
  precision: Precision,
  at: (shape: DeviceCall) => number,
  coefficients: Coefficients,
): number {
  const { architecture, gpu, share = 1, sharing, mig, batch } = call
  const byGpu = remembered(surfaces, coefficients, () => new WeakMap())
  const byModel = remembered(byGpu, gpu, () => new WeakMap())
  const key = [precision, share, sharing, mig?.name, call.phase].join()
  const known = remembered(
    remembered(byModel, architecture, () => new Map()),
    key,
    () => new Map(),
  )
  const image = takesOf(architecture) === 'image'
  const own = 'imageSize' in architecture && image ? architecture.imageSize : defaultSequenceLength
  const length = (image ? call.imageSize : call.sequenceLength) ?? own
  const sized = (size: number, edge: number) =>
    at({ ...call, batch: size, ...(image ? { imageSize: edge } : { sequenceLength: edge }) })
  return monotoneMs({ at: sized, known }, batch, length, own)
}

function remembered<K, V>(
  map: { get(key: K): V | undefined; set(key: K, value: V): unknown },
  key: K,
  make: () => V,
): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}

/**
 * A slice is a small GPU: its multiprocessors, and its part of bandwidth, cache and power.
 * Time-slicing gives the device for a share of the time. MPS bounds the multiprocessors alone:
 * launches and memory traffic go on at full speed. A share of memory alone slows nothing.
 */
function shared(
  { gpu, mig, batch, share = 1, sharing = 'time-slice' }: DeviceCall,
  curve: ShareCurve | undefined,
  on: (gpu: Gpu) => number,
): number {
  if (mig)
    return on({
      ...gpu,
      multiprocessors: mig.multiprocessors,
      bandwidthGBs: gpu.bandwidthGBs * mig.memoryFraction,
      l2MiB: gpu.l2MiB * mig.memoryFraction,
      tdpWatts: (gpu.tdpWatts * mig.multiprocessors) / gpu.multiprocessors,
    })
  if (share === 1 || sharing === 'memory-only') return on(gpu)
  if (sharing === 'time-slice') return on(gpu) / share
  if (curve) return (on(gpu) * shareCurveMs(curve, batch, share)) / shareCurveMs(curve, batch, 1)
  const multiprocessors = Math.max(1, gpu.multiprocessors * share)
  // Power in proportion: with all of it to itself a small share would outrun a larger one.
  return on({
    ...gpu,
    multiprocessors,
    tdpWatts: (gpu.tdpWatts * multiprocessors) / gpu.multiprocessors,
  })
}

/** Of a share under MPS alone. */
const shareCurveOf = (
  { gpu, architecture, mig, share = 1, sharing }: DeviceCall,
  precision: Precision,
  { shareCurves }: Coefficients,
): ShareCurve | undefined =>
  sharing === 'mps' && share < 1 && mig === undefined && architecture.kind !== 'graph'
    ? shareCurves.find(
        (c) => c.gpu === gpu.name && c.model === architecture.name && c.precision === precision,
      )
    : undefined

const compiled: Runtime = { hostMs: 0, floorMs: 0, floorPerItemMs: 0, slowdown: 1, gpus: [] }

function runtimeOf(call: DeviceCall, coefficients: Coefficients): Runtime {
  const name = call.runtime ?? 'tensorrt'
  if (name === 'tensorrt') return compiled
  const known = coefficients.runtimes[name]
  if (known === undefined)
    throw new DeviceModelError(
      `unknown runtime '${name}'`,
      `known: tensorrt, ${Object.keys(coefficients.runtimes).join(', ')}`,
    )
  return known
}

/**
 * No table of language models is behind the model; against composed latencies of four GPUs it is
 * off by 10-40 %.
 */
const decoderError = 0.3

/** Models of the tables: on a GPU without any, the other GPUs' say what is particular to them. */
const tabulatedNames: ReadonlySet<string> = new Set(['bert-base', 'bert-large', 'resnet50'])
const isTabulated = ({ kind, name }: Architecture) => kind !== 'graph' && tabulatedNames.has(name)

function errorOf(
  call: DeviceCall,
  { ignorance }: Correction,
  known: { readonly curve: boolean; readonly kindInTables: boolean },
  coefficients: Coefficients,
): number {
  const { errors } = coefficients
  const calibrated = tablesOf(call.gpu, coefficients) !== undefined
  const gpu = calibrated
    ? known.kindInTables
      ? 0
      : errors.otherKind
    : call.gpu.bare
      ? errors.bareGpu
      : errors.otherGpu
  const model = known.kindInTables || !isTabulated(call.architecture) ? errors.otherModel : 0
  const device = Math.hypot(tableNoise, errors.calibrated, ignorance ** 2 * Math.hypot(gpu, model))
  const slice = call.mig ? errors.otherModel : 0
  const family = call.architecture.kind === 'decoder' ? decoderError : 0
  const bounded = call.sharing === 'mps' && !call.mig && (call.share ?? 1) < 1
  const share = bounded ? (known.curve ? errors.share : errors.otherShare) : 0
  return Math.hypot(device, slice, share, family, runtimeError(call, coefficients))
}

/** A framework's own part: small where it was measured, large elsewhere. */
function runtimeError(call: DeviceCall, coefficients: Coefficients): number {
  const { runtime = 'tensorrt' } = call
  if (runtime === 'tensorrt' || runtime === 'paddle-trt') return 0
  const measuredHere = runtimeOf(call, coefficients).gpus.includes(
    tablesOf(call.gpu, coefficients) ?? '',
  )
  return measuredHere ? coefficients.errors.otherKind : coefficients.errors.framework
}

type Posterior = ReturnType<typeof residualPosterior>
const posteriors = new WeakMap<Coefficients, Map<string, Posterior>>()

function posteriorOf(
  coefficients: Coefficients,
  gpu: string | undefined,
  precision: Precision,
  kind: Architecture['kind'],
): Posterior | undefined {
  if (gpu === undefined) return undefined
  let known = posteriors.get(coefficients)
  if (known === undefined) {
    known = new Map()
    posteriors.set(coefficients, known)
  }
  const key = `${gpu} ${precision} ${kind}`
  const found = known.get(key)
  if (found !== undefined) return found
  const block = coefficients.residuals.find(
    (b) => b.gpu === gpu && b.precision === precision && b.kind === kind,
  )
  if (block === undefined) return undefined
  const posterior = residualPosterior(block.points)
  known.set(key, posterior)
  return posterior
}

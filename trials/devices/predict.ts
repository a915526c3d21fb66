/**
 * Predicts the latency of a call: physical model, share of the GPU, correction by tables, server or
 * runtime.
 */

import {
  type Architecture,
  type CallShape,
  defaultSequenceLength,
  getInputKind,
} from './architecture.ts'
import type { Gpu, Precision, Sharing } from './catalogue.ts'
import {
  type Coefficients,
  evaluateShareCurve,
  findTableName,
  type Runtime,
  type ShareCurve,
} from './coefficients.ts'
import { DeviceModelError } from './device-model-error.ts'
import { computeLatencyParts, noDeviation, resolveExecutedPrecision } from './device-physics.ts'
import type { MigProfile } from './mig.ts'
import { interpolateMonotone, type Surface } from './monotone.ts'
import {
  type Correction,
  computeResidualFeatures,
  fitResidualPosterior,
  noCorrection,
  tableNoiseSd,
} from './residual.ts'
import {
  computeDeviceSensitivity,
  estimateFitError,
  predictServerMs,
  type ServerFit,
  type ServerMemory,
} from './server-fit.ts'
import { countWork, isConvolutional } from './work.ts'

export interface DeviceCall extends CallShape {
  readonly architecture: Architecture
  readonly gpu: Gpu
  /** Default fp16. */
  readonly precision?: Precision
  /** Share of the GPU in (0, 1]. Default 1. */
  readonly share?: number
  /** What the share bounds. Default 'time-slice'. */
  readonly sharing?: Sharing
  /** A hardware slice; `share` is then ignored. */
  readonly mig?: MigProfile
  /** Any of the calibrated runtimes. Default 'tensorrt'. */
  readonly runtime?: string
  /** A fit to the server's own latencies, in place of a runtime. */
  readonly calibratedServer?: CalibratedServer
  /** Processes of the calibrated server that take turns on the GPU. Default 1. */
  readonly processes?: number
}

/** A server's fit, and the device on which it was measured; absent for a typical server. */
export interface CalibratedServer extends ServerFit {
  readonly measuredOn?: Pick<DeviceCall, 'gpu' | 'mig' | 'share' | 'sharing'>
  /** Fitted GPU memory of one process by batch. */
  readonly memory?: ServerMemory
  /** Serial host time for each request, where it limits the throughput, with its error. */
  readonly perRequest?: DeviceLatency
}

/**
 * A modelled quantity. `relativeError` is a standard deviation: at 0.06, two of three predictions
 * are within 6 %; at 0.5, the truth is 2/3 to 2 times the prediction.
 */
export interface DeviceLatency {
  readonly ms: number
  readonly relativeError: number
}

export function predictLatency(call: DeviceCall, coefficients: Coefficients): DeviceLatency {
  const executed = resolveExecutedPrecision(call.gpu, call.precision ?? 'fp16')
  const tables = findTableName(call.gpu, coefficients)
  const posterior = findPosterior(coefficients, tables, executed.precision, call.architecture.kind)
  const curve = findShareCurve(call, executed.precision, coefficients)
  const computeCorrection = (shape: DeviceCall) =>
    posterior?.(computeResidualFeatures(shape.architecture, shape)) ?? noCorrection
  const at = (shape: DeviceCall) =>
    applyShare(shape, curve, (gpu) => computePhysicsMs(shape, gpu, executed, coefficients)) *
    Math.exp(computeCorrection(shape).logRatio)
  const deviceMs =
    posterior === undefined && curve === undefined
      ? at(call)
      : predictMonotone(call, executed.precision, at, coefficients)
  const known = { curve: curve !== undefined, kindInTables: posterior !== undefined }
  const { calibratedServer, batch, processes } = call
  if (calibratedServer) {
    const moved = estimateTransferError(
      call,
      calibratedServer,
      (there) => estimateError(there, computeCorrection(there), known, coefficients),
      coefficients,
    )
    return {
      ms: predictServerMs(calibratedServer.parameters, batch, deviceMs, processes),
      relativeError: Math.hypot(
        estimateFitError(calibratedServer, batch, deviceMs, processes),
        moved * computeDeviceSensitivity(calibratedServer.parameters, batch, deviceMs, processes),
      ),
    }
  }
  const runtime = findRuntime(call, coefficients)
  return {
    ms:
      Math.max(runtime.floorMs + runtime.floorPerItemMs * batch, runtime.slowdown * deviceMs) +
      runtime.hostMs,
    relativeError: Math.hypot(
      estimateError(call, computeCorrection(call), known, coefficients),
      getEngineError(call, coefficients),
    ),
  }
}

/**
 * Extra error of convolutional networks in TensorRT itself: those of the tables ran inside a
 * framework.
 */
const getEngineError = (
  { architecture, runtime = 'tensorrt' }: DeviceCall,
  { errors }: Coefficients,
): number => (isConvolutional(architecture) && runtime === 'tensorrt' ? errors.engine : 0)

/**
 * Error of the ratio of device times here and where the server was measured: 0 on the same device,
 * both errors on another GPU.
 */
function estimateTransferError(
  call: DeviceCall,
  { measuredOn }: CalibratedServer,
  errorAt: (call: DeviceCall) => number,
  { errors }: Coefficients,
): number {
  const plain = { ...call, calibratedServer: undefined }
  if (measuredOn === undefined) return errorAt(plain)
  if (call.gpu.name !== measuredOn.gpu.name)
    return Math.hypot(errorAt(plain), errorAt({ ...plain, ...measuredOn }))
  const sameShare =
    (call.share ?? 1) === (measuredOn.share ?? 1) && call.mig?.name === measuredOn.mig?.name
  return sameShare ? 0 : errors.otherModel
}

/** @param gpu a whole GPU, or a part of one described as a smaller GPU */
function computePhysicsMs(
  call: DeviceCall,
  gpu: Gpu,
  executed: ReturnType<typeof resolveExecutedPrecision>,
  coefficients: Coefficients,
): number {
  const { architecture } = call
  const tflops = (executed.tflops * gpu.multiprocessors) / call.gpu.multiprocessors
  const deviation =
    coefficients.deviations[findTableName(call.gpu, coefficients) ?? ''] ?? noDeviation
  const work = countWork(architecture, call, executed.precision)
  const parts = computeLatencyParts(
    work,
    gpu,
    { ...executed, tflops },
    coefficients.physics,
    deviation,
    isConvolutional(architecture),
  )
  return parts.launchMs + parts.computeMs + parts.memoryMs
}

type Surfaces = WeakMap<Gpu, WeakMap<Architecture, Map<string, Surface['maxima']>>>
const surfaces = new WeakMap<Coefficients, Surfaces>()

/** Evaluates the model as a monotone surface over batch and length. */
function predictMonotone(
  call: DeviceCall,
  precision: Precision,
  at: (shape: DeviceCall) => number,
  coefficients: Coefficients,
): number {
  const { architecture, gpu, share = 1, sharing, mig, batch } = call
  const byGpu = getOrCreate(surfaces, coefficients, () => new WeakMap())
  const byModel = getOrCreate(byGpu, gpu, () => new WeakMap())
  const key = [precision, share, sharing, mig?.name, call.phase].join()
  const maxima = getOrCreate(
    getOrCreate(byModel, architecture, () => new Map()),
    key,
    () => new Map(),
  )
  const image = getInputKind(architecture) === 'image'
  const own = 'imageSize' in architecture && image ? architecture.imageSize : defaultSequenceLength
  const length = (image ? call.imageSize : call.sequenceLength) ?? own
  const sized = (size: number, edge: number) =>
    at({ ...call, batch: size, ...(image ? { imageSize: edge } : { sequenceLength: edge }) })
  return interpolateMonotone({ evaluate: sized, maxima }, batch, length, own)
}

function getOrCreate<K, V>(
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
 * Time on a share of a GPU. A MIG slice is a small GPU with its part of bandwidth, cache and power.
 * Time-slicing grants a share of the time. MPS bounds the multiprocessors alone: launches and
 * memory traffic keep full speed. A share of memory alone does not slow the device.
 */
function applyShare(
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
  if (curve)
    return (on(gpu) * evaluateShareCurve(curve, batch, share)) / evaluateShareCurve(curve, batch, 1)
  const multiprocessors = Math.max(1, gpu.multiprocessors * share)
  // Scale the power too: with all of it, a small share would be faster than a larger one.
  return on({
    ...gpu,
    multiprocessors,
    tdpWatts: (gpu.tdpWatts * multiprocessors) / gpu.multiprocessors,
  })
}

/** Share curves exist for shares under MPS only. */
const findShareCurve = (
  { gpu, architecture, mig, share = 1, sharing }: DeviceCall,
  precision: Precision,
  { shareCurves }: Coefficients,
): ShareCurve | undefined =>
  sharing === 'mps' && share < 1 && mig === undefined && architecture.kind !== 'graph'
    ? shareCurves.find(
        (c) => c.gpu === gpu.name && c.model === architecture.name && c.precision === precision,
      )
    : undefined

const compiledEngine: Runtime = { hostMs: 0, floorMs: 0, floorPerItemMs: 0, slowdown: 1, gpus: [] }

function findRuntime(call: DeviceCall, coefficients: Coefficients): Runtime {
  const name = call.runtime ?? 'tensorrt'
  if (name === 'tensorrt') return compiledEngine
  const known = coefficients.runtimes[name]
  if (known === undefined)
    throw new DeviceModelError(
      `unknown runtime '${name}'`,
      `known: tensorrt, ${Object.keys(coefficients.runtimes).join(', ')}`,
    )
  return known
}

/**
 * No table of language models is fitted. Errors against composed latencies of four GPUs are 10-40
 * %.
 */
const decoderError = 0.3

/** Models in the tables of several GPUs: their particularities are known for any GPU. */
const tabulatedNames: ReadonlySet<string> = new Set(['bert-base', 'bert-large', 'resnet50'])
const isTabulated = ({ kind, name }: Architecture) => kind !== 'graph' && tabulatedNames.has(name)

function estimateError(
  call: DeviceCall,
  { relativeSd }: Correction,
  known: { readonly curve: boolean; readonly kindInTables: boolean },
  coefficients: Coefficients,
): number {
  const { errors } = coefficients
  const calibrated = findTableName(call.gpu, coefficients) !== undefined
  const gpu = calibrated
    ? known.kindInTables
      ? 0
      : errors.otherKind
    : call.gpu.hasEstimatedFigures
      ? errors.datasheetGpu
      : errors.otherGpu
  const model = known.kindInTables || !isTabulated(call.architecture) ? errors.otherModel : 0
  const device = Math.hypot(
    tableNoiseSd,
    errors.calibrated,
    relativeSd ** 2 * Math.hypot(gpu, model),
  )
  const slice = call.mig ? errors.otherModel : 0
  const family = call.architecture.kind === 'decoder' ? decoderError : 0
  const bounded = call.sharing === 'mps' && !call.mig && (call.share ?? 1) < 1
  const share = bounded ? (known.curve ? errors.share : errors.otherShare) : 0
  return Math.hypot(device, slice, share, family, estimateRuntimeError(call, coefficients))
}

/** Error of a framework's overhead: small on GPUs where it was measured. */
function estimateRuntimeError(call: DeviceCall, coefficients: Coefficients): number {
  const { runtime = 'tensorrt' } = call
  if (runtime === 'tensorrt' || runtime === 'paddle-trt') return 0
  const measuredHere = findRuntime(call, coefficients).gpus.includes(
    findTableName(call.gpu, coefficients) ?? '',
  )
  return measuredHere ? coefficients.errors.otherKind : coefficients.errors.framework
}

type Posterior = ReturnType<typeof fitResidualPosterior>
const posteriors = new WeakMap<Coefficients, Map<string, Posterior>>()

function findPosterior(
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
  const posterior = fitResidualPosterior(block.points)
  known.set(key, posterior)
  return posterior
}

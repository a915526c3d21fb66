/**
 * Predicts the latency of one inference call: the physical model of the device, the slowdown by a
 * share of the GPU, a correction fitted to published tables, then the overhead of server or
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
  /** How the GPU is shared, which decides what the share limits. Default 'time-slice'. */
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
  const predictDeviceMs = (shape: DeviceCall) =>
    applyShare(shape, curve, (gpu) => computePhysicsMs(shape, gpu, executed, coefficients)) *
    Math.exp(computeCorrection(shape).logRatio)
  const deviceMs =
    posterior === undefined && curve === undefined
      ? predictDeviceMs(call)
      : predictMonotone(call, executed.precision, predictDeviceMs, coefficients)
  const coverage = {
    hasShareCurve: curve !== undefined,
    hasResiduals: posterior !== undefined,
  }
  const { calibratedServer, batch, processes } = call
  if (calibratedServer) {
    const transferError = estimateTransferError(
      call,
      calibratedServer,
      (referenceCall) =>
        estimateError(referenceCall, computeCorrection(referenceCall), coverage, coefficients),
      coefficients,
    )
    return {
      ms: predictServerMs(calibratedServer.parameters, batch, deviceMs, processes),
      relativeError: Math.hypot(
        estimateFitError(calibratedServer, batch, deviceMs, processes),
        transferError *
          computeDeviceSensitivity(calibratedServer.parameters, batch, deviceMs, processes),
      ),
    }
  }
  const runtime = findRuntime(call, coefficients)
  return {
    ms:
      Math.max(runtime.floorMs + runtime.floorPerItemMs * batch, runtime.slowdown * deviceMs) +
      runtime.hostMs,
    relativeError: Math.hypot(
      estimateError(call, computeCorrection(call), coverage, coefficients),
      getEngineError(call, coefficients),
    ),
  }
}

/**
 * Extra error of convolutional networks in TensorRT: the tables measured such networks only inside
 * a framework.
 */
const getEngineError = (
  { architecture, runtime = 'tensorrt' }: DeviceCall,
  { errors }: Coefficients,
): number => (isConvolutional(architecture) && runtime === 'tensorrt' ? errors.engine : 0)

/**
 * Error of the ratio between the device time here and on the device that the server was measured
 * on: 0 on the same device, the errors of both devices on another GPU.
 */
function estimateTransferError(
  call: DeviceCall,
  { measuredOn }: CalibratedServer,
  errorAt: (call: DeviceCall) => number,
  { errors }: Coefficients,
): number {
  const uncalibratedCall = { ...call, calibratedServer: undefined }
  if (measuredOn === undefined) return errorAt(uncalibratedCall)
  if (call.gpu.name !== measuredOn.gpu.name)
    return Math.hypot(errorAt(uncalibratedCall), errorAt({ ...uncalibratedCall, ...measuredOn }))
  const isSameShare =
    (call.share ?? 1) === (measuredOn.share ?? 1) && call.mig?.name === measuredOn.mig?.name
  return isSameShare ? 0 : errors.otherModel
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

/** Memoised surface maxima by coefficients, GPU, architecture and settings of the call. */
const maximaCache = new WeakMap<
  Coefficients,
  WeakMap<Gpu, WeakMap<Architecture, Map<string, Surface['maxima']>>>
>()

/**
 * Evaluates the model as a monotone surface over batch and length: because of noise, the product of
 * physics and correction, or a share curve, may fall where batch or length grows.
 */
function predictMonotone(
  call: DeviceCall,
  precision: Precision,
  evaluate: (shape: DeviceCall) => number,
  coefficients: Coefficients,
): number {
  const { architecture, gpu, share = 1, sharing, mig, batch } = call
  const byGpu = getOrCreate(maximaCache, coefficients, () => new WeakMap())
  const byModel = getOrCreate(byGpu, gpu, () => new WeakMap())
  const key = [precision, share, sharing, mig?.name, call.phase].join()
  const maxima = getOrCreate(
    getOrCreate(byModel, architecture, () => new Map()),
    key,
    () => new Map(),
  )
  const isImage = getInputKind(architecture) === 'image'
  const nativeLength =
    'imageSize' in architecture && isImage ? architecture.imageSize : defaultSequenceLength
  const length = (isImage ? call.imageSize : call.sequenceLength) ?? nativeLength
  const evaluateAt = (size: number, length: number) =>
    evaluate({
      ...call,
      batch: size,
      ...(isImage ? { imageSize: length } : { sequenceLength: length }),
    })
  return interpolateMonotone({ evaluate: evaluateAt, maxima }, batch, length, nativeLength)
}

function getOrCreate<K, V>(
  map: { get(key: K): V | undefined; set(key: K, value: V): unknown },
  key: K,
  create: () => V,
): V {
  const cached = map.get(key)
  if (cached !== undefined) return cached
  const created = create()
  map.set(key, created)
  return created
}

/**
 * Computes the time on a share of a GPU. A MIG slice is a small GPU with its part of bandwidth,
 * cache and power. Time-slicing grants a share of the time. MPS limits only the multiprocessors:
 * launches and memory traffic keep full speed. A share of only the memory does not slow the device.
 * @param computeMs time on a whole GPU, which may be a part described as a smaller GPU
 */
function applyShare(
  { gpu, mig, batch, share = 1, sharing = 'time-slice' }: DeviceCall,
  curve: ShareCurve | undefined,
  computeMs: (gpu: Gpu) => number,
): number {
  if (mig)
    return computeMs({
      ...gpu,
      multiprocessors: mig.multiprocessors,
      bandwidthGBs: gpu.bandwidthGBs * mig.memoryFraction,
      l2MiB: gpu.l2MiB * mig.memoryFraction,
      tdpWatts: (gpu.tdpWatts * mig.multiprocessors) / gpu.multiprocessors,
    })
  if (share === 1 || sharing === 'memory-only') return computeMs(gpu)
  if (sharing === 'time-slice') return computeMs(gpu) / share
  if (curve)
    return (
      (computeMs(gpu) * evaluateShareCurve(curve, batch, share)) /
      evaluateShareCurve(curve, batch, 1)
    )
  const multiprocessors = Math.max(1, gpu.multiprocessors * share)
  // Scale the power too: with the whole power, a small share would be faster than a larger one.
  return computeMs({
    ...gpu,
    multiprocessors,
    tdpWatts: (gpu.tdpWatts * multiprocessors) / gpu.multiprocessors,
  })
}

/** Finds the measured curve of a share; curves exist only for shares under MPS. */
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
  const runtime = coefficients.runtimes[name]
  if (runtime === undefined)
    throw new DeviceModelError(
      `unknown runtime '${name}'`,
      `known: tensorrt, ${Object.keys(coefficients.runtimes).join(', ')}`,
    )
  return runtime
}

/**
 * No table of language models is fitted. Against latencies composed from published figures of four
 * GPUs, the error is 10 to 40 %.
 */
const decoderError = 0.3

/**
 * Models measured on several GPUs: their model-specific residual transfers to an unmeasured GPU.
 */
const tabulatedNames: ReadonlySet<string> = new Set(['bert-base', 'bert-large', 'resnet50'])
const isTabulated = ({ kind, name }: Architecture) => kind !== 'graph' && tabulatedNames.has(name)

function estimateError(
  call: DeviceCall,
  { relativeSd }: Correction,
  coverage: { readonly hasShareCurve: boolean; readonly hasResiduals: boolean },
  coefficients: Coefficients,
): number {
  const { errors } = coefficients
  const isGpuInTables = findTableName(call.gpu, coefficients) !== undefined
  const gpuError = isGpuInTables
    ? coverage.hasResiduals
      ? 0
      : errors.otherKind
    : call.gpu.hasEstimatedFigures
      ? errors.datasheetGpu
      : errors.otherGpu
  // Without residuals of this GPU, a tabulated model adds no error: its residual transfers.
  const modelError =
    coverage.hasResiduals || !isTabulated(call.architecture) ? errors.otherModel : 0
  // Weighted by the share of the prior variance that the residuals leave: 0 at a measured point.
  const deviceError = Math.hypot(
    tableNoiseSd,
    errors.calibrated,
    relativeSd ** 2 * Math.hypot(gpuError, modelError),
  )
  const migError = call.mig ? errors.otherModel : 0
  const familyError = call.architecture.kind === 'decoder' ? decoderError : 0
  const isMpsShare = call.sharing === 'mps' && !call.mig && (call.share ?? 1) < 1
  const shareError = isMpsShare ? (coverage.hasShareCurve ? errors.share : errors.otherShare) : 0
  return Math.hypot(
    deviceError,
    migError,
    shareError,
    familyError,
    estimateRuntimeError(call, coefficients),
  )
}

/** Error of a framework's overhead: small on GPUs where it was measured. */
function estimateRuntimeError(call: DeviceCall, coefficients: Coefficients): number {
  const { runtime = 'tensorrt' } = call
  if (runtime === 'tensorrt' || runtime === 'paddle-trt') return 0
  const isMeasuredHere = findRuntime(call, coefficients).gpus.includes(
    findTableName(call.gpu, coefficients) ?? '',
  )
  return isMeasuredHere ? coefficients.errors.otherKind : coefficients.errors.framework
}

type Posterior = ReturnType<typeof fitResidualPosterior>
/** Memoised posteriors by coefficients, and by GPU, precision and kind of model. */
const posteriors = new WeakMap<Coefficients, Map<string, Posterior>>()

function findPosterior(
  coefficients: Coefficients,
  gpu: string | undefined,
  precision: Precision,
  kind: Architecture['kind'],
): Posterior | undefined {
  if (gpu === undefined) return undefined
  const byBlock = getOrCreate(posteriors, coefficients, () => new Map())
  const key = `${gpu} ${precision} ${kind}`
  const cached = byBlock.get(key)
  if (cached !== undefined) return cached
  const block = coefficients.residuals.find(
    (b) => b.gpu === gpu && b.precision === precision && b.kind === kind,
  )
  if (block === undefined) return undefined
  const posterior = fitResidualPosterior(block.points)
  byBlock.set(key, posterior)
  return posterior
}

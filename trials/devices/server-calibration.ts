/** Measurements of a user's own server, and the device model fitted to them. */
import type { Configuration } from '../../search/types.ts'
import type { Architecture } from './architecture.ts'
import { findGpu, type Gpu, type Precision } from './catalogue.ts'
import { type CalibratedServer, predictDeviceLatency } from './device-model.ts'
import { findMigProfile } from './mig.ts'
import { type BatchLatency, fitServer, fitServerMemory, predictServerMs } from './server-fit.ts'

/** JSON-safe, as stored; the fit is repeated whenever it is read. */
export interface ServerCalibration {
  /** Server, model and device: 'triton-resnet50-a10'. */
  readonly name: string
  readonly server: string
  readonly model: string
  readonly device: string
  /** ISO 8601. */
  readonly measuredAt: string
  /** The measured configuration: GPU, share, precision, sizes. */
  readonly configuration: Configuration
  readonly points: readonly (BatchLatency & { readonly processes: number })[]
  /** Throughput of a closed loop of single-item requests; absent in older calibrations. */
  readonly saturation?: { readonly connections: number; readonly rps: number }
  /** GPU memory of one process after each batch, where it can be read. */
  readonly memory: readonly { readonly batch: number; readonly gpuMemoryMiB: number }[]
}

/** @throws DeviceModelError for a GPU, slice or precision that is not known */
export function fitCalibration(
  calibration: ServerCalibration,
  architecture: Architecture,
  ownGpus: readonly Gpu[] = [],
): CalibratedServer {
  const { configuration, points, memory, saturation } = calibration
  const gpu = findGpu(String(configuration.gpu), ownGpus)
  const slice = configuration.migProfile
  const mig =
    slice === undefined || slice === 'none' ? undefined : findMigProfile(gpu, String(slice))
  const percent = Number(configuration.gpuMemoryPercent ?? 100)
  const measuredOn = { gpu, mig, share: mig ? 1 : percent / 100, sharing: 'memory-only' as const }
  const call = {
    ...measuredOn,
    architecture,
    precision: configuration.precision as Precision | undefined,
    sequenceLength:
      configuration.sequenceLength === undefined ? undefined : Number(configuration.sequenceLength),
    imageSize: configuration.imageSize === undefined ? undefined : Number(configuration.imageSize),
  }
  const deviceMs = (batch: number) => predictDeviceLatency({ ...call, batch }).ms
  const fit = fitServer(points.map((p) => ({ ...p, deviceMs: deviceMs(p.batch) })))
  const perRequest =
    saturation &&
    estimatePerRequestCost(
      saturation.rps,
      computeBatchLimitRps(fit.parameters, configuration, saturation.connections, deviceMs),
    )
  return { ...fit, measuredOn, memory: fitServerMemory(memory), perRequest }
}

/** Throughput of a closed loop if batches alone limited it, requests per second. */
function computeBatchLimitRps(
  parameters: readonly number[],
  configuration: Configuration,
  concurrency: number,
  deviceMs: (batch: number) => number,
): number {
  const processes = Number(configuration.instances ?? 1)
  const batch = Math.max(
    1,
    Math.min(Number(configuration.batchSize ?? concurrency), Math.floor(concurrency / processes)),
  )
  return (1000 * processes * batch) / predictServerMs(parameters, batch, deviceMs(batch), processes)
}

/** A throughput below this share of the batch limit counts as limited by per-request host work. */
const hostBoundShare = 0.8

/**
 * Host time for each request, from single-item requests served at `servedRps` where batches alone
 * allow `limitRps`. A closed loop underestimates the server's limit, so the estimate is the
 * geometric mean of the two, and its error reaches either.
 */
function estimatePerRequestCost(
  servedRps: number,
  limitRps: number,
): CalibratedServer['perRequest'] {
  if (servedRps >= hostBoundShare * limitRps) return undefined
  return {
    ms: 1000 / Math.sqrt(servedRps * limitRps),
    relativeError: Math.sqrt(limitRps / servedRps) - 1,
  }
}

/** A server without measurements: the prior. */
export const fitTypicalServer = (): CalibratedServer => fitServer([])

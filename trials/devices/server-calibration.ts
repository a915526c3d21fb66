/** What was measured of a server of the user's own, and the device model that follows from it. */
import type { Configuration } from '../../search/types.ts'
import { type AnchorPoint, anchoredMs, fitAnchor, fitServerMemory } from './anchor.ts'
import type { Architecture } from './architecture.ts'
import { findGpu, type Gpu, type Precision } from './catalogue.ts'
import { type AnchoredOn, deviceLatencyMs } from './device-model.ts'
import { findMigProfile } from './mig.ts'

/** JSON-safe: the store keeps it, and the fit is made anew whenever it is read. */
export interface ServerCalibration {
  /** 'triton-resnet50-a10': of server, model and device. */
  readonly name: string
  readonly server: string
  readonly model: string
  readonly device: string
  /** ISO 8601. */
  readonly measuredAt: string
  /** What it ran with: GPU, share, precision, sizes. */
  readonly configuration: Configuration
  readonly points: readonly (AnchorPoint & { readonly processes: number })[]
  /**
   * What it answered to so many requests of one item at once, requests per second; absent in
   * calibrations before there was such a reading.
   */
  readonly saturation?: { readonly connections: number; readonly rps: number }
  /** GPU memory of one process after each batch, where the machine tells it. */
  readonly memory: readonly { readonly batch: number; readonly gpuMemoryMiB: number }[]
}

/** @throws DeviceModelError for a GPU, slice or precision that is not known */
export function anchoredBy(
  calibration: ServerCalibration,
  architecture: Architecture,
  ownGpus: readonly Gpu[] = [],
): AnchoredOn {
  const { configuration, points, memory, saturation } = calibration
  const gpu = findGpu(String(configuration.gpu), ownGpus)
  const slice = configuration.migProfile
  const mig =
    slice === undefined || slice === 'none' ? undefined : findMigProfile(gpu, String(slice))
  const percent = Number(configuration.gpuMemoryPercent ?? 100)
  const on = { gpu, mig, share: mig ? 1 : percent / 100, sharing: 'memory-only' as const }
  const call = {
    ...on,
    architecture,
    precision: configuration.precision as Precision | undefined,
    sequenceLength:
      configuration.sequenceLength === undefined ? undefined : Number(configuration.sequenceLength),
    imageSize: configuration.imageSize === undefined ? undefined : Number(configuration.imageSize),
  }
  const deviceMs = (batch: number) => deviceLatencyMs({ ...call, batch }).ms
  const fit = fitAnchor(points.map((p) => ({ ...p, deviceMs: deviceMs(p.batch) })))
  const perRequest =
    saturation &&
    perRequestOf(
      saturation.rps,
      batchLimitRps(fit.at, configuration, saturation.connections, deviceMs),
    )
  return { ...fit, on, memory: fitServerMemory(memory), perRequest }
}

/** What batches of as many as there are at once would let through, requests per second. */
function batchLimitRps(
  at: readonly number[],
  configuration: Configuration,
  atOnce: number,
  deviceMs: (batch: number) => number,
): number {
  const processes = Number(configuration.instances ?? 1)
  const batch = Math.max(
    1,
    Math.min(Number(configuration.batchSize ?? atOnce), Math.floor(atOnce / processes)),
  )
  return (1000 * processes * batch) / anchoredMs(at, batch, deviceMs(batch), processes)
}

/**
 * A server that answered less than this share of what its batches allow is held up by what it does
 * for each request.
 */
const heldUp = 0.8

/**
 * Requests of many items hide what each request costs, many requests at once show it: they were
 * answered at `servedRps`, and batches alone would have been at `limitRps`. A loop of connections
 * that wait for each other is the slowest way to ask, so that the server's own limit lies between
 * the two: their geometric mean, to either of them.
 */
function perRequestOf(servedRps: number, limitRps: number): AnchoredOn['perRequest'] {
  if (servedRps >= heldUp * limitRps) return undefined
  return {
    ms: 1000 / Math.sqrt(servedRps * limitRps),
    relativeError: Math.sqrt(limitRps / servedRps) - 1,
  }
}

/** A server of which nothing is known but what is usual. */
export const usualServer = (): AnchoredOn => fitAnchor([])

/** What was measured of a server of the user's own, and the device model that follows from it. */
import type { Configuration } from '../../search/types.ts'
import { type AnchorPoint, fitAnchor, fitServerMemory } from './anchor.ts'
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
  /** GPU memory of one process after each batch, where the machine tells it. */
  readonly memory: readonly { readonly batch: number; readonly gpuMemoryMiB: number }[]
}

/** @throws DeviceModelError for a GPU, slice or precision that is not known */
export function anchoredBy(calibration: ServerCalibration, architecture: Architecture, ownGpus: readonly Gpu[] = []): AnchoredOn {
  const { configuration, points, memory } = calibration
  const gpu = findGpu(String(configuration.gpu), ownGpus)
  const slice = configuration.migProfile
  const mig = slice === undefined || slice === 'none' ? undefined : findMigProfile(gpu, String(slice))
  const percent = Number(configuration.gpuMemoryPercent ?? 100)
  const on = { gpu, mig, share: mig ? 1 : percent / 100, sharing: 'memory-only' as const }
  const call = {
    ...on,
    architecture,
    precision: configuration.precision as Precision | undefined,
    sequenceLength: configuration.sequenceLength === undefined ? undefined : Number(configuration.sequenceLength),
    imageSize: configuration.imageSize === undefined ? undefined : Number(configuration.imageSize),
  }
  const fit = fitAnchor(points.map((p) => ({ ...p, deviceMs: deviceLatencyMs({ ...call, batch: p.batch }).ms })))
  return { ...fit, on, memory: fitServerMemory(memory) }
}

/** A server of which nothing is known but what is usual. */
export const usualServer = (): AnchoredOn => fitAnchor([])

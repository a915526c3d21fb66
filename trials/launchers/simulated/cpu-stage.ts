/** CPU costs of a request before it can join a batch. */
import {
  type Architecture,
  defaultSequenceLength,
  getInputKind,
} from '../../devices/architecture.ts'
import type { CalibratedServer } from '../../devices/device-model.ts'
import type { ServerFit } from '../../devices/server-fit.ts'

export interface CpuStage {
  /** Time on the single event loop of the server: reading, parsing and answering, ms. */
  readonly acceptMs: number
  /** Time on any core: tokenising a text, decoding and resizing an image, ms. */
  readonly prepareMs: number
  /** Standard deviation of ln(prepare). */
  readonly jitter: number
  /** Latency of the network and between threads, without load, ms. */
  readonly overheadMs: number
  /** Relative error of the CPU times, defined as `DeviceLatency.relativeError`. */
  readonly relativeError: number
  /** The times are part of the batch times: they bound the rate and add no latency. */
  readonly isPartOfBatchTime?: boolean
}

/** The cores of the machine that server and load generator share. */
export interface MachineCores {
  /** Speed relative to the cores that CPU costs were measured on. */
  readonly speed: number
  /** Number of cores that server and load generator share. */
  readonly count: number
}

/** Default: cores as fast as those of the measured CPU costs, with the load generator elsewhere. */
export const referenceCores: MachineCores = { speed: 1, count: Number.POSITIVE_INFINITY }

/**
 * CPU cost of a request in the load generator, ms (measured: 0.39 of a core of half the speed at
 * 3,354 requests per second). It counts where the server has all cores of the machine.
 */
const loadMs = 0.06

/**
 * The built-in predictor on one 2.x GHz server core near saturation, by the CPU time of its threads
 * (`npm run bench:predictor -- cpu`): of a text 0.07 ms on the event loop and 0.04 ms elsewhere
 * (128 tokens); of a 640 × 480 JPEG 1 ms and 7 ms. For comparison, published tokenisers take 0.008
 * to 0.22 ms a text (devices/tables/cpu-tokenizer.csv). Few requests at a time cost two to four
 * times as much, for threads then wake for each.
 */
export function createCpuStage(
  architecture: Architecture,
  sequenceLength = defaultSequenceLength,
  cpuCores = 1,
  { speed, count }: MachineCores = referenceCores,
): CpuStage {
  const isText = getInputKind(architecture) !== 'image'
  return {
    acceptMs: (isText ? 0.07 : 1) / speed,
    prepareMs:
      ((isText ? 0.03 + 0.0001 * sequenceLength : 7) + (cpuCores >= count ? loadMs : 0)) / speed,
    jitter: 0.25,
    overheadMs: 0.3 / speed,
    relativeError: 0.3,
  }
}

/**
 * Creates the stage of a server whose batch times include host work, each process on a core.
 * Requests wait for a core if there are more processes than cores, and for the server's single
 * event loop.
 */
export const createCalibratedStage = (
  [, lnHostMsPerItem]: ServerFit['parameters'],
  { instances, cpuCores }: { readonly instances: number; readonly cpuCores: number },
  perRequest?: CalibratedServer['perRequest'],
): CpuStage => ({
  acceptMs: perRequest?.ms ?? 0,
  prepareMs: instances > cpuCores ? Math.exp(lnHostMsPerItem!) : 0,
  jitter: 0,
  overheadMs: 0,
  relativeError: perRequest?.relativeError ?? 0,
  isPartOfBatchTime: true,
})

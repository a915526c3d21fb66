/** What a request costs on the CPU before it can join a batch. */
import { type Architecture, defaultSequenceLength, takesOf } from '../../devices/architecture.ts'
import type { AnchoredOn } from '../../devices/device-model.ts'

export interface CpuStage {
  /** On the server's one event loop: reading, parsing and answering, ms. */
  readonly acceptMs: number
  /** On any core: tokenising a text, decoding and resizing an image, ms. */
  readonly prepareMs: number
  /** Standard deviation of ln(prepare). */
  readonly jitter: number
  /** Network and hand-overs between threads: latency without load, ms. */
  readonly overheadMs: number
  /** As `DeviceLatency.relativeError`, of the CPU times. */
  readonly relativeError: number
  /**
   * The times are part of those of the batches: they bound the rate, and no request takes them
   * twice.
   */
  readonly within?: boolean
}

/** The cores of the machine that a server runs on, the load beside it. */
export interface MachineCores {
  /** How often as fast they are as those that CPU costs were measured on. */
  readonly speed: number
  /** All that server and load have together. */
  readonly count: number
}

/** Those of a device model alone: as fast, and the load is elsewhere. */
export const coresElsewhere: MachineCores = { speed: 1, count: Number.POSITIVE_INFINITY }

/**
 * What a request costs the load that asks it, ms on that core (0.39 of one of half the speed at
 * 3,354 a second): on cores of the server where it has them all.
 */
const loadMs = 0.06

/**
 * The built-in predictor on one 2.x GHz server core near saturation, by the CPU time of its threads
 * (`npm run bench:predictor -- cpu`): of a text 0.07 ms on the event loop and 0.04 ms elsewhere (128 tokens); of
 * a 640 × 480 JPEG 1 ms and 7 ms. For comparison, published tokenisers take 0.008 to 0.22 ms a text
 * (devices/tables/cpu-tokenizer.csv). Few requests at a time cost two to four times as much, for
 * threads then wake for each.
 */
export function cpuStageOf(
  architecture: Architecture,
  sequenceLength = defaultSequenceLength,
  cpuCores = 1,
  { speed, count }: MachineCores = coresElsewhere,
): CpuStage {
  const text = takesOf(architecture) !== 'image'
  return {
    acceptMs: (text ? 0.07 : 1) / speed,
    prepareMs:
      ((text ? 0.03 + 0.0001 * sequenceLength : 7) + (cpuCores >= count ? loadMs : 0)) / speed,
    jitter: 0.25,
    overheadMs: 0.3 / speed,
    relativeError: 0.3,
  }
}

/**
 * Of a server whose batch times were measured whole: the host's work is in them, each process on a
 * core. What waits beside is for a core where there are more processes than cores, and for the one
 * loop that takes requests.
 * @param at the server's fit
 */
export const anchoredStage = (
  at: readonly number[],
  { instances, cpuCores }: { readonly instances: number; readonly cpuCores: number },
  perRequest?: AnchoredOn['perRequest'],
): CpuStage => ({
  acceptMs: perRequest?.ms ?? 0,
  prepareMs: instances > cpuCores ? Math.exp(at[1]!) : 0,
  jitter: 0,
  overheadMs: 0,
  relativeError: perRequest?.relativeError ?? 0,
  within: true,
})

/**
 * Speed of a server over time, by its service steps, which queueing does not change: whether a
 * window is faster than those before it, a slowdown, and a gradual speed-up.
 */
import { type Change, detectChange } from '../../statistics/change-detector.ts'
import { computeMidmean } from '../../statistics/moments.ts'
import type { ServiceLog } from '../service-log/service-log.ts'
import { computeTypicalDurations, countServed } from '../service-log/typical-durations.ts'

/**
 * Smallest relevant slowdown: windows have different rates, and step durations depend slightly on
 * the rate. Assumed.
 */
const minSlowdown = 0.1
/**
 * Batches into which the steps of a window are cut, each of at least `minBatchSteps` steps: a dozen
 * on either side suffice to detect a change (docs/research/capacity.md, one test of change).
 */
const maxBatches = 8
const minBatchSteps = 12
/**
 * A larger gain has another cause: some windows hold other types of requests than others. Assumed.
 */
const maxGradualGain = 0.5
/**
 * Share of the gain that must appear in either half of the time for a gradual speed-up. Assumed.
 */
const minHalfGainShare = 0.2
/** Shortest duration of a step that is compared, ms; steps of one batch may take none. */
const minStepMs = 1e-6

/**
 * Computes the speed of each step of each log: the typical duration of a step that serves as many
 * requests, over its own.
 */
export function computeStepSpeeds(logs: readonly ServiceLog[]): number[][] {
  const typicalMs = computeTypicalDurations(logs)
  return logs.map((log) =>
    log.tookMs.map(
      (ms, i) => Math.max(minStepMs, typicalMs[countServed(log, i)]!) / Math.max(minStepMs, ms),
    ),
  )
}

/**
 * Estimates the further speed-up of a server that still warms up, as a share of its current speed.
 * Assumed: the current gain continues for half of the time that the server was under load so far.
 */
export const estimateRemainingGain = (gainPerS: number, underLoadS: number): number =>
  (gainPerS * underLoadS) / 2

/** Compares the speed of later with that of earlier steps. */
export function compareSpeeds(before: readonly ServiceLog[], after: ServiceLog): Change {
  const speeds = computeStepSpeeds([...before, after])
  return detectChange([speeds.slice(0, -1).flat(), speeds.at(-1)!])
}

export interface Slowdown {
  /** Speed after the change over that before: 0.5 is half as fast. */
  readonly speed: number
  /**
   * Index of the first run that lies wholly after the change; the number of runs where none does.
   */
  readonly from: number
}

/**
 * Finds a slowdown: the server is throttled, leaks memory, or loses its share of the machine.
 * Undefined without one, or where the server got faster again.
 * @param runs in time order
 */
export function detectSlowdown(runs: readonly ServiceLog[]): Slowdown | undefined {
  const batches = computeStepSpeeds(runs).flatMap((speeds, run) =>
    cutIntoBatches(speeds).map((batch, index) => ({ batch, firstRun: run + Math.min(1, index) })),
  )
  const { direction, ratio, at } = detectChange(
    batches.map(({ batch }) => batch),
    minSlowdown,
  )
  return direction === 'slower' ? { speed: ratio, from: batches[at]!.firstRun } : undefined
}

/**
 * Describes a slowdown.
 * @param speed speed at the end over that at the beginning
 * @param isOngoing whether the last window may be slower still
 */
export function describeSlowdown(speed: number, isOngoing: boolean): string {
  const times = `service took ${(1 / speed).toFixed(2)} times as long at the end as at the beginning`
  if (!isOngoing) return `slowed down during the measurement: ${times}`
  return speed < 1 ? `still slowing down: ${times} already` : 'slowing down at the end'
}

/**
 * Estimates the speed gained per second, as a share, by a server that still speeds up gradually: it
 * compiles, fills caches, or raises its clock. The change from one window to the next may be too
 * small to detect. 0 where no gain is detected; the final speed remains unknown.
 * @param windows logs of windows at about one rate, in time order
 */
export function estimateSpeedUpPerS(windows: readonly ServiceLog[]): number {
  let playedMs = 0
  const endedMs = windows.flatMap((log) => {
    const startMs = playedMs
    playedMs += log.endedMs.at(-1) ?? 0
    return log.endedMs.map((ms) => startMs + ms)
  })
  const speeds = computeStepSpeeds(windows).flat()
  const thirds = cutIntoThirds(speeds)
  if (detectChange(thirds, 0).direction !== 'faster') return 0
  const { total, early, late } = computeGains(speeds)
  // A gradual speed-up shows in both halves; one group of different steps does not.
  if (Math.min(early, late) < minHalfGainShare * total) return 0
  if (Math.expm1(total) > maxGradualGain) return 0
  // The gain lies between the middles of the first and the last third.
  const thirdLength = thirds[0]!.length
  const middle = thirdLength >> 1
  const spanMs = endedMs.at(middle - thirdLength)! - endedMs[middle]!
  return (1000 * Math.expm1(total)) / spanMs
}

/**
 * Computes gains of speed, as differences of logarithms: from the first to the last third of the
 * speeds (`total`), to the middle third (`early`), and from there (`late`).
 */
export function computeGains(speeds: readonly number[]): {
  readonly total: number
  readonly early: number
  readonly late: number
} {
  const [first, middle, last] = cutIntoThirds(speeds).map((third) =>
    Math.log(computeMidmean(third)),
  )
  return { total: last! - first!, early: middle! - first!, late: last! - middle! }
}

function cutIntoThirds(speeds: readonly number[]): number[][] {
  const third = Math.floor(speeds.length / 3)
  const end = speeds.length - third
  return [speeds.slice(0, third), speeds.slice(third, end), speeds.slice(end)]
}

/** Cuts the speeds of a window into consecutive batches. */
function cutIntoBatches(speeds: readonly number[]): number[][] {
  const n = speeds.length
  const batches = Math.min(maxBatches, Math.max(1, Math.floor(n / minBatchSteps)))
  const from = (batch: number) => Math.floor((batch * n) / batches)
  return Array.from({ length: batches }, (_, batch) => speeds.slice(from(batch), from(batch + 1)))
}

/**
 * CPU quota of a container. A server that has used up its quota waits for the next period, so it
 * has outages under load only.
 */
import { mean, median, sampleStandardDeviation, sum } from 'simple-statistics'
import type { LoadRun } from '../../model/load-run.ts'
import { firstConnections } from '../saturation.ts'

/** Default period of Linux CPU quotas (sched-bwc.rst), which Kubernetes and Docker keep. */
export const periodMs = 100
// The following numbers were chosen on all servers of docs/research/capacity.md, CPU quotas. None
// was left out to validate them.

/** Minimum length of a throttled wait: an absolute one, and a multiple of the median gap. */
const minWaitMs = 0.1 * periodMs
const minWaitFactor = 2
/** Departure coalescing tolerance, ms; shorter gaps between answers do not count. */
const coalescingMs = 0.5
/**
 * Smallest mean cosine of the phase differences between ends of waits. It would be 1 if the first
 * answer always came equally long after a period starts, but the service that it completes varies.
 */
const minMeanCosine = 0.78
/**
 * Significance of that cosine, in units of its standard error 1 / √(2 n) if the phases were uniform
 * (V-test: Mardia and Jupp, Directional Statistics, section 6.3.1): one in ten thousand.
 */
const minVTestStatistic = 3.7
/**
 * Largest mean distance of the ends from whole periods, in ms and in standard errors. Gaps of a
 * service time close to one period have a larger mean distance.
 */
const maxPeriodOffsetMs = 1
const maxOffsetStandardErrors = 3

export const describeQuotaWait = (share: number): string =>
  `under load the server answered nothing for about ${(share * periodMs).toFixed(0)} of each ${periodMs} ms, like a container that has used up its CPU limit: more cores may serve far more`

/**
 * Counts the connections of a closed loop that keeps the server busy for its whole length; 0 for
 * open loads, and for loops that only open connections (`forOpen`).
 */
export const countLoopConnections = ({ load }: LoadRun): number =>
  load.kind === 'closed' && !load.forOpen ? load.connections : 0

/**
 * Detects a CPU quota, by waits whose ends are whole periods apart. Returns the share of each
 * period that the busy server waits; 0 without a quota.
 */
export function detectQuotaWait(loops: readonly LoadRun[]): number {
  const waitsByLoop = loops
    .filter((loop) => countLoopConnections(loop) >= firstConnections)
    .map(findThrottledWaits)
  /** Phase difference of each pair of waits of a loop. */
  const angles = waitsByLoop.flatMap((waits) =>
    waits.flatMap(({ endedMs }, i) =>
      waits.slice(0, i).map((before) => (2 * Math.PI * (endedMs - before.endedMs)) / periodMs),
    ),
  )
  // All pairs of waits are compared, because a duration close to the period only falls out of phase
  // over many of them. But no more pairs are independent than there are consecutive ones.
  const independentPairs = sum(waitsByLoop.map((waits) => Math.max(0, waits.length - 1)))
  if (independentPairs < 2) return 0
  const meanCosine = mean(angles.map(Math.cos))
  const sines = angles.map(Math.sin)
  const vTestStatistic = meanCosine * Math.sqrt(2 * independentPairs)
  if (meanCosine < minMeanCosine || vTestStatistic < minVTestStatistic) return 0
  const maxOffset =
    (2 * Math.PI * maxPeriodOffsetMs) / periodMs +
    (maxOffsetStandardErrors * sampleStandardDeviation(sines)) / Math.sqrt(independentPairs)
  return Math.abs(mean(sines)) > maxOffset
    ? 0
    : median(waitsByLoop.flat().map(({ tookMs }) => tookMs)) / periodMs
}

/** Collects the times of answers, ms from the start of the run, ascending. */
export function collectAnswerTimes({ sentMs, latencyMs }: LoadRun): Float64Array {
  return sentMs
    .map((ms, i) => ms + latencyMs[i]!)
    .filter((ms) => !Number.isNaN(ms))
    .sort()
}

/**
 * Finds the waits of a throttled server: the longest gaps between answers, at most one for each
 * whole period, in time order.
 */
export function findThrottledWaits(loop: LoadRun) {
  const answeredMs = collectAnswerTimes(loop)
  const gaps = [...answeredMs.subarray(1)]
    .map((endedMs, i) => ({ endedMs, tookMs: endedMs - answeredMs[i]! }))
    .filter(({ tookMs }) => tookMs > coalescingMs)
  if (gaps.length === 0) return []
  const minLengthMs = Math.max(minWaitMs, minWaitFactor * median(gaps.map(({ tookMs }) => tookMs)))
  return gaps
    .filter(({ tookMs }) => tookMs >= minLengthMs)
    .sort((a, b) => b.tookMs - a.tookMs)
    .slice(0, Math.floor((answeredMs.at(-1)! - answeredMs[0]!) / periodMs))
    .sort((a, b) => a.endedMs - b.endedMs)
}

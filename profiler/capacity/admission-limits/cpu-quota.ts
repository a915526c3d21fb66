/**
 * A quota of computing time, as a container has it by its CPU limit: what has used it up waits for
 * the next period, so that a server stalls under load alone.
 */
import { mean, median, sampleStandardDeviation, sum } from 'simple-statistics'
import type { LoadRun } from '../../model/load-run.ts'
import type { CapacityPosterior } from '../queue-model/posterior.ts'
import { firstConnections } from '../saturation.ts'

/**
 * The period of Linux' quotas, unless set otherwise (sched-bwc.rst); Kubernetes and Docker leave it
 * so.
 */
export const periodMs = 100
/** A wait is at least so long, and so many times the usual time from one answer to the next. */
const shortestMs = 0.1 * periodMs
const beyondUsual = 2
/** Answers closer together are of one batch. */
const togetherMs = 0.5
/**
 * How well the ends of waits keep the period, the mean cosine: what is served across the end of one
 * is answered some milliseconds after it.
 */
const aligned = 0.78
/**
 * Standard errors of that where no period is kept, 1 / √(2 n) (the V-test: Mardia and Jupp,
 * Directional Statistics, section 6.3.1): one in ten thousand.
 */
const beyondChance = 3.7
/**
 * How far off whole periods they may lie on the average, as services of nearly that length do: ms,
 * and standard errors.
 */
const [nearlyMs, certain] = [1, 3]
/** Share of the waiting time by which the twin of a server with a quota is wrong. */
const twinsError = 0.25

export const waitsForQuota = (share: number): string =>
  `under load nothing was answered for some ${(share * periodMs).toFixed(0)} of each ${periodMs} ms, as of a container whose CPU limit is used up: more cores may serve far more`

/** Of a loop that keeps the server busy for as long as it lasts: not of a burst. */
export const connectionsOf = ({ load }: LoadRun): number =>
  load.kind === 'closed' && !load.forOpen ? load.connections : 0

/**
 * Share of each period in which a server, kept busy by closed loops, waits for computing time: its
 * waits end whole periods apart, loop by loop. 0 where it does not.
 */
export function waitingShare(loops: readonly LoadRun[]): number {
  const waits = loops.filter((loop) => connectionsOf(loop) >= firstConnections).map(longestSilences)
  const angles = waits.flatMap((of) =>
    of.flatMap(({ endedMs }, i) =>
      of.slice(0, i).map((before) => (2 * Math.PI * (endedMs - before.endedMs)) / periodMs),
    ),
  )
  // Of all pairs: what only lasts about as long as a period falls out of step. No more of them are
  // independent than there are waits after another.
  const independent = sum(waits.map((of) => Math.max(0, of.length - 1)))
  if (independent < 2) return 0
  const [cosine, sines] = [mean(angles.map(Math.cos)), angles.map(Math.sin)]
  if (cosine < aligned || cosine * Math.sqrt(2 * independent) < beyondChance) return 0
  const near =
    (2 * Math.PI * nearlyMs) / periodMs +
    (certain * sampleStandardDeviation(sines)) / Math.sqrt(independent)
  return Math.abs(mean(sines)) > near
    ? 0
    : median(waits.flat().map(({ tookMs }) => tookMs)) / periodMs
}

/** When its answers came, in order. */
export function answersOf({ sentMs, latencyMs }: LoadRun): Float64Array {
  return sentMs
    .map((ms, i) => ms + latencyMs[i]!)
    .filter((ms) => !Number.isNaN(ms))
    .sort()
}

/**
 * Times without an answer, as many of the longest as a loop has whole periods, in the order of
 * time.
 */
export function longestSilences(loop: LoadRun) {
  const answeredMs = answersOf(loop)
  const silences = [...answeredMs.subarray(1)]
    .map((endedMs, i) => ({ endedMs, tookMs: endedMs - answeredMs[i]! }))
    .filter(({ tookMs }) => tookMs > togetherMs)
  if (silences.length === 0) return []
  const leastMs = Math.max(shortestMs, beyondUsual * median(silences.map(({ tookMs }) => tookMs)))
  return silences
    .filter(({ tookMs }) => tookMs >= leastMs)
    .sort((a, b) => b.tookMs - a.tookMs)
    .slice(0, Math.floor((answeredMs.at(-1)! - answeredMs[0]!) / periodMs))
    .sort((a, b) => a.endedMs - b.endedMs)
}

/**
 * What a twin says of a server that waits for that share of the time under closed loops, with its
 * error.
 */
export function besideQuota(of: CapacityPosterior, share: number): CapacityPosterior {
  const [low, high] = of.capacityCi90Rps
  return {
    ...of,
    capacityCi90Rps: [low * (1 - twinsError * share), high * (1 + twinsError * share)],
  }
}

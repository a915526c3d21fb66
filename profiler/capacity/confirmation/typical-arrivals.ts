/**
 * Selects Poisson schedules of typical difficulty: by chance, one window of ten seconds is easy and
 * the next is hard, far more than a few percent of rate make.
 */
import { quickselect } from 'simple-statistics'
import { schedule } from '../../load/arrivals.ts'
import type { Load } from '../../model/load.ts'

type OpenLoad = Extract<Load, { kind: 'open' }>

/**
 * Candidate schedules, and the rank of the chosen one from the easiest. It is slightly harder than
 * the median, as the mean of a queue lies above its median.
 */
const candidateCount = 15
const chosenRank = 9
/** Utilizations of the virtual queues that measure difficulty; that of the server is unknown. */
const utilizations = [0.6, 0.75, 0.87, 0.95]
const tailPercentile = 0.99
/** Longer windows are played as they are: choosing would take seconds, and they vary little. */
const maxRequests = 40_000

/**
 * Chooses the schedule of median difficulty among `candidateCount` seeds from `firstSeed` on.
 * Difficulty is the 99th percentile of waits in queues with a single constant server (Lindley
 * recursion), over four utilizations. This is stratified sampling (Law, Simulation Modeling and
 * Analysis, chapter 11): it removes the chance of the arrivals, the largest part of the noise of a
 * short window. It uses nothing about the server. Other arrivals, and very long windows, keep the
 * first seed.
 */
export function chooseTypicalArrivals(load: Omit<OpenLoad, 'seed'>, firstSeed: number): OpenLoad {
  if (load.arrivals.kind !== 'poisson' || load.rateRps * load.durationS > maxRequests)
    return { ...load, seed: firstSeed }
  const windows = Array.from({ length: candidateCount }, (_, i) => {
    const candidate = { ...load, seed: firstSeed + i }
    return { candidate, hardness: computeHardness(schedule(candidate)) }
  })
  return windows.sort((a, b) => a.hardness - b.hardness)[chosenRank]!.candidate
}

/** Seeds that one window may use. */
export const seedsPerWindow = candidateCount

function computeHardness(atMs: Float64Array): number {
  const meanGapMs = (atMs.at(-1)! - atMs[0]!) / Math.max(1, atMs.length - 1)
  const waiting = new Array<number>(atMs.length)
  const last = Math.floor(tailPercentile * (atMs.length - 1))
  let hardness = 0
  for (const utilization of utilizations) {
    const serviceMs = utilization * meanGapMs
    waiting[0] = 0
    for (let i = 1; i < atMs.length; i++)
      waiting[i] = Math.max(0, waiting[i - 1]! + serviceMs - (atMs[i]! - atMs[i - 1]!))
    quickselect(waiting, last)
    hardness += Math.log(waiting[last]! / serviceMs + 0.1)
  }
  return hardness
}

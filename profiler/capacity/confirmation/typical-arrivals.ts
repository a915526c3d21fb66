/**
 * Poisson windows as hard as the long run is on the whole: chance makes one of ten seconds easy and
 * the next hard, far more than a few percent of rate do.
 */
import { quickselect } from 'simple-statistics'
import { schedule } from '../../load/arrivals.ts'
import type { Load } from '../../model/load.ts'

type OpenLoad = Extract<Load, { kind: 'open' }>

/**
 * Windows that one is chosen from, and the place of the chosen one, from the easiest. A little
 * harder than the middle: the mean of what queues do lies beyond their median.
 */
const drawn = 15
const chosen = 9
/** Utilizations of the imaginary queues that hardness is seen by; the server's own is not known. */
const utilizations = [0.6, 0.75, 0.87, 0.95]
const tail = 0.99
/**
 * Longer windows are played as they come: choosing would take seconds, and chance is small in them.
 */
const mostRequests = 40_000

/**
 * The load with a seed, among `drawn` from `firstSeed` on, whose arrivals are neither easy nor
 * unusually hard; other arrivals than Poisson's, and very long windows, as they are. How hard: the
 * 99th percentile of what waits in queues with one constant server (Lindley's recursion), over four
 * utilizations. That is stratified sampling (Law, Simulation Modeling and Analysis, chapter 11): it
 * takes the luck of the arrivals, most of the chance of a short window, out of it. Nothing of the
 * server is used.
 */
export function usualArrivals(load: Omit<OpenLoad, 'seed'>, firstSeed: number): OpenLoad {
  if (load.arrivals.kind !== 'poisson' || load.rateRps * load.durationS > mostRequests)
    return { ...load, seed: firstSeed }
  const windows = Array.from({ length: drawn }, (_, i) => {
    const of = { ...load, seed: firstSeed + i }
    return { of, hardness: hardnessOf(schedule(of)) }
  })
  return windows.sort((a, b) => a.hardness - b.hardness)[chosen]!.of
}

/** Seeds that one window may take. */
export const seedsOfWindow = drawn

function hardnessOf(atMs: Float64Array): number {
  const meanGapMs = (atMs.at(-1)! - atMs[0]!) / Math.max(1, atMs.length - 1)
  const waiting = new Array<number>(atMs.length)
  const last = Math.floor(tail * (atMs.length - 1))
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

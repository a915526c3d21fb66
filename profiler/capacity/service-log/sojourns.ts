/** Sojourn times of requests, from arrival to answer. */
import type { LoadRun } from '../../model/load-run.ts'

/** Sojourns of the answered requests of a run, in arrival order. Times are ms from its start. */
interface Sojourns {
  readonly arrivedMs: Float64Array
  readonly departedMs: Float64Array
  /** Other requests in the system at each arrival. */
  readonly systemSizeAtArrival: Int32Array
  /** Indices of the requests, in departure order. */
  readonly departureOrder: Int32Array
}

/**
 * Tolerance for rounding, ms: a departure up to this long after an arrival counts as simultaneous.
 */
const roundingMs = 1e-6

const sojournsByRun = new WeakMap<LoadRun, Sojourns>()

/**
 * Collects the sojourns of the answered requests. Memoised by run, because every candidate
 * discipline uses the same ones.
 * @param overheadMs network and framework time of each request, by which its sojourn is shortened
 */
export function collectSojourns(run: LoadRun, overheadMs = 0): Sojourns {
  let sojourns = sojournsByRun.get(run)
  if (sojourns === undefined) {
    sojourns = computeSojourns(run)
    sojournsByRun.set(run, sojourns)
  }
  return overheadMs === 0 ? sojourns : subtractOverhead(overheadMs, sojourns)
}

function computeSojourns({ sentMs, latencyMs }: LoadRun): Sojourns {
  const answered = [...sentMs.keys()]
    .filter((i) => !Number.isNaN(latencyMs[i]!))
    .sort((a, b) => sentMs[a]! - sentMs[b]!)
  const arrivedMs = Float64Array.from(answered, (i) => sentMs[i]!)
  const departedMs = arrivedMs.map((ms, i) => ms + latencyMs[answered[i]!]!)
  return orderSojourns(arrivedMs, departedMs, [...departedMs.keys()])
}

/**
 * Delays every arrival by the overhead. A request departs as observed, but not before its arrival.
 */
function subtractOverhead(overheadMs: number, sojourns: Sojourns): Sojourns {
  const arrivedMs = sojourns.arrivedMs.map((ms) => ms + overheadMs)
  const departedMs = sojourns.departedMs.map((ms, i) => Math.max(ms, arrivedMs[i]!))
  return orderSojourns(arrivedMs, departedMs, [...sojourns.departureOrder])
}

/** Sorts the requests by departure, and counts those present at each arrival. */
function orderSojourns(
  arrivedMs: Float64Array,
  departedMs: Float64Array,
  indices: number[],
): Sojourns {
  const departureOrder = new Int32Array(indices.sort((a, b) => departedMs[a]! - departedMs[b]!))
  const systemSizeAtArrival = new Int32Array(arrivedMs.length)
  let departures = 0
  for (const [arrivals, atMs] of arrivedMs.entries()) {
    while (
      departures < departureOrder.length &&
      departedMs[departureOrder[departures]!]! <= atMs + roundingMs
    )
      departures++
    systemSizeAtArrival[arrivals] = arrivals - departures
  }
  return { arrivedMs, departedMs, systemSizeAtArrival, departureOrder }
}

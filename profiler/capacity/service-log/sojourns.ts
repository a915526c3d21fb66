/** Sojourn times of requests, from arrival to answer. */
import type { LoadRun } from '../../model/load-run.ts'

/** Sojourns of the answered requests of a run, in arrival order. Times are ms from its start. */
interface Sojourns {
  readonly sentMs: Float64Array
  readonly endMs: Float64Array
  /** Other requests in the system at each arrival. */
  readonly foundPresent: Int32Array
  /** Indices of the requests, in departure order. */
  readonly leaving: Int32Array
}

/** A departure this soon after an arrival is simultaneous. */
const roundingMs = 1e-6

const memoised = new WeakMap<LoadRun, Sojourns>()

/**
 * Collects the sojourns of the answered requests. Memoised for each run, as many candidate
 * disciplines use the same one.
 * @param overheadMs network and framework time of each request, by which its sojourn is shortened
 */
export function collectSojourns(run: LoadRun, overheadMs = 0): Sojourns {
  let sojourns = memoised.get(run)
  if (sojourns === undefined) {
    sojourns = computeSojourns(run)
    memoised.set(run, sojourns)
  }
  return overheadMs === 0 ? sojourns : subtractOverhead(overheadMs, sojourns)
}

function computeSojourns({ sentMs, latencyMs }: LoadRun): Sojourns {
  const answered = [...sentMs.keys()]
    .filter((i) => !Number.isNaN(latencyMs[i]!))
    .sort((a, b) => sentMs[a]! - sentMs[b]!)
  const arrivedMs = Float64Array.from(answered, (i) => sentMs[i]!)
  const endMs = arrivedMs.map((ms, i) => ms + latencyMs[answered[i]!]!)
  return orderSojourns(arrivedMs, endMs, [...endMs.keys()])
}

/**
 * Delays every arrival by the overhead. A request departs as observed, but not before its arrival.
 */
function subtractOverhead(overheadMs: number, { sentMs, endMs, leaving }: Sojourns): Sojourns {
  const arrivedMs = sentMs.map((ms) => ms + overheadMs)
  const leftMs = endMs.map((ms, i) => Math.max(ms, arrivedMs[i]!))
  return orderSojourns(arrivedMs, leftMs, [...leaving])
}

/** Sorts the requests by departure, and counts those present at each arrival. */
function orderSojourns(sentMs: Float64Array, endMs: Float64Array, indices: number[]): Sojourns {
  const leaving = new Int32Array(indices.sort((a, b) => endMs[a]! - endMs[b]!))
  let departed = 0
  const foundPresent = new Int32Array(sentMs.length)
  for (const [arrived, atMs] of sentMs.entries()) {
    while (departed < leaving.length && endMs[leaving[departed]!]! <= atMs + roundingMs) departed++
    foundPresent[arrived] = arrived - departed
  }
  return { sentMs, endMs, foundPresent, leaving }
}

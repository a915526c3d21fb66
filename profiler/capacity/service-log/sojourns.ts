/** The stays of requests at a server, from arrival to answer. */
import type { LoadRun } from '../../model/load-run.ts'

/** Of the requests of a run that were answered, in the order of their arrival. */
interface Stays {
  readonly sentMs: Float64Array
  readonly endMs: Float64Array
  /** Others that were there when each arrived. */
  readonly foundThere: Int32Array
  /** Their places in the order in which they left. */
  readonly leaving: Int32Array
}

const known = new WeakMap<LoadRun, Stays>()

/**
 * Sorted once for each run: many numbers of workers are tried on the same ones.
 * @param besideMs what each request takes beside the server, on its way there and back: it stays so
 * much shorter
 */
export function answeredOf(run: LoadRun, besideMs = 0): Stays {
  let stays = known.get(run)
  if (stays === undefined) {
    stays = staysOf(run)
    known.set(run, stays)
  }
  return besideMs === 0 ? stays : without(besideMs, stays)
}

function staysOf({ sentMs, latencyMs }: LoadRun): Stays {
  const answered = [...sentMs.keys()]
    .filter((i) => !Number.isNaN(latencyMs[i]!))
    .sort((a, b) => sentMs[a]! - sentMs[b]!)
  const cameMs = Float64Array.from(answered, (i) => sentMs[i]!)
  const endMs = cameMs.map((ms, i) => ms + latencyMs[answered[i]!]!)
  return inOrder(cameMs, endMs, [...endMs.keys()])
}

/** Requests came later by that much, and left when they did, or as they came. */
function without(besideMs: number, { sentMs, endMs, leaving }: Stays): Stays {
  const cameMs = sentMs.map((ms) => ms + besideMs)
  const leftMs = endMs.map((ms, i) => Math.max(ms, cameMs[i]!))
  return inOrder(cameMs, leftMs, [...leaving])
}

function inOrder(sentMs: Float64Array, endMs: Float64Array, places: number[]): Stays {
  const leaving = new Int32Array(places.sort((a, b) => endMs[a]! - endMs[b]!))
  let left = 0
  const foundThere = new Int32Array(sentMs.length)
  for (const [taken, atMs] of sentMs.entries()) {
    while (left < leaving.length && endMs[leaving[left]!]! <= atMs + 1e-6) left++
    foundThere[taken] = taken - left
  }
  return { sentMs, endMs, foundThere, leaving }
}

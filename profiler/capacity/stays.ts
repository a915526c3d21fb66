/** The stays of requests at a server, from arrival to answer. */
import type { LoadRun } from '../types.ts'

/** Of the requests of a run that were answered, in the order of their arrival. */
interface Stays {
  readonly sentMs: Float64Array
  readonly endMs: Float64Array
  /** Others that were there when each arrived. */
  readonly foundThere: Int32Array
}

const known = new WeakMap<LoadRun, Stays>()

/** Sorted once for each run: many numbers of workers are tried on the same ones. */
export function answeredOf(run: LoadRun): Stays {
  let stays = known.get(run)
  if (stays === undefined) {
    stays = staysOf(run)
    known.set(run, stays)
  }
  return stays
}

function staysOf({ sentMs, latencyMs }: LoadRun): Stays {
  const answered = [...sentMs.keys()].filter((i) => !Number.isNaN(latencyMs[i]!)).sort((a, b) => sentMs[a]! - sentMs[b]!)
  const endMs = Float64Array.from(answered, (i) => sentMs[i]! + latencyMs[i]!)
  const endsMs = endMs.slice().sort()
  let left = 0
  const foundThere = Int32Array.from(answered, (i, taken) => {
    while (left < endsMs.length && endsMs[left]! <= sentMs[i]! + 1e-6) left++
    return taken - left
  })
  return { sentMs: Float64Array.from(answered, (i) => sentMs[i]!), endMs, foundThere }
}

/**
 * Arrivals drawn once and stretched to each rate: as many requests of the same seed differ between
 * windows in nothing else.
 */
import { schedule } from '../../../profiler/load/arrivals.ts'
import type { Load } from '../../../profiler/model/load.ts'

type OpenLoad = Extract<Load, { kind: 'open' }>
type Schedule = (load: OpenLoad) => Float64Array

/** Windows of one search, and of a few more. */
const kept = 8

/**
 * The same times as the schedule's, to rounding; it is asked once for each seed, number of requests
 * and kind of arrivals that scales with time.
 */
export function stretching(): Schedule {
  const known = new Map<string, { readonly durationS: number; readonly atMs: Float64Array }>()
  return (load) => {
    const { arrivals, rateRps, durationS, seed } = load
    if (arrivals.kind !== 'poisson' && arrivals.kind !== 'gamma' && arrivals.kind !== 'constant')
      return schedule(load)
    const key = `${arrivals.kind} ${arrivals.kind === 'gamma' ? arrivals.cv : ''} ${Math.max(1, Math.round(rateRps * durationS))} ${seed}`
    const drawn = known.get(key) ?? { durationS, atMs: schedule(load) }
    known.delete(key)
    known.set(key, drawn)
    if (known.size > kept) known.delete(known.keys().next().value!)
    const stretch = durationS / drawn.durationS
    const atMs = new Float64Array(drawn.atMs)
    for (let i = 0; i < atMs.length; i++) atMs[i]! *= stretch
    return atMs
  }
}

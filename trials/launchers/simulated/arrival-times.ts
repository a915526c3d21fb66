/**
 * Arrivals sampled once and stretched to each rate, so that windows with the same seed and number
 * of requests differ only in their rate.
 */
import { schedule } from '../../../profiler/load/arrivals.ts'
import type { Load } from '../../../profiler/model/load.ts'

type OpenLoad = Extract<Load, { kind: 'open' }>
type Schedule = (load: OpenLoad) => Float64Array

/** Enough for the windows of a search. */
const maxSchedules = 8

/**
 * Creates the times of `schedule`, up to rounding. It samples once for each seed, number of
 * requests and kind of arrivals that scales with time.
 */
export function createStretchedSchedule(): Schedule {
  const schedules = new Map<string, { readonly durationS: number; readonly atMs: Float64Array }>()
  return (load) => {
    const { arrivals, rateRps, durationS, seed } = load
    if (arrivals.kind !== 'poisson' && arrivals.kind !== 'gamma' && arrivals.kind !== 'constant')
      return schedule(load)
    const key = `${arrivals.kind} ${arrivals.kind === 'gamma' ? arrivals.cv : ''} ${Math.max(1, Math.round(rateRps * durationS))} ${seed}`
    const sampled = schedules.get(key) ?? { durationS, atMs: schedule(load) }
    schedules.delete(key)
    schedules.set(key, sampled)
    if (schedules.size > maxSchedules) schedules.delete(schedules.keys().next().value!)
    const stretch = durationS / sampled.durationS
    const atMs = new Float64Array(sampled.atMs)
    for (let i = 0; i < atMs.length; i++) atMs[i]! *= stretch
    return atMs
  }
}

/**
 * Detects a server that still speeds up while it is measured: compiling, filling caches, raising
 * its clock. The change from one window to the next may be too small to detect, so the first third
 * of all steps is compared with the last third. The final speed remains unknown.
 */

import { joinServiceLogs, type ServiceLog, sliceServiceLog } from '../service-log/service-log.ts'
import { compareDurations } from './slowdown.ts'

const minSteps = 36
/** Standard errors that make a difference significant. */
const minStandardErrors = 4
/** Smallest credible standard error, given the resolution and drift of clocks. */
const minError = 1e-3
/** A larger gain has another cause: some windows hold other types of requests than others. */
const maxGain = 0.4
/** Share of the gain that must appear in each half of the time. */
const minHalfGainShare = 0.2

/**
 * Speed gained per second, as a share, from the first to the last third of the steps. 0 where the
 * gain is not significant or too few steps were observed.
 * @param windows logs of windows at about one rate, in time order
 */
export function estimateSpeedUpPerS(windows: readonly ServiceLog[]): number {
  let beforeMs = 0
  const all = joinServiceLogs(
    windows.map((log) => {
      const offsetMs = beforeMs
      beforeMs += log.endedMs.at(-1) ?? 0
      return { ...log, endedMs: log.endedMs.map((ms) => offsetMs + ms) }
    }),
  )
  const count = all.tookMs.length
  if (count < minSteps) return 0
  const third = Math.floor(count / 3)
  const [first, second, last] = [
    sliceServiceLog(all, 0, third),
    sliceServiceLog(all, third, 2 * third),
    sliceServiceLog(all, -third),
  ]
  const { slowdownShare, error } = compareDurations(first, last)
  const gained = -slowdownShare
  if (!(gained > minStandardErrors * Math.max(error, minError)) || gained > maxGain) return 0
  // A gradual speed-up shows in both halves; one group of different steps does not.
  const halves = [compareDurations(first, second), compareDurations(second, last)]
  if (halves.some((half) => -half.slowdownShare < minHalfGainShare * gained)) return 0
  return (1000 * gained) / (middle(last.endedMs) - middle(first.endedMs))
}

const middle = (ascending: readonly number[]): number => ascending[ascending.length >> 1]!

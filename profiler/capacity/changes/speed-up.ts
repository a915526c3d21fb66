/**
 * A server that still gets faster while it is measured: compiling, filling caches, raising its
 * clock. From one window to the next it may change too little to be seen; from the first to the
 * last it does not, and how much faster it will get in the end no measurement can know.
 */

import { joinSteps, type Steps, sliceSteps } from '../service-log/service-log.ts'
import { comparison } from './slowdown.ts'

const fewestSteps = 36
/** Standard errors beyond which a difference is one, and the least error, as clocks have it. */
const certain = 4
const leastError = 1e-3
/**
 * Beyond this a window differs from the one before: steps of several kinds, of which others were
 * seen, do too.
 */
const mostGained = 0.4
/** Share of what is gained that either half of the time has to show. */
const leastPart = 0.2

/**
 * Speed gained per second, as a share, from the first third of the steps to the last; 0 where it is
 * none beyond chance, or too few steps tell.
 * @param windows steps of windows of about one rate, in the order of time
 */
export function speedUpPerS(windows: readonly Steps[]): number {
  let beforeMs = 0
  const all = joinSteps(
    windows.map((steps) => {
      const offsetMs = beforeMs
      beforeMs += steps.endedMs.at(-1) ?? 0
      return { ...steps, endedMs: steps.endedMs.map((ms) => offsetMs + ms) }
    }),
  )
  const count = all.tookMs.length
  if (count < fewestSteps) return 0
  const third = Math.floor(count / 3)
  const [first, second, last] = [
    sliceSteps(all, 0, third),
    sliceSteps(all, third, 2 * third),
    sliceSteps(all, -third),
  ]
  const { slower, error } = comparison(first, last)
  const gained = -slower
  if (!(gained > certain * Math.max(error, leastError)) || gained > mostGained) return 0
  // Little by little: one lot of other steps is none.
  const parts = [comparison(first, second), comparison(second, last)]
  if (parts.some((part) => -part.slower < leastPart * gained)) return 0
  return (1000 * gained) / (middle(last.endedMs) - middle(first.endedMs))
}

const middle = (ascending: readonly number[]): number => ascending[ascending.length >> 1]!

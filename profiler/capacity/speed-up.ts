/**
 * A server that still gets faster while it is measured: compiling, filling caches, raising its clock. From one window to the next it may change too little to be seen;
 * from the first to the last it does not, and how much faster it will get in the end no measurement can know.
 */
import { comparison } from './slowdown.ts'
import type { Steps } from './steps.ts'

const fewestSteps = 36
/** Standard errors beyond which a difference is one, and the least error, as clocks have it. */
const certain = 4
const leastError = 1e-3
/** Beyond this a window differs from the one before: steps of several kinds, of which others were seen, do too. */
const mostGained = 0.4
/** Share of what is gained that either half of the time has to show. */
const leastPart = 0.2

/**
 * Speed gained per second, as a share, from the first third of the steps to the last; 0 where it is none beyond chance, or too few steps tell.
 * @param windows steps of windows of about one rate, in the order of time
 */
export function speedUpPerS(windows: readonly Steps[]): number {
  let beforeMs = 0
  const all = windows.flatMap((steps) => {
    const offsetMs = beforeMs
    beforeMs += steps.endedMs.at(-1) ?? 0
    return steps.tookMs.map((tookMs, i) => ({
      present: steps.present[i]!,
      tookMs,
      departed: steps.departed[i]!,
      rank: steps.rank[i]!,
      endedMs: offsetMs + steps.endedMs[i]!,
      spreadMs: steps.spreadMs[i]!,
    }))
  })
  if (all.length < fewestSteps) return 0
  const third = Math.floor(all.length / 3)
  const [first, second, last] = [all.slice(0, third), all.slice(third, 2 * third), all.slice(-third)].map(columns) as [Steps, Steps, Steps]
  const { slower, error } = comparison(first, last)
  const gained = -slower
  if (!(gained > certain * Math.max(error, leastError)) || gained > mostGained) return 0
  // Little by little: one lot of other steps is none.
  const parts = [comparison(first, second), comparison(second, last)]
  if (parts.some((part) => -part.slower < leastPart * gained)) return 0
  return (1000 * gained) / (middle(last.endedMs) - middle(first.endedMs))
}

const middle = (ascending: readonly number[]): number => ascending[ascending.length >> 1]!

function columns(steps: readonly { readonly [K in keyof Steps]: number }[]): Steps {
  const of = (key: keyof Steps) => steps.map((step) => step[key])
  return {
    present: of('present'),
    tookMs: of('tookMs'),
    departed: of('departed'),
    rank: of('rank'),
    endedMs: of('endedMs'),
    spreadMs: of('spreadMs'),
  }
}

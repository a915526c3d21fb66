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
  const [first, last] = [all.slice(0, third), all.slice(-third)].map(columns) as [Steps, Steps]
  const { slower, error } = comparison(first, last)
  const faster = -slower
  if (!(faster > certain * Math.max(error, leastError))) return 0
  return (1000 * faster) / (middle(last.endedMs) - middle(first.endedMs))
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

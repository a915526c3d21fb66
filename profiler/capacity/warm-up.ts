import { type Moments, momentsOf } from '../statistics/dependence.ts'
import type { LoadRun, Measurement } from '../types.ts'
import { grew } from './saturation.ts'

/**
 * Plays windows until one is no faster than the one before by more than chance (two standard errors, or 2 %), or `most`. A window that was cut
 * short does not end it; one that is not played (undefined) does.
 */
export async function untilNoFaster(most: number, play: (window: number) => Promise<LoadRun | undefined>): Promise<void> {
  let before: Moments | undefined
  for (let window = 0; window < most; window++) {
    const run = await play(window)
    if (run === undefined) return
    const now = momentsOf(run.latencyMs)
    if (before !== undefined && run.cutMs === undefined && !faster(now, before)) return
    before = now
  }
}

const faster = (now: Moments, before: Moments): boolean =>
  now.mean <= before.mean - Math.max(0.02 * before.mean, 2 * Math.hypot(now.standardError, before.standardError))

export type WarmUp = NonNullable<Measurement['warmUp']>

/** Requests after which a server of which nothing is known is warm, if it warms by their number; and how long a trial can wait for it, seconds. */
const requestsUnknown = 512
const mostS = 16
/** Of a server that was watched for so many before: fewest, and as many times those after which it was steady. */
const fewestKnown = 128
const beyondSteady = 1.5

/** Where a warm-up stands. */
interface Warming {
  readonly requests: number
  readonly seconds: number
  /** Requests of its windows by number. */
  readonly answered: readonly number[]
}

/**
 * Whether caches, compilers and lazily loaded models are warm, or have had as long as a trial can wait: after so many requests, unless the last windows still
 * answered more and more, as they do while ever fewer of them miss a cache. What takes time more than requests is left to the closed loops of the saturation.
 */
export const warmByCount = ({ requests, seconds, answered }: Warming, enough = requestsUnknown): boolean =>
  seconds >= mostS || (requests >= enough && !(answered.length >= 4 && grew(answered.slice(-8))))

/** What a warm-up has shown, for those of servers alike. @param requests of all of it @param answered of its windows by number */
export function warmUpOf(requests: number, answered: readonly number[]): WarmUp {
  const first = answered.findIndex((_, i) => !grew(answered.slice(i)))
  const after = first < 0 ? 0 : answered.slice(first).reduce((sum, count) => sum + count, 0)
  return { requests, steadyAfter: requests - after }
}

/** How many requests warm a server whose kind was warmed before; undefined where no warm-up of it was as long as one of an unknown server. */
export function requestsToWarm(seen: readonly WarmUp[]): number | undefined {
  const watched = seen.filter(({ requests }) => requests >= requestsUnknown)
  if (watched.length === 0) return undefined
  return Math.min(requestsUnknown, Math.max(fewestKnown, ...watched.map(({ steadyAfter }) => Math.ceil(beyondSteady * steadyAfter))))
}

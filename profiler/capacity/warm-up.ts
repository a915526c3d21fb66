import { mean, sum } from 'simple-statistics'
import { type Moments, momentsOf } from '../statistics/dependence.ts'
import { untilLastRps } from '../load/load-point.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Measurement } from '../model/measurement.ts'
import { firstConnections, grew } from './saturation.ts'
import type { Session } from './session.ts'

/**
 * Plays windows until one is no faster than the one before by more than chance (two standard
 * errors, or 2 %), or `most`. A window that was cut short does not end it; one that is not played
 * (undefined) does.
 */
export async function untilNoFaster(
  most: number,
  play: (window: number) => Promise<LoadRun | undefined>,
): Promise<void> {
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
  now.mean <=
  before.mean -
    Math.max(0.02 * before.mean, 2 * Math.hypot(now.standardError, before.standardError))

export type WarmUp = NonNullable<Measurement['warmUp']>

/**
 * Requests after which a server of which nothing is known is warm, if it warms by their number; and
 * how long a trial can wait for it, seconds.
 */
const requestsUnknown = 512
const mostS = 16
/**
 * Of a server that was watched for so many before: fewest, and as many times those after which it
 * was steady.
 */
const fewestKnown = 128
const beyondSteady = 1.5

/** A closed loop of the warm-up by number. */
interface WarmUpWindow {
  /** Answers per second up to the last one, and while it was sent. */
  readonly rps: number
  readonly achievedRps: number
  readonly elapsedS: number
  /** When it ended, seconds under load. */
  readonly untilS: number
}

/**
 * Windows that show whether a server still gets faster: a fast one in few, a slow one in many, of
 * whose gain the last quarter may have had a part.
 */
const fewestGaining = 4
const leastGaining = 8
const leastOfGain = 0.1

/** Warms a server by the number of its requests, and tells whether it is warm. */
export class WarmUpByNumber {
  readonly windows: WarmUpWindow[] = []
  /**
   * Share of its speed that it gained per second when it was looked at last, beyond chance; 0 where
   * it was level, or too few windows told.
   */
  gainPerS = 0

  constructor(
    private readonly session: Session,
    private readonly windowS: number,
  ) {}

  get achievedRps(): readonly number[] {
    return this.windows.map(({ achievedRps }) => achievedRps)
  }

  async play(): Promise<LoadPoint> {
    const point = await this.window()
    this.gainPerS = gainOf(this.windows)
    return point
  }

  /**
   * Whether caches, compilers and lazily loaded models are warm, or have had as long as a trial can
   * wait: after so many requests, unless the last windows still answered more and more, as they do
   * while ever fewer of them miss a cache. What takes time more than requests is left to the closed
   * loops of the saturation.
   */
  isWarm(enough = requestsUnknown): boolean {
    const { session, gainPerS } = this
    return session.totalS >= mostS || (session.requests >= enough && gainPerS === 0)
  }

  /**
   * Looks again at a server that was still gaining when it was looked at last, and had other load
   * since: by as many windows now as the last ones then.
   */
  async lookAgain(): Promise<void> {
    if (this.gainPerS === 0) return
    const before = Math.min(leastGaining, this.windows.length)
    for (let i = 0; i < before; i++) await this.window()
    const all = this.windows.slice(-2 * before)
    this.gainPerS = grew(answeredIn(all)) ? gainedPerS(all) : 0
  }

  private async window(): Promise<LoadPoint> {
    const { run, point } = await this.session.closed(
      firstConnections,
      this.windowS,
      'warm-up',
      false,
    )
    this.windows.push({
      rps: untilLastRps(run),
      achievedRps: point.achievedRps,
      elapsedS: run.elapsedS,
      untilS: this.session.totalS,
    })
    return point
  }
}

function gainOf(windows: readonly WarmUpWindow[]): number {
  if (windows.length < fewestGaining) return 0
  for (let count = leastGaining; count < 2 * Math.max(leastGaining, windows.length); count *= 2) {
    const last = windows.slice(-count)
    const answered = answeredIn(last)
    const half = answered.length >> 1
    const gained = sum(answered.slice(-half)) - sum(answered.slice(0, half))
    if (grew(answered) && !isLevel(answered.slice(-half), leastOfGain * gained))
      return gainedPerS(last)
  }
  return 0
}

/**
 * Whether the later half of windows answered less than so many more, beyond the chance of arrivals
 * at random.
 */
function isLevel(answered: readonly number[], more: number): boolean {
  const half = answered.length >> 1
  const [earlier, later] = [sum(answered.slice(0, half)), sum(answered.slice(-half))]
  return later - earlier + Math.sqrt(earlier + later) < more
}

/**
 * Share of its speed that a server gained per second from the earlier half of windows to the later.
 */
function gainedPerS(windows: readonly WarmUpWindow[]): number {
  const half = windows.length >> 1
  const [earlier, later] = [windows.slice(0, half), windows.slice(-half)]
  const rpsOf = (of: readonly WarmUpWindow[]) => mean(of.map(({ rps }) => rps))
  const middleS = (of: readonly WarmUpWindow[]) =>
    mean(of.map(({ untilS, elapsedS }) => untilS - elapsedS / 2))
  return (rpsOf(later) / rpsOf(earlier) - 1) / (middleS(later) - middleS(earlier))
}

/** Answers of windows, were all as long as they are on the mean. */
function answeredIn(windows: readonly WarmUpWindow[]): number[] {
  const meanS = mean(windows.map(({ elapsedS }) => elapsedS))
  return windows.map(({ rps }) => rps * meanS)
}

/**
 * What a warm-up has shown, for those of servers alike. @param requests of all of it @param windows
 * by number
 */
export function warmUpOf(requests: number, windows: readonly WarmUpWindow[]): WarmUp {
  const first = windows.findIndex((_, i) => !grew(answeredIn(windows.slice(i))))
  const after =
    first < 0 ? 0 : windows.slice(first).reduce((sum, { rps, elapsedS }) => sum + rps * elapsedS, 0)
  return { requests, steadyAfter: requests - Math.round(after) }
}

/**
 * After how many requests a server is steady whose kind was warmed before; undefined where no
 * warm-up of it was as long as one of an unknown server.
 */
export function requestsUntilSteady(seen: readonly WarmUp[]): number | undefined {
  const watched = seen.filter(({ requests }) => requests >= requestsUnknown)
  if (watched.length === 0) return undefined
  return Math.max(
    fewestKnown,
    ...watched.map(({ steadyAfter }) => Math.ceil(beyondSteady * steadyAfter)),
  )
}

/**
 * How many of them warm it before its saturation is looked for, which warms it further: no more
 * than an unknown one gets.
 */
export function requestsToWarm(seen: readonly WarmUp[]): number | undefined {
  const steady = requestsUntilSteady(seen)
  return steady && Math.min(requestsUnknown, steady)
}

import { mean, sum } from 'simple-statistics'
import { computeRateUntilLast } from '../load/throughput.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Measurement } from '../model/measurement.ts'
import { computeLatencyMoments, type Moments } from '../statistics/dependence.ts'
import { firstConnections, hasGrown } from './saturation.ts'
import type { Session } from './session.ts'

/**
 * Plays windows until one is not significantly faster than the one before (two standard errors and
 * 2 %), or until `maxWindows`. A window that was cut short does not end the warm-up. `play` ends it
 * by returning undefined.
 */
export async function warmUntilSteady(
  maxWindows: number,
  play: (window: number) => Promise<LoadRun | undefined>,
): Promise<void> {
  let before: Moments | undefined
  for (let window = 0; window < maxWindows; window++) {
    const run = await play(window)
    if (run === undefined) return
    const now = computeLatencyMoments(run.latencyMs)
    if (before !== undefined && run.cutMs === undefined && !isFaster(now, before)) return
    before = now
  }
}

const isFaster = (now: Moments, before: Moments): boolean =>
  now.mean <=
  before.mean -
    Math.max(0.02 * before.mean, 2 * Math.hypot(now.standardError, before.standardError))

export type WarmUp = NonNullable<Measurement['warmUp']>

/**
 * Requests after which a server counts as warm, where no earlier warm-up of its type is recorded.
 */
const defaultWarmUpRequests = 512
/** Longest time under load that a trial waits for a warm server, seconds. */
const maxWarmUpS = 16
/** Minimum number of requests where earlier warm-ups of the type are recorded. */
const minKnownRequests = 128
/** Safety factor on the requests after which those servers were steady. */
const steadyMargin = 1.5

/** A closed loop of the warm-up by requests. */
interface WarmUpWindow {
  /** Answers per second until the last one, and until the end of sending. */
  readonly rps: number
  readonly achievedRps: number
  readonly elapsedS: number
  /** End of the loop, in seconds under load. */
  readonly untilS: number
}

/** Windows from which a fast speed-up can be detected. */
const minGainWindows = 4
/** Last windows that show a slow speed-up. Their number is doubled while none is found. */
const minSlowGainWindows = 8
/**
 * Share of the gain that must appear within the later half of these windows. Otherwise the server
 * has become level.
 */
const minLastGainShare = 0.1

/** Warms a server by a number of requests, and detects whether it is warm. */
export class RequestWarmUp {
  readonly windows: WarmUpWindow[] = []
  /**
   * Share of its speed that the server gained per second at the last check, beyond chance. 0 where
   * it was level or too few windows were played.
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
    this.gainPerS = estimateGain(this.windows)
    return point
  }

  /**
   * Whether caches, compilers and lazily loaded models are warm, or the longest time is over. A
   * server is warm after `enough` requests, unless its throughput was still growing over the last
   * windows, as while a cache fills. Warm-ups that depend on time are left to the loops of the
   * saturation.
   */
  isWarm(enough = defaultWarmUpRequests): boolean {
    const { session, gainPerS } = this
    return session.totalS >= maxWarmUpS || (session.requests >= enough && gainPerS === 0)
  }

  /**
   * Checks again whether the server speeds up, if it did at the last check. It has been under other
   * load since. The check plays as many windows as the last one used.
   */
  async recheckGain(): Promise<void> {
    if (this.gainPerS === 0) return
    const before = Math.min(minSlowGainWindows, this.windows.length)
    for (let i = 0; i < before; i++) await this.window()
    const all = this.windows.slice(-2 * before)
    this.gainPerS = hasGrown(normaliseAnswers(all)) ? computeGainPerS(all) : 0
  }

  private async window(): Promise<LoadPoint> {
    const { run, point } = await this.session.closed(
      firstConnections,
      this.windowS,
      'warm-up',
      false,
    )
    this.windows.push({
      rps: computeRateUntilLast(run),
      achievedRps: point.achievedRps,
      elapsedS: run.elapsedS,
      untilS: this.session.totalS,
    })
    return point
  }
}

function estimateGain(windows: readonly WarmUpWindow[]): number {
  if (windows.length < minGainWindows) return 0
  for (
    let count = minSlowGainWindows;
    count < 2 * Math.max(minSlowGainWindows, windows.length);
    count *= 2
  ) {
    const last = windows.slice(-count)
    const answered = normaliseAnswers(last)
    const half = answered.length >> 1
    const gained = sum(answered.slice(-half)) - sum(answered.slice(0, half))
    if (hasGrown(answered) && !hasLevelled(answered.slice(-half), minLastGainShare * gained))
      return computeGainPerS(last)
  }
  return 0
}

/**
 * Whether the later half of the windows answered significantly less than `gain` beyond the earlier
 * half, given Poisson noise.
 */
function hasLevelled(answered: readonly number[], gain: number): boolean {
  const half = answered.length >> 1
  const [earlier, later] = [sum(answered.slice(0, half)), sum(answered.slice(-half))]
  return later - earlier + Math.sqrt(earlier + later) < gain
}

/**
 * Computes the share of its speed that a server gained per second, from the earlier to the later
 * half of the windows.
 */
function computeGainPerS(windows: readonly WarmUpWindow[]): number {
  const half = windows.length >> 1
  const [earlier, later] = [windows.slice(0, half), windows.slice(-half)]
  const rpsOf = (of: readonly WarmUpWindow[]) => mean(of.map(({ rps }) => rps))
  const middleS = (of: readonly WarmUpWindow[]) =>
    mean(of.map(({ untilS, elapsedS }) => untilS - elapsedS / 2))
  return (rpsOf(later) / rpsOf(earlier) - 1) / (middleS(later) - middleS(earlier))
}

/** Answers of windows, scaled to their mean length. */
function normaliseAnswers(windows: readonly WarmUpWindow[]): number[] {
  const meanS = mean(windows.map(({ elapsedS }) => elapsedS))
  return windows.map(({ rps }) => rps * meanS)
}

/**
 * Summarises a warm-up, for later servers of the same type.
 * @param requests number of all requests
 * @param windows windows of the warm-up by requests
 */
export function summariseWarmUp(requests: number, windows: readonly WarmUpWindow[]): WarmUp {
  const first = windows.findIndex((_, i) => !hasGrown(normaliseAnswers(windows.slice(i))))
  const after =
    first < 0 ? 0 : windows.slice(first).reduce((sum, { rps, elapsedS }) => sum + rps * elapsedS, 0)
  return { requests, steadyAfter: requests - Math.round(after) }
}

/**
 * Estimates the requests after which servers of this type are steady. Undefined where no earlier
 * warm-up had `defaultWarmUpRequests`.
 */
export function estimateRequestsUntilSteady(warmUps: readonly WarmUp[]): number | undefined {
  const complete = warmUps.filter(({ requests }) => requests >= defaultWarmUpRequests)
  if (complete.length === 0) return undefined
  return Math.max(
    minKnownRequests,
    ...complete.map(({ steadyAfter }) => Math.ceil(steadyMargin * steadyAfter)),
  )
}

/**
 * Estimates the requests that warm a server of this type before the saturation loops, which warm it
 * further. At most `defaultWarmUpRequests`.
 */
export function estimateRequestsToWarm(warmUps: readonly WarmUp[]): number | undefined {
  const steady = estimateRequestsUntilSteady(warmUps)
  return steady && Math.min(defaultWarmUpRequests, steady)
}

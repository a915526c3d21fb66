import { mean, sum } from 'simple-statistics'
import { computeRateUntilLast } from '../load/throughput.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Measurement } from '../model/measurement.ts'
import { computeLatencyMoments, type Moments } from '../statistics/dependence.ts'
import { firstConnections, hasGrown } from './saturation.ts'
import type { Session } from './session.ts'

/**
 * Plays windows until one is not significantly faster than the one before (two standard errors, or
 * 2 %), or until `maxWindows`. A window that was cut short does not end the warm-up; a window that
 * is not played (undefined) does.
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
 * Requests after which an unknown server counts as warm, and the longest time that a trial waits
 * for that, seconds.
 */
const defaultWarmUpRequests = 512
const maxWarmUpS = 16
/**
 * For servers with earlier warm-ups: the minimum number of requests, and the factor on those after
 * which they were steady.
 */
const minKnownRequests = 128
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

/**
 * Windows that show whether a server still speeds up: few for a fast change, many for a slow one,
 * whose last quarter must still show part of the gain.
 */
const minGainWindows = 4
const minSlowGainWindows = 8
const minLastGainShare = 0.1

/** Warms a server by a number of requests, and shows whether it is warm. */
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
   * Whether caches, compilers and lazily loaded models are warm, or a trial can wait no longer. A
   * server is warm after `enough` requests, unless the last windows still answered more and more,
   * as they do while ever fewer requests miss a cache. Warm-ups that depend on time are left to the
   * loops of the saturation.
   */
  isWarm(enough = defaultWarmUpRequests): boolean {
    const { session, gainPerS } = this
    return session.totalS >= maxWarmUpS || (session.requests >= enough && gainPerS === 0)
  }

  /**
   * Checks a server again that was still speeding up at the last check and has had other load
   * since, with as many windows as then.
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
 * Whether the later half of the windows answered less than `more` beyond the earlier half, given
 * the noise of random arrivals.
 */
function hasLevelled(answered: readonly number[], more: number): boolean {
  const half = answered.length >> 1
  const [earlier, later] = [sum(answered.slice(0, half)), sum(answered.slice(-half))]
  return later - earlier + Math.sqrt(earlier + later) < more
}

/**
 * Share of its speed that a server gained per second from the earlier to the later half of the
 * windows.
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
 * Requests after which servers of this type are steady. Undefined where no earlier warm-up was as
 * long as that of an unknown server.
 */
export function estimateRequestsUntilSteady(warmUps: readonly WarmUp[]): number | undefined {
  const watched = warmUps.filter(({ requests }) => requests >= defaultWarmUpRequests)
  if (watched.length === 0) return undefined
  return Math.max(
    minKnownRequests,
    ...watched.map(({ steadyAfter }) => Math.ceil(steadyMargin * steadyAfter)),
  )
}

/**
 * Requests that warm a server of this type before its saturation, which warms it further; no more
 * than for an unknown server.
 */
export function estimateRequestsToWarm(warmUps: readonly WarmUp[]): number | undefined {
  const steady = estimateRequestsUntilSteady(warmUps)
  return steady && Math.min(defaultWarmUpRequests, steady)
}

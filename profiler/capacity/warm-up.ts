import { mean } from 'simple-statistics'
import { computeMeanThroughput } from '../load/throughput.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Measurement } from '../model/measurement.ts'
import { findSteadyStart } from '../statistics/change-detector.ts'
import { computeLoopSpeeds, hasGrown, minLoopGrowth } from './changes/loop-speeds.ts'
import { computeGains } from './changes/speed-change.ts'
import { firstConnections, type WarmUpLoop } from './saturation.ts'
import type { Session } from './session.ts'

/**
 * Plays windows until one is not faster than the one before, or until `maxWindows`. A window that
 * was cut short does not end the warm-up. `play` ends it by returning undefined. Speeds are
 * reciprocal latencies.
 */
export async function warmUntilSteady(
  maxWindows: number,
  play: (window: number) => Promise<LoadRun | undefined>,
): Promise<void> {
  let previousSpeeds: readonly number[] | undefined
  for (let window = 0; window < maxWindows; window++) {
    const run = await play(window)
    if (run === undefined) return
    const speeds = [...run.latencyMs].filter((ms) => !Number.isNaN(ms)).map((ms) => 1 / ms)
    const isComparable = previousSpeeds !== undefined && run.cutMs === undefined
    if (isComparable && !hasGrown([previousSpeeds!, speeds])) return
    previousSpeeds = speeds
  }
}

export type WarmUp = NonNullable<Measurement['warmUp']>

/**
 * Requests after which a server counts as warm, where no earlier warm-up of its type is recorded.
 * Assumed.
 */
const defaultWarmUpRequests = 512
/** Longest time under load that a trial waits for a warm server, seconds. Assumed. */
const maxWarmUpS = 16
/** Minimum number of requests where earlier warm-ups of the type are recorded. Assumed. */
const minRequestsIfRecorded = 128
/** Safety factor on the recorded number of requests until steady. Assumed. */
const steadyMargin = 1.5

/** A closed loop of the warm-up by requests. */
interface WarmUpWindow extends WarmUpLoop {
  readonly rpsUntilLastAnswer: number
  readonly elapsedS: number
  /** End of the loop, in seconds under load. */
  readonly untilS: number
}

/**
 * Number of last windows over which a gain is estimated first. It doubles until a gain is found or
 * all windows are used. Assumed.
 */
const minGainWindows = 8
/**
 * Share of the gain that must appear within the last third of these windows. Otherwise the server
 * has become level. Assumed.
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

  async play(): Promise<LoadPoint> {
    const point = await this.playWindow()
    this.gainPerS = estimateGain(this.windows)
    return point
  }

  /**
   * Whether caches, compilers and lazily loaded models are warm, or the longest time is over. A
   * server is warm after `minRequests` requests, unless its throughput was still growing over the
   * last windows, as while a cache fills. Warm-ups that depend on time are left to the loops of the
   * saturation.
   */
  isWarm(minRequests = defaultWarmUpRequests): boolean {
    const { session, gainPerS } = this
    return session.totalS >= maxWarmUpS || (session.requests >= minRequests && gainPerS === 0)
  }

  /**
   * Checks again whether the server speeds up, if it did at the last check. It has been under other
   * load since. Compares up to `minGainWindows` new windows with as many before.
   */
  async recheckGain(): Promise<void> {
    if (this.gainPerS === 0) return
    const windowCount = Math.min(minGainWindows, this.windows.length)
    for (let i = 0; i < windowCount; i++) await this.playWindow()
    const all = this.windows.slice(-2 * windowCount)
    this.gainPerS = hasGrown(all.map(({ speeds }) => speeds)) ? computeGainPerS(all) : 0
  }

  private async playWindow(): Promise<LoadPoint> {
    const { run, point } = await this.session.playClosed(
      firstConnections,
      this.windowS,
      'warm-up',
      false,
    )
    this.windows.push({
      rpsUntilLastAnswer: computeMeanThroughput(run),
      rpsUntilSendingEnds: point.achievedRps,
      speeds: computeLoopSpeeds(run),
      elapsedS: run.elapsedS,
      untilS: this.session.totalS,
    })
    return point
  }
}

function estimateGain(windows: readonly WarmUpWindow[]): number {
  for (
    let count = minGainWindows;
    count < 2 * Math.max(minGainWindows, windows.length);
    count *= 2
  ) {
    const last = windows.slice(-count)
    const speeds = last.map((window) => window.speeds)
    if (!hasGrown(speeds)) continue
    const { total, late } = computeGains(speeds.flat())
    if (late >= minLastGainShare * total) return computeGainPerS(last)
  }
  return 0
}

/**
 * Computes the share of its speed that a server gained per second, from the earlier to the later
 * half of the windows.
 */
function computeGainPerS(windows: readonly WarmUpWindow[]): number {
  const halfLength = windows.length >> 1
  const [earlier, later] = [windows.slice(0, halfLength), windows.slice(-halfLength)]
  const averageRps = (half: readonly WarmUpWindow[]) =>
    mean(half.map(({ rpsUntilLastAnswer }) => rpsUntilLastAnswer))
  const averageMiddleS = (half: readonly WarmUpWindow[]) =>
    mean(half.map(({ untilS, elapsedS }) => untilS - elapsedS / 2))
  const gain = averageRps(later) / averageRps(earlier) - 1
  return gain / (averageMiddleS(later) - averageMiddleS(earlier))
}

/**
 * Summarises a warm-up, for later servers of the same type.
 * @param requests number of all requests
 * @param windows windows of the warm-up by requests
 */
export function summariseWarmUp(requests: number, windows: readonly WarmUpWindow[]): WarmUp {
  const firstSteady = findSteadyStart(
    windows.map(({ speeds }) => speeds),
    minLoopGrowth,
  )
  const steadyRequests = windows
    .slice(firstSteady)
    .reduce((sum, { rpsUntilLastAnswer, elapsedS }) => sum + rpsUntilLastAnswer * elapsedS, 0)
  return { requests, steadyAfter: requests - Math.round(steadyRequests) }
}

/**
 * Estimates the requests after which servers of this type are steady. Undefined where no earlier
 * warm-up had `defaultWarmUpRequests`.
 */
export function estimateRequestsUntilSteady(warmUps: readonly WarmUp[]): number | undefined {
  const complete = warmUps.filter(({ requests }) => requests >= defaultWarmUpRequests)
  if (complete.length === 0) return undefined
  return Math.max(
    minRequestsIfRecorded,
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

/**
 * Saturation: the throughput of closed loops, whatever their latency. It shows where to search for
 * the capacity, and completes the warm-up.
 */
import { linearRegression, linearRegressionLine, sum } from 'simple-statistics'
import { computeRateUntilLast, computeRateWhileAllWait } from '../load/throughput.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import { exceedsErrorRate } from '../model/slo.ts'
import type { Effort } from './effort.ts'
import { agreesWithExpectation } from './expectation.ts'
import type { Session } from './session.ts'

/** Closed loops that the search for the saturation of a cold server may use. */
const maxRounds = 12
/**
 * Connections of the first loop and of the warm-up by requests: enough for small batches, too few
 * to overload.
 */
export const firstConnections = 8
const maxConnections = 1024
/** Opening more connections would use up a whole window, and few servers reach more with them. */
const maxConnectionsAtOnce = 128
/**
 * Time that all loops may wait for last answers beyond their length. At a slow server many requests
 * wait for long, and waiting longer shows nothing new.
 */
const maxOverrunS = 6
/**
 * Last loops that show whether the throughput still grows: a cold server may pause on its way up.
 */
const minLevelWindows = 4
/** Number of them that use the final number of connections, as one may meet an outage. */
const minWindowsAtEnd = 2
/** The same for an expected throughput: two loops that agree with it. */
const minExpectedWindows = 2
/**
 * Factor on the connections from loop to loop, where all requests that the SLO allows to wait take
 * longer than a loop.
 */
const connectionFactor = 4
/** Growth of the throughput that makes more connections worthwhile. */
const minGrowth = 1.05
/**
 * A loop that reaches less than this share of the throughput with fewer connections, before each of
 * them had two answers, was spent on opening connections. The next one is twice as long.
 */
const minUsefulShare = 0.75
/** Longest such loop, as a multiple of a loop's length. */
const maxWindowFactor = 4
/** Connections fewer by this factor are enough. */
const enoughFactor = 1.3

interface Saturation {
  readonly rps: number
  readonly connections: number
  readonly generatorLimited: boolean
  /** The host disturbed every loop with this number of connections. */
  readonly disturbed: boolean
  /** The last loop, which ended the search where the server died. */
  readonly point: LoadPoint
  readonly died: boolean
  /** The last loop with too many refusals. */
  readonly refusedLoop?: LoadRun
}

interface SaturationOptions {
  readonly maxConnectionCount?: number
  /**
   * Expected throughput: two loops that agree with it are enough. Connections climb all the same,
   * as a cold server answers none of many at once.
   */
  readonly expectedRps?: number
  /** Answers per second of warm-up loops with `firstConnections`. */
  readonly warmedRps?: readonly number[]
}

/** Requests that may wait at a rate before the SLO is violated, and a fifth more. */
const countEnoughConnections = (rateRps: number, limitMs: number): number =>
  Math.ceil((1.2 * rateRps * limitMs) / 1000)

/**
 * Finds the saturation. Connections climb until as many requests wait as the SLO allows, or until
 * more of them gain nothing. They then stay until the throughput grows no more: a server under its
 * first load compiles, allocates and fills caches. Where requests are refused, connections are
 * halved, as overload calls for less load.
 */
export async function saturate(
  session: Session,
  effort: Effort,
  fromRps: number,
  options: SaturationOptions = {},
): Promise<Saturation> {
  const { slo } = session
  const { maxConnectionCount = maxConnections, expectedRps, warmedRps = [] } = options
  const climbsByStep = 1.2 * slo.limitMs > 1000 * effort.saturationS
  let limit = climbsByStep ? maxConnectionCount : Math.min(maxConnectionCount, maxConnectionsAtOnce)
  let highestRps = Math.max(0, ...warmedRps)
  const enoughFor = (rateRps: number) =>
    Math.min(limit, countEnoughConnections(rateRps, slo.limitMs))
  const next = (enough: number) =>
    climbsByStep ? Math.min(enough, connectionFactor * connections) : enough
  let connections = Math.min(firstConnections, maxConnectionCount)
  /** Answers of each loop since more connections last gained throughput. */
  let answered =
    climbsByStep || enoughFor(highestRps) <= enoughFactor * connections
      ? warmedRps.map((rps) => rps * effort.saturationS)
      : []
  if (warmedRps.length > 0) connections = Math.max(connections, next(enoughFor(highestRps)))
  let windowsAtEnd = 0
  const restart = () => {
    answered = []
    windowsAtEnd = 0
  }
  let rps = Math.max(fromRps, highestRps)
  let refusedLoop: LoadRun | undefined
  let overrunS = 0
  let windowS = effort.saturationS
  const undisturbed = new Set<number>()
  for (let round = 0; ; round++) {
    const { run, point } = await session.closed(connections, windowS, 'saturation')
    if (!point.disturbed) undisturbed.add(connections)
    overrunS += Math.max(0, run.elapsedS - run.seconds)
    if (exceedsErrorRate(point, slo)) refusedLoop = run
    const waitingRps = computeRateWhileAllWait(run, connections)
    const busyRps = Math.max(point.achievedRps, waitingRps)
    const observedRps = Math.max(busyRps, computeRateUntilLast(run))
    const disturbed = !undisturbed.has(connections)
    const found = {
      rps: Math.max(rps, observedRps),
      connections,
      generatorLimited: point.generatorSaturated,
      disturbed,
      point,
      refusedLoop,
    }
    if (await session.died(point)) return { ...found, died: true }
    rps = found.rps
    if (round + 1 === maxRounds || overrunS >= maxOverrunS) return { ...found, died: false }
    if (exceedsErrorRate(point, slo)) {
      limit = Math.max(1, Math.floor(connections / 2))
      if (connections === 1) return { ...found, died: false }
      connections = limit
      restart()
      continue
    }
    if (
      !climbsByStep &&
      waitingRps === 0 &&
      busyRps < minUsefulShare * highestRps &&
      windowS < maxWindowFactor * effort.saturationS
    ) {
      windowS *= 2
      restart()
      continue
    }
    const enough = enoughFor(rps)
    const isExpected = agreesWithExpectation(expectedRps, busyRps)
    const isWarm = round > 0 || warmedRps.length > 0 || limit === 1 || isExpected
    const getsMore = observedRps > minGrowth * highestRps
    highestRps = Math.max(highestRps, observedRps)
    const hasEnough = enough <= enoughFactor * connections
    const staysHere = isWarm && (hasEnough || (climbsByStep && !getsMore))
    if (!staysHere) answered = []
    if (staysHere || (climbsByStep && isWarm)) answered.push(busyRps * point.seconds)
    windowsAtEnd = staysHere ? windowsAtEnd + 1 : 0
    const [minWindows, minAtEnd] = isExpected
      ? [minExpectedWindows, minExpectedWindows]
      : [minLevelWindows, minWindowsAtEnd]
    // The first loops may have been cold, so the last ones decide.
    const level = answered.slice(-minWindows)
    if (level.length >= minWindows && windowsAtEnd >= minAtEnd && !hasGrown(level))
      return { ...found, died: false }
    if (hasEnough || !staysHere) connections = Math.max(connections, next(enough))
  }
}

/**
 * Loops whose own scatter shows the noise. On a slow server with few answers it is much smaller
 * than that of random arrivals.
 */
const minScatterWindows = 8
/** Standard deviations of that scatter, which so few loops determine badly. */
const maxResidualSds = 3

/**
 * Whether the later half of the loops answered more than the earlier half, beyond 2 % and chance.
 * @param answered requests of each loop
 */
export function hasGrown(answered: readonly number[]): boolean {
  const half = Math.floor(answered.length / 2)
  const earlier = sum(answered.slice(0, half))
  const later = sum(answered.slice(answered.length - half))
  const expectedScatter =
    answered.length < minScatterWindows
      ? Number.POSITIVE_INFINITY
      : residualSd(answered) * Math.sqrt(2 * half)
  return (
    later - earlier >
    Math.max(0.02 * earlier, Math.min(Math.sqrt(earlier + later), maxResidualSds * expectedScatter))
  )
}

/** Standard deviation of the loops about a line through them. */
function residualSd(answered: readonly number[]): number {
  const points = answered.map((count, i) => [i, count])
  const line = linearRegressionLine(linearRegression(points))
  return Math.sqrt(sum(answered.map((count, i) => (count - line(i)) ** 2)) / (answered.length - 2))
}

/** A burst shows a full queue with at least this many requests, or those of a second. */
const minBurst = 128
const burstS = 0.05

/**
 * Plans the loop that opens the connections for open load. Where the SLO allows far more requests
 * to wait than saturate the server, a burst of that many also shows whether all are admitted.
 */
export function planOpeningLoop(
  { rps, connections, refusedLoop }: Saturation,
  limitMs: number,
  saturationS: number,
) {
  const burst = Math.min(
    maxConnections,
    countEnoughConnections(rps, limitMs),
    Math.max(minBurst, Math.ceil(rps)),
  )
  return refusedLoop === undefined && burst > enoughFactor * connections
    ? { connections: burst, durationS: burstS, burst: true }
    : { connections, durationS: saturationS, burst: false }
}

/**
 * Saturation: the highest throughput of closed loops, whatever their latency. The search for the
 * capacity starts from it, and the loops complete the warm-up.
 *
 * A loop is one closed-loop run with a fixed number of connections.
 */
import { computeMeanThroughput, computeSteadyThroughput } from '../load/throughput.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import { exceedsErrorRate } from '../model/slo.ts'
import { computeLoopSpeeds, hasGrown } from './changes/loop-speeds.ts'
import type { Effort } from './effort.ts'
import { agreesWithExpectation } from './expectation.ts'
import type { Session } from './session.ts'

/** Closed loops that the search for the saturation may use. A cold server may need all of them. */
export const maxLoops = 12
/**
 * Connections of the first loop and of the warm-up by requests: enough for small batches, too few
 * to overload.
 */
export const firstConnections = 8
const maxConnections = 1024
/** Opening more connections would take a whole loop, and few servers gain throughput by them. */
const maxConnectionsAtOnce = 128
/**
 * Total time that loops may exceed their length while they wait for their last answers, seconds. A
 * slow server exceeds it soon, and further loops would show nothing new.
 */
const maxOverrunS = 6
/**
 * Consecutive loops without growth that end the search: a cold server may pause while it speeds up.
 */
const minLevelLoops = 4
/** Of these, loops with the final number of connections: two, as one may meet an outage. */
const minLoopsAtEnd = 2
/**
 * Replaces both numbers where the throughput agrees with the caller's expectation: two loops
 * without growth suffice.
 */
const minExpectedLoops = 2
/**
 * Largest factor on the connections from one loop to the next, where the queue that the SLO allows
 * takes longer than a loop to serve.
 */
const connectionFactor = 4
/** Growth of the throughput that makes more connections worthwhile. */
const minGrowth = 1.05
/**
 * A loop spent its time on opening connections where it reached less than this share of the
 * throughput with fewer connections, and not every connection had two answers. The next loop is
 * twice as long.
 */
const minUsefulShare = 0.75
/** Longest such loop, as a multiple of a loop's usual length. */
const maxLoopFactor = 4
/** The connections suffice where the required number is at most this multiple of them. */
const maxConnectionShortfall = 1.3

interface Saturation {
  readonly rps: number
  readonly connections: number
  readonly generatorLimited: boolean
  /** Host interference made every loop with this number of connections invalid. */
  readonly disturbed: boolean
  /** Load point of the last loop. */
  readonly point: LoadPoint
  /** The server died in the last loop. */
  readonly died: boolean
  /** The last loop with too many refusals. */
  readonly refusedLoop?: LoadRun
}

/** A closed loop of the warm-up. */
export interface WarmedLoop {
  /** Answers per second until the end of sending. */
  readonly achievedRps: number
  /** Throughput of its parts (`computeLoopSpeeds`). */
  readonly speeds: readonly number[]
}

interface SaturationOptions {
  readonly maxConnectionCount?: number
  /**
   * Expected throughput: two loops that agree with it are enough. Connections still increase from
   * few to many, because a cold server may answer no request where many arrive at once.
   */
  readonly expectedRps?: number
  /** Warm-up loops with `firstConnections`. */
  readonly warmed?: readonly WarmedLoop[]
}

/**
 * Requests present at a rate when each takes exactly the limit (Little's law), and a fifth more.
 * With that many connections, a closed loop queues as far as the SLO allows.
 */
const countRequiredConnections = (rateRps: number, limitMs: number): number =>
  Math.ceil((1.2 * rateRps * limitMs) / 1000)

/**
 * Finds the saturation. Connections increase until as many requests queue as the SLO allows, or
 * until more of them gain no throughput. Their number then stays until the throughput stops
 * growing: a server under its first load compiles, allocates and fills caches. Where requests are
 * refused, the connections are halved.
 * @param fromRps throughput already observed, a lower bound of the result
 */
export async function saturate(
  session: Session,
  effort: Effort,
  fromRps: number,
  options: SaturationOptions = {},
): Promise<Saturation> {
  const { slo } = session
  const { maxConnectionCount = maxConnections, expectedRps, warmed = [] } = options
  /** The queue that the SLO allows takes longer than a loop, so connections increase in steps. */
  const increasesInSteps = 1.2 * slo.limitMs > 1000 * effort.saturationS
  /** Connections that may be used; reduced where requests are refused. */
  let connectionLimit = increasesInSteps
    ? maxConnectionCount
    : Math.min(maxConnectionCount, maxConnectionsAtOnce)
  /** Highest throughput of any loop, with those of the warm-up. */
  let highestRps = Math.max(0, ...warmed.map(({ achievedRps }) => achievedRps))
  const requiredAt = (rateRps: number) =>
    Math.min(connectionLimit, countRequiredConnections(rateRps, slo.limitMs))
  const approach = (required: number) =>
    increasesInSteps ? Math.min(required, connectionFactor * connections) : required
  let connections = Math.min(firstConnections, maxConnectionCount)
  /** Speeds of each loop since an increase of connections last gained throughput. */
  let speeds: (readonly number[])[] =
    increasesInSteps || requiredAt(highestRps) <= maxConnectionShortfall * connections
      ? warmed.map((loop) => loop.speeds)
      : []
  if (warmed.length > 0) connections = Math.max(connections, approach(requiredAt(highestRps)))
  /** Consecutive loops with the final number of connections. */
  let loopsAtEnd = 0
  const restart = () => {
    speeds = []
    loopsAtEnd = 0
  }
  /** The result so far: `highestRps`, but at least `fromRps`. */
  let rps = Math.max(fromRps, highestRps)
  let refusedLoop: LoadRun | undefined
  /** Total time of the loops beyond their length. */
  let overrunS = 0
  let loopS = effort.saturationS
  /** Numbers of connections with at least one loop free of host interference. */
  const undisturbed = new Set<number>()
  for (let loop = 0; ; loop++) {
    const { run, point } = await session.closed(connections, loopS, 'saturation')
    if (!point.invalid) undisturbed.add(connections)
    overrunS += Math.max(0, run.elapsedS - run.seconds)
    if (exceedsErrorRate(point, slo)) refusedLoop = run
    /** Throughput while all connections wait; 0 before each has had two answers. */
    const waitingRps = computeSteadyThroughput(run, connections)
    const busyRps = Math.max(point.achievedRps, waitingRps)
    const observedRps = Math.max(busyRps, computeMeanThroughput(run))
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
    if (loop + 1 === maxLoops || overrunS >= maxOverrunS) return { ...found, died: false }
    if (exceedsErrorRate(point, slo)) {
      connectionLimit = Math.max(1, Math.floor(connections / 2))
      if (connections === 1) return { ...found, died: false }
      connections = connectionLimit
      restart()
      continue
    }
    if (
      !increasesInSteps &&
      waitingRps === 0 &&
      busyRps < minUsefulShare * highestRps &&
      loopS < maxLoopFactor * effort.saturationS
    ) {
      loopS *= 2
      restart()
      continue
    }
    const required = requiredAt(rps)
    const isExpected = agreesWithExpectation(expectedRps, busyRps)
    const isWarm = loop > 0 || warmed.length > 0 || connectionLimit === 1 || isExpected
    const hasGained = observedRps > minGrowth * highestRps
    highestRps = Math.max(highestRps, observedRps)
    const suffices = required <= maxConnectionShortfall * connections
    /** The number of connections is final, unless a later loop is faster. */
    const isFinal = isWarm && (suffices || (increasesInSteps && !hasGained))
    if (!isFinal) speeds = []
    if (isFinal || (increasesInSteps && isWarm)) speeds.push(computeLoopSpeeds(run))
    loopsAtEnd = isFinal ? loopsAtEnd + 1 : 0
    const [minLoops, minAtEnd] = isExpected
      ? [minExpectedLoops, minExpectedLoops]
      : [minLevelLoops, minLoopsAtEnd]
    // The first loops may have been cold, so the last ones decide.
    const last = speeds.slice(-minLoops)
    if (last.length >= minLoops && loopsAtEnd >= minAtEnd && !hasGrown(last))
      return { ...found, died: false }
    if (suffices || !isFinal) connections = Math.max(connections, approach(required))
  }
}

/**
 * A burst sends at most as many requests as the server answers in a second, or this many where that
 * is more. A larger burst would take too long to serve.
 */
const maxBurstOfSlowServer = 128
/** Length of the loop that sends the burst, seconds. */
const burstS = 0.05

/**
 * Plans the loop that opens the connections for open load. Where the SLO allows a far longer queue
 * than saturates the server, the loop is a burst: it also shows whether the server admits the whole
 * queue or refuses requests.
 */
export function planOpeningLoop(
  { rps, connections, refusedLoop }: Saturation,
  limitMs: number,
  saturationS: number,
) {
  const burst = Math.min(
    maxConnections,
    countRequiredConnections(rps, limitMs),
    Math.max(maxBurstOfSlowServer, Math.ceil(rps)),
  )
  return refusedLoop === undefined && burst > maxConnectionShortfall * connections
    ? { connections: burst, durationS: burstS, burst: true }
    : { connections, durationS: saturationS, burst: false }
}

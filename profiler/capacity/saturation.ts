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

/** Closed loops that the search for the saturation may use. A cold server may need all. Assumed. */
export const maxLoops = 12
/**
 * Connections of the first loop and of the warm-up by requests: enough for small batches, too few
 * to overload. With all connections at once, five of twelve cold servers were given up at a third
 * of their capacity (docs/research/capacity.md, tried without gain).
 */
export const firstConnections = 8
/** Assumed: few servers gain throughput by more connections. */
const maxConnections = 1024
/** Opening more connections would take a whole loop. Assumed. */
const maxConnectionsAtOnce = 128
/**
 * Total time that loops may exceed their length while they wait for their last answers, seconds. A
 * slow server exceeds it soon, and further loops would show nothing new. Assumed.
 */
const maxOverrunS = 6
/**
 * The search ends after this many consecutive loops without growth. A cold server may pause while
 * it speeds up. Assumed.
 */
const minLevelLoops = 4
/**
 * At least this many of them use the final number of connections. One loop may meet an outage.
 */
const minFinalLoops = 2
/** Loops of either kind that suffice where the throughput agrees with the caller's expectation. */
const minLoopsIfExpected = 2
/**
 * Largest factor on the connections from one loop to the next, where the queue that the SLO allows
 * takes longer than a loop to serve. Assumed.
 */
const connectionFactor = 4
/** Growth of the throughput that makes more connections worthwhile. Assumed. */
const minGrowth = 1.05
/**
 * A loop spent its time on opening connections where it reached less than this share of the
 * throughput with fewer connections, and not every connection had two answers. The next loop is
 * twice as long. Assumed.
 */
const minUsefulShare = 0.75
/** Longest such loop, as a multiple of a loop's usual length: two doublings. Assumed. */
const maxLoopFactor = 4
/** The connections suffice where the required number is at most this multiple of them. Assumed. */
const maxConnectionShortfall = 1.3
/**
 * Factor on the queue that the SLO allows, so that a loop also queues beyond it. Assumed.
 */
const queueMargin = 1.2

interface Saturation {
  readonly rps: number
  readonly connections: number
  readonly isGeneratorLimited: boolean
  /** Host interference made every loop with this number of connections invalid. */
  readonly isDisturbed: boolean
  /** Load point of the last loop. */
  readonly point: LoadPoint
  /** The server died in the last loop. */
  readonly hasDied: boolean
  /** The last loop with too many refusals. */
  readonly refusedLoop?: LoadRun
}

/** A closed loop of the warm-up. */
export interface WarmUpLoop {
  readonly rpsUntilSendingEnds: number
  /** Throughput of its parts, by `computeLoopSpeeds`. */
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
  readonly warmUpLoops?: readonly WarmUpLoop[]
}

/**
 * Counts the requests present at a rate when each takes exactly the limit (Little's law), times
 * `queueMargin`. With that many connections, a closed loop queues as far as the SLO allows.
 */
const countRequiredConnections = (rateRps: number, limitMs: number): number =>
  Math.ceil((queueMargin * rateRps * limitMs) / 1000)

/** Plans the number of connections from loop to loop. */
class ConnectionPlan {
  /** Connections of the next loop. */
  count: number
  /** Connections that may be used; reduced where requests are refused. */
  private limit: number

  /** @param increasesInSteps the queue that the SLO allows takes longer than a loop to serve */
  constructor(
    private readonly limitMs: number,
    maxCount: number,
    private readonly increasesInSteps: boolean,
  ) {
    this.count = Math.min(firstConnections, maxCount)
    this.limit = increasesInSteps ? maxCount : Math.min(maxCount, maxConnectionsAtOnce)
  }

  /** Whether at most one connection may be used. */
  get isLimitedToOne(): boolean {
    return this.limit === 1
  }

  /** Whether a loop with these connections queues about as far as the SLO allows. */
  hasEnough(rateRps: number): boolean {
    return this.countRequired(rateRps) <= maxConnectionShortfall * this.count
  }

  /** Increases the connections towards the number required at a rate. */
  increaseFor(rateRps: number): void {
    const requiredConnections = this.countRequired(rateRps)
    const next = this.increasesInSteps
      ? Math.min(requiredConnections, connectionFactor * this.count)
      : requiredConnections
    this.count = Math.max(this.count, next)
  }

  /** Halves the connections to a server that refuses requests. */
  halve(): void {
    this.limit = Math.max(1, Math.floor(this.count / 2))
    this.count = this.limit
  }

  private countRequired(rateRps: number): number {
    return Math.min(this.limit, countRequiredConnections(rateRps, this.limitMs))
  }
}

/** Records the speeds of the loops since an increase of connections last gained throughput. */
class GrowthRecord {
  /** Consecutive loops with the final number of connections. */
  private finalLoops = 0

  /** @param speeds of each loop (`computeLoopSpeeds`) */
  constructor(private speeds: (readonly number[])[]) {}

  restart(): void {
    this.speeds = []
    this.finalLoops = 0
  }

  /**
   * @param isFinal the number of connections is final, unless a later loop is faster
   * @param isComparable the loop counts even with another number of connections
   */
  add(run: LoadRun, isFinal: boolean, isComparable: boolean): void {
    if (!isFinal) this.speeds = []
    if (isFinal || isComparable) this.speeds.push(computeLoopSpeeds(run))
    this.finalLoops = isFinal ? this.finalLoops + 1 : 0
  }

  /**
   * Whether the throughput has stopped growing. Early loops may be cold, so the last ones decide.
   */
  hasConverged(isExpected: boolean): boolean {
    const [minLoops, minFinal] = isExpected
      ? [minLoopsIfExpected, minLoopsIfExpected]
      : [minLevelLoops, minFinalLoops]
    const lastSpeeds = this.speeds.slice(-minLoops)
    return lastSpeeds.length >= minLoops && this.finalLoops >= minFinal && !hasGrown(lastSpeeds)
  }
}

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
  const { maxConnectionCount = maxConnections, expectedRps, warmUpLoops = [] } = options
  const increasesInSteps = queueMargin * slo.limitMs > 1000 * effort.saturationS
  const plan = new ConnectionPlan(slo.limitMs, maxConnectionCount, increasesInSteps)
  /** Highest throughput of any loop, with those of the warm-up. */
  let highestRps = Math.max(0, ...warmUpLoops.map(({ rpsUntilSendingEnds }) => rpsUntilSendingEnds))
  const growth = new GrowthRecord(
    increasesInSteps || plan.hasEnough(highestRps) ? warmUpLoops.map((loop) => loop.speeds) : [],
  )
  if (warmUpLoops.length > 0) plan.increaseFor(highestRps)
  /** The result so far: `highestRps`, but at least `fromRps`. */
  let rps = Math.max(fromRps, highestRps)
  let refusedLoop: LoadRun | undefined
  /** Total time of the loops beyond their length. */
  let overrunS = 0
  let loopS = effort.saturationS
  /** Numbers of connections with at least one loop free of host interference. */
  const undisturbedConnections = new Set<number>()
  // The loops end where, in this order: the server died; their maximum number or overrun is
  // reached; the server refuses a single connection; the throughput has stopped growing.
  for (let loop = 0; ; loop++) {
    const connections = plan.count
    const { run, point } = await session.playClosed(connections, loopS, 'saturation')
    if (!point.invalid) undisturbedConnections.add(connections)
    overrunS += Math.max(0, run.elapsedS - run.seconds)
    const isRefused = exceedsErrorRate(point, slo)
    if (isRefused) refusedLoop = run
    /** Throughput while all connections wait; 0 before each has had two answers. */
    const waitingRps = computeSteadyThroughput(run, connections)
    const busyRps = Math.max(point.achievedRps, waitingRps)
    const observedRps = Math.max(busyRps, computeMeanThroughput(run))
    const result = {
      rps: Math.max(rps, observedRps),
      connections,
      isGeneratorLimited: point.generatorSaturated,
      isDisturbed: !undisturbedConnections.has(connections),
      point,
      refusedLoop,
    }
    if (await session.hasDied(point)) return { ...result, hasDied: true }
    rps = result.rps
    if (loop + 1 === maxLoops || overrunS >= maxOverrunS) return { ...result, hasDied: false }
    if (isRefused && connections === 1) return { ...result, hasDied: false }
    const wasSpentOnOpening =
      !increasesInSteps &&
      waitingRps === 0 &&
      busyRps < minUsefulShare * highestRps &&
      loopS < maxLoopFactor * effort.saturationS
    if (isRefused || wasSpentOnOpening) {
      if (isRefused) plan.halve()
      else loopS *= 2
      growth.restart()
      continue
    }
    const isExpected = agreesWithExpectation(expectedRps, busyRps)
    // The first loop of a cold server proves nothing, unless it answers only one request at a time
    // or agrees with the expectation.
    const isWarm = loop > 0 || warmUpLoops.length > 0 || plan.isLimitedToOne || isExpected
    const hasGained = observedRps > minGrowth * highestRps
    highestRps = Math.max(highestRps, observedRps)
    const hasEnough = plan.hasEnough(rps)
    const isFinal = isWarm && (hasEnough || (increasesInSteps && !hasGained))
    growth.add(run, isFinal, increasesInSteps && isWarm)
    if (growth.hasConverged(isExpected)) return { ...result, hasDied: false }
    if (hasEnough || !isFinal) plan.increaseFor(rps)
  }
}

/**
 * A burst sends at most as many requests as the server answers in a second, or this many where that
 * is more. A larger burst would take too long to serve. Assumed.
 */
const maxBurstOfSlowServer = 128
/** Length of the loop that sends the burst, seconds: each connection sends about once. Assumed. */
const burstS = 0.05

/**
 * Plans the loop that opens the connections for open load. Where the SLO allows a far longer queue
 * than saturates the server, the loop is a burst: it also shows whether the server admits the whole
 * queue or refuses requests.
 */
export function planConnectionLoop(
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
    ? { connections: burst, durationS: burstS, isBurst: true }
    : { connections, durationS: saturationS, isBurst: false }
}

/**
 * What a closed loop gets out of a server, whatever its latency: where to look for the capacity,
 * and the second half of its warm-up.
 */
import { linearRegression, linearRegressionLine, sum } from 'simple-statistics'
import { failsTooOften } from '../model/slo.ts'
import { allWaitingRps, untilLastRps } from '../load/load-point.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Effort } from './effort.ts'
import { bornOut } from './expectation.ts'
import type { Session } from './session.ts'

/** Windows of a closed loop that look for the saturation of a server which may still be cold. */
const mostRounds = 12
/**
 * Connections of the warm-up by number, and of the first window here: enough for small batches, too
 * few to overload.
 */
export const firstConnections = 8
const mostConnections = 1024
/**
 * Where a window is over before so many are open, all the time goes into opening them; and few
 * servers get more out of more.
 */
const mostAtOnce = 128
/**
 * What all windows may wait for their last answers, beyond their length: at a slow server many wait
 * for long, and more of that teaches nothing.
 */
const mostOverrunS = 6
/**
 * Fewest windows that tell whether the throughput still grows, the last ones: a cold server may
 * pause on its way up.
 */
const fewestLevel = 4
/** Of them, those with as many connections as it ends with: one may have met a pause. */
const fewestWithAll = 2
/**
 * The same of throughputs that were expected: two that agree with each other and bear out what was
 * known beforehand.
 */
const fewestExpected = 2
/**
 * Times as many connections, step by step, where the last answers of all that the SLO leaves time
 * for take longer than a window.
 */
const climb = 4
/** Factor that a throughput has grown by where more connections are worth trying. */
const growth = 1.05
/**
 * A window that gets so little of what fewer connections got, and ends before each had two answers,
 * was spent on opening them: the next is twice as long.
 */
const spoilt = 0.75
/** Of a window's length, at most. */
const longest = 4
/** Connections this much fewer than would be enough are enough. */
const nearly = 1.3

interface Saturation {
  readonly rps: number
  readonly connections: number
  readonly generatorLimited: boolean
  /** The machine disturbed each loop of so many connections. */
  readonly disturbed: boolean
  /** The last window, which ended the search for it where the server died. */
  readonly point: LoadPoint
  readonly died: boolean
  /** The last loop of which too many requests were refused. */
  readonly refusing?: LoadRun
}

interface SaturationOptions {
  readonly most?: number
  /**
   * What is believed of it beforehand: two windows that bear it out are enough. It climbs all the
   * same: a cold server answers none of many at once.
   */
  readonly expectedRps?: number
  /** Answers per second in windows of the warm-up that had `firstConnections`. */
  readonly warmedRps?: readonly number[]
}

/** As many requests as the SLO leaves time to wait at a rate, and a fifth more. */
const enoughAt = (rateRps: number, limitMs: number): number =>
  Math.ceil((1.2 * rateRps * limitMs) / 1000)

/**
 * Connections are raised until as many wait as the SLO leaves time for, or until more of them get
 * no more answers, then held until the throughput grows no more: a server under load for the first
 * time compiles, allocates and fills its caches. Where requests are refused, they are raised no
 * further: overload is answered with less load.
 */
export async function saturate(
  session: Session,
  effort: Effort,
  fromRps: number,
  options: SaturationOptions = {},
): Promise<Saturation> {
  const { slo } = session
  const { most = mostConnections, expectedRps, warmedRps = [] } = options
  const byStep = 1.2 * slo.limitMs > 1000 * effort.saturationS
  let limit = byStep ? most : Math.min(most, mostAtOnce)
  let highestRps = Math.max(0, ...warmedRps)
  const enoughFor = (rateRps: number) => Math.min(limit, enoughAt(rateRps, slo.limitMs))
  const next = (enough: number) => (byStep ? Math.min(enough, climb * connections) : enough)
  let connections = Math.min(firstConnections, most)
  /** Answers of each window since more connections last got more. */
  let answered =
    byStep || enoughFor(highestRps) <= nearly * connections
      ? warmedRps.map((rps) => rps * effort.saturationS)
      : []
  if (warmedRps.length > 0) connections = Math.max(connections, next(enoughFor(highestRps)))
  let withAll = 0
  const startAnew = () => {
    answered = []
    withAll = 0
  }
  let rps = Math.max(fromRps, highestRps)
  let refusing: LoadRun | undefined
  let overrunS = 0
  let windowS = effort.saturationS
  const calm = new Set<number>()
  for (let round = 0; ; round++) {
    const { run, point } = await session.closed(connections, windowS, 'saturation')
    if (!point.disturbed) calm.add(connections)
    overrunS += Math.max(0, run.elapsedS - run.seconds)
    if (failsTooOften(point, slo)) refusing = run
    const waitingRps = allWaitingRps(run, connections)
    const busyRps = Math.max(point.achievedRps, waitingRps)
    const seenRps = Math.max(busyRps, untilLastRps(run))
    const disturbed = !calm.has(connections)
    const found = {
      rps: Math.max(rps, seenRps),
      connections,
      generatorLimited: point.generatorSaturated,
      disturbed,
      point,
      refusing,
    }
    if (await session.died(point)) return { ...found, died: true }
    rps = found.rps
    if (round + 1 === mostRounds || overrunS >= mostOverrunS) return { ...found, died: false }
    if (failsTooOften(point, slo)) {
      limit = Math.max(1, Math.floor(connections / 2))
      if (connections === 1) return { ...found, died: false }
      connections = limit
      startAnew()
      continue
    }
    if (
      !byStep &&
      waitingRps === 0 &&
      busyRps < spoilt * highestRps &&
      windowS < longest * effort.saturationS
    ) {
      windowS *= 2
      startAnew()
      continue
    }
    const enough = enoughFor(rps)
    const known = bornOut(expectedRps, busyRps)
    const counts = round > 0 || warmedRps.length > 0 || limit === 1 || known
    const more = seenRps > growth * highestRps
    highestRps = Math.max(highestRps, seenRps)
    const reached = enough <= nearly * connections
    const stays = counts && (reached || (byStep && !more))
    if (!stays) answered = []
    if (stays || (byStep && counts)) answered.push(busyRps * point.seconds)
    withAll = stays ? withAll + 1 : 0
    const [fewest, fewestHere] = known
      ? [fewestExpected, fewestExpected]
      : [fewestLevel, fewestWithAll]
    // The first of them was cold, perhaps: the last ones decide.
    const level = answered.slice(-fewest)
    if (level.length >= fewest && withAll >= fewestHere && !grew(level))
      return { ...found, died: false }
    if (reached || !stays) connections = Math.max(connections, next(enough))
  }
}

/**
 * Windows whose own scatter tells what is chance among them: of a slow server, whose answers are
 * few, much less than that of arrivals at random.
 */
const fewestScattered = 8
/** Standard errors of that scatter, which so few windows know badly. */
const beyondScatter = 3

/**
 * Whether the later half of the windows answered more than the earlier, beyond 2 % and chance.
 * @param answered requests of each
 */
export function grew(answered: readonly number[]): boolean {
  const half = Math.floor(answered.length / 2)
  const earlier = sum(answered.slice(0, half))
  const later = sum(answered.slice(answered.length - half))
  const scattered =
    answered.length < fewestScattered
      ? Number.POSITIVE_INFINITY
      : scatter(answered) * Math.sqrt(2 * half)
  return (
    later - earlier >
    Math.max(0.02 * earlier, Math.min(Math.sqrt(earlier + later), beyondScatter * scattered))
  )
}

/** Standard deviation of windows from a straight line through them. */
function scatter(answered: readonly number[]): number {
  const points = answered.map((count, i) => [i, count])
  const line = linearRegressionLine(linearRegression(points))
  return Math.sqrt(sum(answered.map((count, i) => (count - line(i)) ** 2)) / (answered.length - 2))
}

/** A burst shows a full queue where it has at least so many requests, or a second's. */
const fewestInBurst = 128
const burstS = 0.05

/**
 * Connections for the open load to come, and how long a loop goes over them. Where those that
 * saturate are far fewer than the SLO leaves time for, a burst of as many, or of a second's
 * answers, shows as well whether so many are let in.
 */
export function openingLoop(
  { rps, connections, refusing }: Saturation,
  limitMs: number,
  saturationS: number,
) {
  const burst = Math.min(
    mostConnections,
    enoughAt(rps, limitMs),
    Math.max(fewestInBurst, Math.ceil(rps)),
  )
  return refusing === undefined && burst > nearly * connections
    ? { connections: burst, durationS: burstS, burst: true }
    : { connections, durationS: saturationS, burst: false }
}

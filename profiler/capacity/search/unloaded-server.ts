/** The server before and after its search: warm-up, unloaded latency, and its recheck. */
import { summarise } from '../../load/load-point.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { CapacityOutcome } from '../../model/measurement.ts'
import { exceedsErrorRate, meetsSlo, sloLimit, sloName, sloValue } from '../../model/slo.ts'
import { noCapacity, type SearchResult, unknownCapacity } from '../capacity-bounds.ts'
import { isStarvedOfCores, unloadedDisturbedDetail } from '../host-interference.ts'
import { describeErrors, type PlayedLoad, type Session } from '../session.ts'
import {
  areContradictory,
  describeSpeedChange,
  describeUnloadedContradiction,
} from '../unloaded-latency.ts'
import { RequestWarmUp, summariseWarmUp, warmUntilSteady } from '../warm-up.ts'
import type { ObservedServer, SearchContext } from './search-context.ts'

/** Longest warm-up by two connections, in windows: 16 s with standard effort. Assumed. */
const maxWarmUpWindows = 20
/** Connections of that warm-up: one leaves a second worker cold. */
const warmUpConnections = 2
/**
 * First rate of a low open load, as a share of the answered rate; halved for each further try.
 * Assumed.
 */
const lowLoadShare = 0.2
const maxLowLoadTries = 3
/** Requests of a low load, enough for a median, and its longest time, seconds. Assumed. */
const lowLoadRequests = 20
const maxLowLoadS = 6

/**
 * Warms the server until a window is not significantly faster than the one before, for
 * `maxWarmUpWindows` at most. Then applies closed loops with more connections, until the server has
 * received `warmUpRequests` and its throughput no longer grows (`RequestWarmUp.isWarm`). The time of
 * both is not part of the budget.
 */
export async function warmServer(
  context: SearchContext,
): Promise<SearchResult | { readonly warmUp: RequestWarmUp; readonly refusedPoint?: LoadPoint }> {
  const { session, effort, options, report } = context
  const { slo } = session
  const { warmUpRequests } = options
  let last: LoadPoint | undefined
  await warmUntilSteady(maxWarmUpWindows, async (window) => {
    // The loops below reach `warmUpRequests` sooner, with more connections.
    if (window > 0 && warmUpRequests !== undefined && session.requests < warmUpRequests)
      return undefined
    const { run, point } = await session.playClosed(
      warmUpConnections,
      effort.warmUpS,
      'warm-up',
      false,
    )
    last = point
    return exceedsErrorRate(point, slo) ? undefined : run
  })
  const warmUp = new RequestWarmUp(session, effort.warmUpS)
  while (
    last !== undefined &&
    !exceedsErrorRate(last, slo) &&
    !isStreaming(session, last) &&
    !warmUp.isWarm(warmUpRequests)
  )
    last = await warmUp.play()
  if (last !== undefined && !isStreaming(session, last))
    report.warmUp = summariseWarmUp(session.requests, warmUp.windows)
  session.startBudget()
  if (last === undefined) return { warmUp }
  if (await session.hasDied(last)) return createFailure('server-died', session.describeDeath(last))
  return exceedsErrorRate(last, slo) ? { warmUp, refusedPoint: last } : { warmUp }
}

/**
 * Measures the unloaded latency by one request at a time, or by a low open load where the server
 * refuses closed loops. Returns a `SearchResult` if the measurement ends here.
 */
export async function measureUnloaded(
  context: SearchContext,
  warmUp: RequestWarmUp,
  refusedPoint: LoadPoint | undefined,
): Promise<SearchResult | ObservedServer> {
  const { session, effort, report } = context
  const { slo } = session
  let unloaded = await session.playClosed(1, effort.unloadedS, 'unloaded')
  // One disturbed window is no evidence: a violation is measured again, and the better window
  // counts.
  if (!meetsSlo(unloaded.point, slo)) {
    const repeated = await session.playClosed(1, 2 * effort.unloadedS, 'unloaded')
    if (repeated.point.sloMs < unloaded.point.sloMs) unloaded = repeated
  }
  let server: ObservedServer = { unloaded, warmUp }
  if (refusedPoint !== undefined || exceedsErrorRate(unloaded.point, slo)) {
    const refusing = refusedPoint ?? unloaded.point
    const lowLoad = await applyLowLoad(context, refusing)
    if ('outcome' in lowLoad) return lowLoad
    const refusesBeyondRps = Math.max(
      lowLoad.point.achievedRps,
      resolveAnsweredRps(session, refusing),
    )
    server = { unloaded: lowLoad, refusesBeyondRps }
  }
  const { run, point } = server.unloaded
  report.unloaded = summarise(run.latencyMs)
  if (await session.hasDied(point))
    return createFailure('server-died', session.describeDeath(point))
  // With few requests, the lower end of the interval may lie below the median, so the median has to
  // meet the limit, too.
  if (point.sloCi95Ms[0] <= slo.limitMs && point.p50Ms <= slo.limitMs) return server
  if (isStarvedOfCores(run)) return createFailure('host-interference', unloadedDisturbedDetail)
  return createFailure(
    'slo-unattainable',
    `one request at a time already takes ${sloValue(slo, point.sloMs)} at ${sloName(slo)}, over ${sloLimit(slo)}`,
  )
}

/**
 * Applies a low open load to a server that refused a closed loop (429, 503: a full queue or a rate
 * limit). It starts at `lowLoadShare` of the answered rate, and halves it after each refusal. Returns
 * a `SearchResult` if the server died, or if the error rate exceeded the SLO at every rate.
 */
async function applyLowLoad(
  { session, effort, seed }: SearchContext,
  refusing: LoadPoint,
): Promise<SearchResult | PlayedLoad> {
  let rateRps = Math.max(1, lowLoadShare * resolveAnsweredRps(session, refusing))
  let last = refusing
  for (let tries = 0; tries < maxLowLoadTries; tries++) {
    const played = await session.playOpen(
      rateRps,
      Math.min(maxLowLoadS, Math.max(2 * effort.unloadedS, lowLoadRequests / rateRps)),
      seed + tries,
      'unloaded',
    )
    if (await session.hasDied(played.point))
      return createFailure('server-died', session.describeDeath(played.point))
    if (!exceedsErrorRate(played.point, session.slo)) return played
    // A rate limit takes a while to recover from the closed loop, so a lower rate may succeed.
    last = played.point
    rateRps = Math.max(1, rateRps / 2)
  }
  return createFailure(
    'errors',
    last.requests === 0 ? 'no request was answered' : describeErrors(last),
  )
}

/**
 * Measures the unloaded latency again after the load, to detect a server that changed. Whatever the
 * effort, it does so where unloaded requests under open load contradict the first measurement.
 */
export async function recheckUnloaded(
  { session, effort, report }: SearchContext,
  { unloaded: { run: before, point } }: ObservedServer,
): Promise<void> {
  const { limitMs } = session.slo
  const collectAnswered = ({ latencyMs }: PlayedLoad['run']) =>
    [...latencyMs].filter((ms) => !Number.isNaN(ms))
  const first = collectAnswered(before)
  // Latencies of requests that met no other request in an open window, ms. Only whole answers are
  // comparable, not parts of streams.
  const isolatedUnderLoadMs = isStreaming(session, point) ? [] : session.unloadedMs
  const isContradicted = areContradictory(first, isolatedUnderLoadMs, limitMs)
  if (!effort.checksSpeed && !isContradicted) return
  await session.settle(point)
  const { run } = await session.playClosed(1, effort.unloadedS, 'unloaded', false)
  const repeated = collectAnswered(run)
  if (!isContradicted) {
    report.caveats.push(...describeSpeedChange(first, repeated))
    return
  }
  report.caveats.push(describeUnloadedContradiction(first, repeated, isolatedUnderLoadMs, limitMs))
  if (!areContradictory(repeated, isolatedUnderLoadMs, limitMs))
    report.unloaded = summarise(run.latencyMs)
}

export const isStreaming = ({ target }: Session, point: LoadPoint): boolean =>
  target.kind === 'http' ? target.transport === 'sse' : point.stream !== undefined

/**
 * Resolves the answered rate of a refused loop; without any answer, that of all loops. A limit per
 * second or minute may refuse a whole loop after it admitted earlier ones.
 */
const resolveAnsweredRps = (session: Session, refusing: LoadPoint): number =>
  refusing.achievedRps > 0 ? refusing.achievedRps : session.answeredRps

/**
 * Creates a result without a measured capacity: 0 if the SLO is out of reach, unknown if the server
 * could not be measured.
 */
const createFailure = (outcome: CapacityOutcome, detail: string): SearchResult => ({
  outcome,
  ...(outcome === 'server-died' || outcome === 'host-interference' ? unknownCapacity : noCapacity),
  saturationRps: 0,
  detail,
})

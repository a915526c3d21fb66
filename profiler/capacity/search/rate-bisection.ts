/** Searches for the capacity by bisection, where answers take seconds, as streamed ones do. */
import { max } from 'simple-statistics'
import { rate } from '../../format.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import {
  exceedsErrorRate,
  findMaxLimitMs,
  isViolatedByLateSends,
  meetsSlo,
  type Slo,
  splitByClass,
} from '../../model/slo.ts'
import type { SearchResult } from '../capacity-bounds.ts'
import type { Effort } from '../effort.ts'
import { allWindowsDisturbedDetail } from '../host-interference.ts'
import { boundByBracket, boundPruned } from '../interval.ts'
import type { CapacitySearchOptions } from '../search-options.ts'
import { describeErrors } from '../session.ts'
import {
  bracketRate,
  type JudgedWindow,
  judgeOpenWindow,
  type RateBracket,
} from './rate-bracket.ts'
import type { SearchContext } from './search-context.ts'
import type { ObservedWindow } from './short-windows.ts'

/**
 * Minimum length of a window, in p90 answer times. Shorter ones end before the server is busy.
 * Assumed.
 */
const answersPerWindow = 4
/**
 * Length of a window in SLO limits: at a rate a quarter beyond the capacity, the queue takes four
 * limits to reach the limit.
 */
const limitsPerWindow = 4
/**
 * For that purpose a window may be this long, or as long as the whole budget if that is longer.
 * Assumed.
 */
const maxLimitsWindowS = 10
/**
 * Target for the requests of a window, as far as a share of the budget allows. Where each request
 * class has to meet the SLO, it applies to the rarest class. Assumed.
 */
const requestsPerWindow = 60
const maxRequestsBudgetShare = 1 / 6
/**
 * Ratio of the lowest violated to the highest met rate that ends the search: their geometric mean
 * is within 4 % of both.
 */
const maxConvergedRatio = 1.08
/** Invalid windows in a row that end the search, as in window-screen.ts. */
const maxInvalidInARow = 3
/**
 * Windows that the search may use, beyond its time budget, to bracket the capacity within
 * `maxRoughRatio`: a single answer may take longer than the budget. Assumed.
 */
const maxWindowsUntilRough = 8
const maxRoughRatio = 1.3
/** Factor from one rate to the next while all windows meet the SLO, or none does. Assumed. */
const strideFactor = 2
/**
 * First such factor from an expected capacity, just beyond the ratio of 1.2 at which a capacity
 * still agrees with an expectation. It is squared after each further window.
 */
const firstStrideFromExpected = 1.25
/** Largest such factor: two strides at once. */
const maxStrideFactor = strideFactor ** 2
/**
 * A window whose percentile is below this share of the limit is followed by `maxStrideFactor` times
 * its rate, where no capacity is expected. Assumed.
 */
const maxShareForLongStride = 0.5
/** Requests in progress at the first rate without an expectation: one worker is overloaded. */
const firstInProgress = 2
/**
 * First rate as a share of the rate that closed loops reached: most servers meet their SLO there.
 * Assumed.
 */
const loopStartShare = 0.75
/**
 * Largest first rate as a factor on the expected capacity, where the search starts at the rate to
 * beat. Assumed.
 */
const expectedProbeFactor = 1.5

/** Observations of the server before the first window of the search. */
interface InitialObservations {
  /** 90th percentile of an unloaded answer, to its last byte. */
  readonly answerS: number
  /** Throughput of closed loops that kept the server busy; see `bracketRate`. */
  readonly loopWindow: ObservedWindow | undefined
}

/**
 * Bisects the rate. Open windows, several answers long, start at the expected rate, else at two
 * requests in progress or below the rate of closed loops. They go up or down until the SLO was both
 * met and violated, then bisect the rate. The search ends when the time is up, or when all windows
 * together determine the capacity to the precision of the effort (joint-capacity.ts). Where none
 * met or none violated the SLO, the interval is open on that side.
 * @param loopWindow throughput of closed loops that kept the server busy, as a window
 */
export async function bisectRate(
  {
    session,
    effort,
    seed,
    options,
  }: Pick<SearchContext, 'session' | 'effort' | 'seed' | 'options'>,
  unloaded: LoadPoint,
  loopWindow?: ObservedWindow,
): Promise<SearchResult> {
  const { slo } = session
  const server = { answerS: (unloaded.stream?.e2e.p90Ms ?? unloaded.p90Ms) / 1000, loopWindow }
  const judged: JudgedWindow[] = []
  let bracket: RateBracket = {
    metRps: 0,
    ciMetRps: 0,
    // Open load at the throughput of the closed loops would queue without end.
    violatedRps: loopWindow?.rateRps ?? Number.POSITIVE_INFINITY,
  }
  let saturationRps = loopWindow?.rateRps ?? unloaded.achievedRps
  const finish = (outcome: SearchResult['outcome'], detail?: string): SearchResult => ({
    outcome,
    ...boundByBracket(bracket, bracket.joint),
    saturationRps,
    detail,
  })
  const finishSearch = (outcome: 'converged' | 'budget', detail?: string): SearchResult => {
    const refused = findRefusedPoint(bracket, judged, slo)
    return refused === undefined
      ? finish(outcome, detail)
      : finish('errors', describeErrors(refused))
  }
  let invalidInARow = 0
  let strides = 0
  /** Share of the rarest request class. */
  let rarestShare = 1
  let rateRps = chooseFirstRate(server, options)
  // The search ends where, in this order: the time is up; the server died; too many windows were
  // invalid; the trial cannot win; the estimate is precise; the bracket is narrow.
  for (let windows = 0; bracket.violatedRps / bracket.metRps > maxConvergedRatio; windows++) {
    const seconds = chooseWindowS(rarestShare * rateRps, server.answerS, bracket, slo, effort)
    if (
      windows > 0 &&
      session.spentS + seconds > effort.budgetS &&
      canEndWithTime(bracket, windows)
    )
      return finishSearch('budget', describeBracket(bracket))
    const { point, run } = await session.playOpen(rateRps, seconds, seed + windows, 'search')
    saturationRps = Math.max(saturationRps, computeAnsweredRps(run))
    rarestShare = findRarestShare(run, slo)
    if (await session.hasDied(point)) return finish('server-died', session.describeDeath(point))
    const invalidity = findInvalidity(point, slo)
    if (invalidity !== undefined) {
      if (++invalidInARow < maxInvalidInARow) continue
      return finish(invalidity, invalidityDetails[invalidity])
    }
    invalidInARow = 0
    judged.push(judgeOpenWindow(run, point, slo, server.answerS))
    bracket = bracketRate(judged, loopWindow, slo, unloaded.p50Ms)
    if (cannotWin(bracket, judged, options)) {
      const { violatedRps } = bracket
      const detail = `stopped early: violates the SLO at ${rate(violatedRps)}, and ${rate(options.capacityToBeatRps!)} is needed to win`
      return { ...finish('pruned', detail), ...boundPruned(undefined, violatedRps, 0, 0) }
    }
    if (isPrecise(bracket, effort)) break
    if (isBracketed(bracket)) rateRps = Math.sqrt(bracket.metRps * bracket.violatedRps)
    else rateRps = chooseOuterRate(bracket, point, slo, options, strides++)
  }
  return finishSearch('converged')
}

/**
 * Chooses the first rate: the expected capacity. If that would not win, a rate that would: one
 * violation there ends the search.
 */
function chooseFirstRate(
  { answerS, loopWindow }: InitialObservations,
  { expectedRps, capacityToBeatRps: toBeatRps = 0 }: CapacitySearchOptions,
): number {
  if (expectedRps === undefined || !(expectedRps > 0))
    return loopWindow === undefined
      ? firstInProgress / answerS
      : loopStartShare * loopWindow.rateRps
  return expectedRps < toBeatRps
    ? Math.min(toBeatRps, expectedProbeFactor * expectedRps)
    : expectedRps
}

const isBracketed = ({ metRps, violatedRps }: RateBracket): boolean =>
  metRps > 0 && violatedRps < Number.POSITIVE_INFINITY

/** Chooses the next rate while all windows met the SLO, or none did. */
function chooseOuterRate(
  { metRps, violatedRps }: RateBracket,
  { sloMs }: LoadPoint,
  { limitMs }: Slo,
  { expectedRps }: CapacitySearchOptions,
  strides: number,
): number {
  if (expectedRps !== undefined) {
    const factor = Math.min(maxStrideFactor, firstStrideFromExpected ** (2 ** strides))
    return metRps > 0 ? metRps * factor : violatedRps / factor
  }
  if (metRps === 0) return violatedRps / strideFactor
  return metRps * (sloMs < maxShareForLongStride * limitMs ? maxStrideFactor : strideFactor)
}

/** Computes the answers per second, over the window or until the last answer if that is later. */
function computeAnsweredRps({ sentMs, latencyMs, stream, seconds }: LoadRun): number {
  const endsMs = (stream?.latenciesMs.e2e ?? latencyMs)
    .map((ms, i) => sentMs[i]! + ms)
    .filter((atMs) => !Number.isNaN(atMs))
  return (1000 * endsMs.length) / max([1000 * seconds, ...endsMs])
}

/** Finds the share of the rarest request class among the requests of a window. */
const findRarestShare = (run: LoadRun, slo: Slo): number =>
  Math.min(
    ...splitByClass(run, slo).map(({ latencyMs }) => latencyMs.length / run.latencyMs.length),
  )

/**
 * Finds the cause outside the server that made a window invalid. A window that met the SLO is valid
 * even with late sends, as lateness counts as latency.
 */
function findInvalidity(point: LoadPoint, slo: Slo): keyof typeof invalidityDetails | undefined {
  if (meetsSlo(point, slo)) return undefined
  if (isViolatedByLateSends(point, slo)) return 'generator-limit'
  return point.invalid ? 'host-interference' : undefined
}

/**
 * Whether the trial cannot win: two windows violated the SLO below the rate to beat; one where that
 * was expected.
 */
function cannotWin(
  { violatedRps }: RateBracket,
  judged: readonly JudgedWindow[],
  { expectedRps, capacityToBeatRps: toBeatRps = 0 }: CapacitySearchOptions,
): boolean {
  const violations = judged.filter(({ met }) => !met).length
  const isExpectedToLose = expectedRps !== undefined && expectedRps < toBeatRps
  return violatedRps <= toBeatRps && violations >= (isExpectedToLose ? 1 : 2)
}

/**
 * Chooses the length of a window, seconds.
 * @param rarestRps rate of the rarest request class
 */
function chooseWindowS(
  rarestRps: number,
  answerS: number,
  bracket: RateBracket,
  slo: Slo,
  { windowS, budgetS }: Effort,
): number {
  const targetS = Math.max(
    windowS,
    answersPerWindow * answerS,
    Math.min((limitsPerWindow * findMaxLimitMs(slo)) / 1000, Math.max(maxLimitsWindowS, budgetS)),
    Math.min(requestsPerWindow / rarestRps, maxRequestsBudgetShare * budgetS),
  )
  return isRoughlyBracketed(bracket) ? Math.min(targetS, Math.max(windowS, budgetS)) : targetS
}

/** Whether the joint estimate of all windows is as precise as required. */
function isPrecise({ joint }: RateBracket, { precision }: Effort): boolean {
  if (joint === undefined) return false
  const { median, ci90 } = joint
  return ci90[1] - ci90[0] <= 2 * precision * median
}

/** Whether the search may end when its time is up. */
const canEndWithTime = (bracket: RateBracket, windows: number): boolean =>
  isRoughlyBracketed(bracket) || windows >= maxWindowsUntilRough

const isRoughlyBracketed = ({ metRps, violatedRps }: RateBracket): boolean =>
  violatedRps / metRps <= maxRoughRatio

const describeBracket = ({ metRps, violatedRps }: RateBracket): string =>
  `the SLO was met at ${rate(metRps)}${violatedRps < Number.POSITIVE_INFINITY ? ` and violated at ${rate(violatedRps)}` : ''} when the time was up`

/** Finds the last point of a search without a met rate, if errors caused every violation. */
function findRefusedPoint(
  { metRps }: RateBracket,
  judged: readonly JudgedWindow[],
  slo: Slo,
): LoadPoint | undefined {
  const violated = judged.filter(({ met }) => !met)
  return metRps === 0 && violated.every(({ point }) => exceedsErrorRate(point, slo))
    ? violated.at(-1)?.point
    : undefined
}

/** Details of outcomes whose windows were invalid. */
const invalidityDetails = {
  'generator-limit': 'the load generator could not sustain the rate: the server may serve more',
  'host-interference': allWindowsDisturbedDetail,
} as const

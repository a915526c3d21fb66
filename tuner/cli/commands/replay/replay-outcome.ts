/** Runs the search on a recorded table, and compares its number of look-ups with random search. */

import {
  computeObservedLogCost,
  configurationKey,
  createRng,
  createSampler,
  findBestObservation,
} from '../../../../search/index.ts'
import {
  computeTrueLogCosts,
  type RecordedTable,
  replaySearch,
} from '../../../../search/replay/table.ts'
import { findIncumbent } from '../../../../search/stopping/incumbent.ts'
import type { Observation } from '../../../../search/types.ts'

export interface ReplayOptions {
  readonly sampler: string
  readonly maxTrials: number
  /** Add the task's noise to every measurement. */
  readonly noisy: boolean
}

/** The search of one seed, up to its stop rule. */
export interface SeedRun {
  readonly seed: number
  readonly observations: readonly Observation[]
  /** The recommended observation, with noise. */
  readonly best: Observation | undefined
  /**
   * Extra cost of the recommended row over the cheapest, by the recorded figures, as a share;
   * undefined if it violates the limit.
   */
  readonly regret: number | undefined
  /** Last assessment of the stop rule. */
  readonly probabilityBetterExists: number | undefined
  /**
   * Look-ups until one was within 5 % of the cheapest, ignoring the stop rule; Infinity if none
   * was.
   */
  readonly lookUpsToWithin5Percent: number
}

/** Relative excess cost of a row that still counts as found, see `lookUpsToWithin5Percent`. */
const costTolerance = 0.05

/**
 * True costs of the table: ln cost of each row (Infinity if it violates the limit), and the
 * smallest.
 */
export interface TrueCosts {
  readonly logCosts: ReadonlyMap<string, number>
  readonly feasible: number
  readonly minLogCost: number
}

export function computeTrueCosts(recorded: RecordedTable): TrueCosts {
  const logCosts = computeTrueLogCosts(recorded)
  let minLogCost = Number.POSITIVE_INFINITY
  let feasible = 0
  for (const cost of logCosts.values()) {
    if (cost < Number.POSITIVE_INFINITY) feasible++
    minLogCost = Math.min(minLogCost, cost)
  }
  return { logCosts, feasible, minLogCost }
}

/**
 * Runs the search. It continues after its stop rule until a look-up is near the cheapest, to count
 * those look-ups; the recommendation is that of the stop.
 */
export function searchTable(
  recorded: RecordedTable,
  truth: TrueCosts,
  seed: number,
  options: ReplayOptions,
): SeedRun {
  const { sampler, maxTrials, noisy } = options
  const countLookUps = createLookUpCounter(truth)
  const { observations: all, assessments } = replaySearch(
    recorded,
    createSampler(sampler),
    createRng(seed),
    {
      maxTrials,
      noisy,
      stop: 'assess',
      until: (observations, assessed) =>
        assessed.at(-1)?.stop === true &&
        (truth.feasible === 0 || countLookUps(observations) <= observations.length),
    },
  )
  const stopped = assessments.findIndex((a) => a.stop)
  const observations = stopped < 0 ? all : all.slice(0, stopped + 1)
  const best = chooseRecommendation(recorded, observations, noisy)
  const cost = best
    ? truth.logCosts.get(configurationKey(best.configuration))!
    : Number.POSITIVE_INFINITY
  return {
    seed,
    observations,
    best,
    regret: cost < Number.POSITIVE_INFINITY ? Math.expm1(cost - truth.minLogCost) : undefined,
    probabilityBetterExists: assessments.at(-1)?.probabilityBetterExists,
    lookUpsToWithin5Percent: countLookUps(all),
  }
}

/** Look-ups of random search until one was within 5 % of the cheapest, with the same seed. */
export function searchAtRandom(
  recorded: RecordedTable,
  truth: TrueCosts,
  seed: number,
  { maxTrials }: ReplayOptions,
): number {
  const countLookUps = createLookUpCounter(truth)
  const until = (observations: readonly Observation[]) =>
    countLookUps(observations) <= observations.length
  return countLookUps(
    replaySearch(recorded, createSampler('random'), createRng(seed), {
      maxTrials,
      stop: 'never',
      until,
    }).observations,
  )
}

/**
 * Counts the look-ups until one was within 5 % of the cheapest by the recorded figures; Infinity if
 * none was.
 */
const createLookUpCounter =
  ({ logCosts, minLogCost }: TrueCosts) =>
  (observations: readonly Observation[]): number => {
    const maxLogCost = minLogCost + Math.log(1 + costTolerance)
    const index = observations.findIndex(
      (o) => logCosts.get(configurationKey(o.configuration))! <= maxLogCost,
    )
    return index < 0 || minLogCost === Number.POSITIVE_INFINITY
      ? Number.POSITIVE_INFINITY
      : index + 1
  }

/**
 * Chooses the cheapest observation that meets the limit; with noise, the incumbent of the model, so
 * that a lucky value does not win.
 */
function chooseRecommendation(
  { problem }: RecordedTable,
  observations: readonly Observation[],
  noisy: boolean,
): Observation | undefined {
  const bestObserved = findBestObservation(problem, observations)
  const incumbent = (noisy && bestObserved && findIncumbent(problem, observations)) || bestObserved
  return observations.find((o) => o.configuration === incumbent?.configuration)
}

/**
 * Look-ups over all seeds: median and 90th percentile (Infinity for seeds that never came near),
 * and the share of seeds that did.
 */
export interface LookUps {
  readonly median: number
  readonly p90: number
  readonly reached: number
}

export function summariseLookUps(lookUps: readonly number[]): LookUps {
  const ascending = [...lookUps].sort((a, b) => a - b)
  const getQuantile = (q: number) => ascending[Math.max(0, Math.ceil(q * ascending.length) - 1)]!
  return {
    median: getQuantile(0.5),
    p90: getQuantile(0.9),
    reached: lookUps.filter(Number.isFinite).length / lookUps.length,
  }
}

/** Cost in the unit of the objective; undefined if the limit is violated. */
export function computeCost(
  { problem }: RecordedTable,
  observation: Observation,
): number | undefined {
  const cost = Math.exp(computeObservedLogCost(problem, observation))
  return Number.isFinite(cost) ? cost : undefined
}

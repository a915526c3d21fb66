/** What a search makes of a recorded table, and how soon, beside random search. */

import {
  configurationKey,
  createRng,
  createSampler,
  findBestObservation,
  observedLogCost,
} from '../../../search/index.ts'
import {
  computeTrueLogCosts,
  type RecordedTable,
  replaySearch,
} from '../../../search/replay/table.ts'
import { findIncumbent } from '../../../search/stopping/incumbent.ts'
import type { Observation } from '../../../search/types.ts'

export interface ReplayOptions {
  readonly sampler: string
  readonly maxTrials: number
  /** Draw the task's noise on every reading. */
  readonly noisy: boolean
}

/** One seed's search, up to where its stop rule ended it. */
export interface SeedRun {
  readonly seed: number
  readonly observations: readonly Observation[]
  /** What it recommends, as it was read. */
  readonly best: Observation | undefined
  /**
   * Of the recommended row, by the recorded figures: share that it costs more than the cheapest;
   * undefined where it does not keep the limit.
   */
  readonly regret: number | undefined
  /** What the stop rule said last. */
  readonly probabilityBetterExists: number | undefined
  /**
   * Look-ups until one was within 5 % of the cheapest, the stop rule not obeyed; Infinity where
   * none was.
   */
  readonly lookUpsToWithin: number
}

const TOLERANCE = 0.05

/**
 * The rows that keep the limit, and what the cheapest of them costs, ln; Infinity where there is
 * none.
 */
export interface Truth {
  readonly logCosts: ReadonlyMap<string, number>
  readonly feasible: number
  readonly leastLogCost: number
}

export function truthOf(recorded: RecordedTable): Truth {
  const logCosts = computeTrueLogCosts(recorded)
  let leastLogCost = Number.POSITIVE_INFINITY
  let feasible = 0
  for (const cost of logCosts.values()) {
    if (cost < Number.POSITIVE_INFINITY) feasible++
    leastLogCost = Math.min(leastLogCost, cost)
  }
  return { logCosts, feasible, leastLogCost }
}

/**
 * Goes on after its own stop until a look-up was near the cheapest, so that how soon that was is
 * known; what it recommends is what it had when it stopped.
 */
export function searchTable(
  recorded: RecordedTable,
  truth: Truth,
  seed: number,
  options: ReplayOptions,
): SeedRun {
  const { sampler, maxTrials, noisy } = options
  const near = nearest(truth)
  const { observations: all, assessments } = replaySearch(
    recorded,
    createSampler(sampler),
    createRng(seed),
    {
      maxTrials,
      noisy,
      stop: 'assess',
      until: (observations, asked) =>
        asked.at(-1)?.stop === true &&
        (truth.feasible === 0 || near(observations) <= observations.length),
    },
  )
  const stopped = assessments.findIndex((a) => a.stop)
  const observations = stopped < 0 ? all : all.slice(0, stopped + 1)
  const best = recommendation(recorded, observations, noisy)
  const cost = best
    ? truth.logCosts.get(configurationKey(best.configuration))!
    : Number.POSITIVE_INFINITY
  return {
    seed,
    observations,
    best,
    regret: cost < Number.POSITIVE_INFINITY ? Math.expm1(cost - truth.leastLogCost) : undefined,
    probabilityBetterExists: assessments.at(-1)?.probabilityBetterExists,
    lookUpsToWithin: near(all),
  }
}

/** Look-ups of random search until one was within 5 % of the cheapest, with the same seed. */
export function searchAtRandom(
  recorded: RecordedTable,
  truth: Truth,
  seed: number,
  { maxTrials }: ReplayOptions,
): number {
  const near = nearest(truth)
  const until = (observations: readonly Observation[]) => near(observations) <= observations.length
  return near(
    replaySearch(recorded, createSampler('random'), createRng(seed), {
      maxTrials,
      stop: 'never',
      until,
    }).observations,
  )
}

/**
 * Which look-up was the first within 5 % of the cheapest by the recorded figures, counted from 1.
 */
const nearest =
  ({ logCosts, leastLogCost }: Truth) =>
  (observations: readonly Observation[]): number => {
    const enough = leastLogCost + Math.log(1 + TOLERANCE)
    const at = observations.findIndex(
      (o) => logCosts.get(configurationKey(o.configuration))! <= enough,
    )
    return at < 0 || leastLogCost === Number.POSITIVE_INFINITY ? Number.POSITIVE_INFINITY : at + 1
  }

/**
 * The cheapest that was read to keep the limit; of noisy readings the one likeliest to be the
 * answer, so that a lucky one does not pass for it.
 */
function recommendation(
  { problem }: RecordedTable,
  observations: readonly Observation[],
  noisy: boolean,
): Observation | undefined {
  const asRead = findBestObservation(problem, observations)
  const chosen = (noisy && asRead && findIncumbent(problem, observations)) || asRead
  return observations.find((o) => o.configuration === chosen?.configuration)
}

/**
 * How many look-ups it took over all seeds: median and 90th percentile, Infinity for those that
 * never came near, and the share that did.
 */
export interface LookUps {
  readonly median: number
  readonly p90: number
  readonly reached: number
}

export function summary(lookUps: readonly number[]): LookUps {
  const ascending = [...lookUps].sort((a, b) => a - b)
  const at = (q: number) => ascending[Math.max(0, Math.ceil(q * ascending.length) - 1)]!
  return {
    median: at(0.5),
    p90: at(0.9),
    reached: lookUps.filter(Number.isFinite).length / lookUps.length,
  }
}

/** In the unit of the objective; undefined for what does not keep the limit. */
export function costOf({ problem }: RecordedTable, observation: Observation): number | undefined {
  const cost = Math.exp(observedLogCost(problem, observation))
  return Number.isFinite(cost) ? cost : undefined
}

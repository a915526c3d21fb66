import { computeObservedLogCost } from '../observed-cost.ts'
import { computeTrueLogCosts, type RecordedTable, replaySearch } from '../replay/table.ts'
import { configurationKey } from '../space/space.ts'
import { findIncumbent } from '../stopping/incumbent.ts'
import type { Configuration, Observation, Rng, Sampler } from '../types.ts'

/** Costs within this share of each other count as equal. */
const tolerance = 0.05
/** Trials of one run. */
export const trialCap = 40

/** What the stop rule stated of the untried configurations after a trial, and what was true. */
export interface Statement {
  readonly trial: number
  /** P(one is more than 5 % cheaper than the incumbent), and whether one is. */
  readonly probability: number
  readonly better: boolean
  /** Expected saving of the best of them, savings within 5 % counted as none, and the true one. */
  readonly regret: number
  readonly trueRegret: number
}

export interface RunScore {
  /**
   * First trial of a truly feasible configuration within 5 % of the optimum; trialCap + 1 without
   * one.
   */
  readonly trialsToWithin: number
  /**
   * Relative excess cost of the cheapest truly feasible configuration by trial 10, 20 and 30;
   * Infinity without one.
   */
  readonly regret: Readonly<Record<10 | 20 | 30, number>>
  /**
   * The first trial after which the rule would stop. `holds`: no untried feasible configuration is
   * more than 5 % cheaper than the incumbent. `right`: the incumbent is also truly feasible and
   * within 5 %; noise near the limit can prevent that.
   */
  readonly stop?: { readonly trial: number; readonly holds: boolean; readonly right: boolean }
  /** Statements after each trial up to that stop. */
  readonly stated?: readonly Statement[]
  readonly secondsPerSuggestion: number
}

/** One seeded replay of a table, scored against the noise-free truth. */
export function scoreRun(
  table: RecordedTable,
  sampler: Sampler,
  rng: Rng,
  assess: boolean,
): RunScore {
  const truth = computeTrueLogCosts(table)
  const optimum = Math.min(...truth.values())
  const trueCost = (o: Observation) => truth.get(configurationKey(o.configuration))!
  const isWithin = (cost: number) => cost <= optimum + Math.log(1 + tolerance)
  let seconds = 0
  let suggestions = 0
  const timed: Sampler = {
    name: sampler.name,
    suggest(...args) {
      const start = performance.now()
      const suggestion = sampler.suggest(...args)
      seconds += (performance.now() - start) / 1000
      suggestions++
      return suggestion
    },
  }
  const { observations, assessments } = replaySearch(table, timed, rng, {
    maxTrials: trialCap,
    noisy: true,
    stop: assess ? 'assess' : 'never',
    until: assess ? undefined : (soFar) => isWithin(trueCost(soFar.at(-1)!)),
  })
  const costs = observations.map(trueCost)
  const firstWithin = costs.findIndex(isWithin)
  const regretAt = (trials: number) => Math.exp(Math.min(...costs.slice(0, trials)) - optimum) - 1
  const incumbentAfter = (trials: number) =>
    findIncumbent(table.problem, observations.slice(0, trials))?.configuration
  const stopped = assessments.findIndex((a) => a.stop)
  const stated = assessments.flatMap(
    ({ probabilityBetterExists: probability, outlook }, i): Statement[] => {
      const incumbent = incumbentAfter(i + 1)
      if (!incumbent || !outlook) return []
      const trueRegret = computeTrueRegret(incumbent, observations.slice(0, i + 1))
      const better = trueRegret > 0
      return [{ trial: i + 1, probability, better, regret: outlook.regret, trueRegret }]
    },
  )
  return {
    trialsToWithin: firstWithin < 0 ? trialCap + 1 : firstWithin + 1,
    regret: { 10: regretAt(10), 20: regretAt(20), 30: regretAt(30) },
    ...(stopped >= 0 ? { stop: { trial: stopped + 1, ...judge(stopped + 1) } } : {}),
    ...(assess ? { stated } : {}),
    secondsPerSuggestion: seconds / suggestions,
  }

  function judge(trials: number): { holds: boolean; right: boolean } {
    const incumbent = incumbentAfter(trials)
    if (!incumbent) return { holds: false, right: false }
    return {
      holds: computeTrueRegret(incumbent, observations.slice(0, trials)) === 0,
      right: isWithin(truth.get(configurationKey(incumbent))!),
    }
  }

  /**
   * Share of the incumbent's true cost that the best untried feasible configuration saves; 0 within
   * the tolerance. An incumbent that violates the limit counts with its cost.
   */
  function computeTrueRegret(incumbent: Configuration, soFar: readonly Observation[]): number {
    const tried = new Set(soFar.map((o) => configurationKey(o.configuration)))
    const lowest = table.configurations.reduce((min, c) => {
      const key = configurationKey(c)
      return tried.has(key) ? min : Math.min(min, truth.get(key)!)
    }, Infinity)
    const saving = -Math.expm1(lowest - costIfFeasible(incumbent))
    return saving > tolerance ? saving : 0
  }

  /** True ln cost, also where the constraint is violated. */
  function costIfFeasible(configuration: Configuration): number {
    const { problem } = table
    return computeObservedLogCost(
      { ...problem, constraintLimit: undefined },
      table.measure(configuration),
    )
  }
}

/** Empirical quantile without interpolation (the lower neighbour). */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? Number.NaN
}

/** Upper ends of the bins of stated probabilities. */
const binEnds = [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1]

/** Mean stated probability and its observed frequency; the same of the regret. */
export interface Calibration {
  readonly upTo: number
  readonly trials: number
  readonly stated: number
  readonly true: number
  readonly regret: number
  readonly trueRegret: number
}

/** Calibration of the statements in each bin of the stated probability. */
export const computeCalibration = (
  runs: readonly RunScore[],
  ends: readonly number[] = binEnds,
): Calibration[] =>
  ends.flatMap((upTo, i) => {
    const inBin = runs
      .flatMap((run) => run.stated ?? [])
      .filter((s) => s.probability < 1)
      .filter((s) => s.probability > (ends[i - 1] ?? -1) && s.probability <= upTo)
    if (inBin.length === 0) return []
    const computeMean = (getValue: (s: Statement) => number) =>
      inBin.reduce((sum, s) => sum + getValue(s), 0) / inBin.length
    return [
      {
        upTo,
        trials: inBin.length,
        stated: computeMean((s) => s.probability),
        true: computeMean((s) => Number(s.better)),
        regret: computeMean((s) => s.regret),
        trueRegret: computeMean((s) => s.trueRegret),
      },
    ]
  })

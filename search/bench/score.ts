import { fitSurrogate } from '../model/surrogate.ts'
import { observedLogCost } from '../observed-cost.ts'
import { computeTrueLogCosts, type RecordedTable, replaySearch } from '../replay/table.ts'
import { configurationKey } from '../space/space.ts'
import { findBestTrial } from '../stopping/best-trial.ts'
import { findIncumbent } from '../stopping/incumbent.ts'
import type { Configuration, Observation, Rng, Sampler } from '../types.ts'

const tolerance = 0.05
/** Trials of one run. */
export const trialCap = 40

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
   * more than 5 % cheaper than the recommended one. `right`: the recommended one is also truly
   * feasible and within 5 %; noise near the limit can prevent that.
   */
  readonly stop?: { readonly trial: number; readonly holds: boolean; readonly right: boolean }
  /**
   * After each trial up to that stop: the stated probability that a better untried configuration
   * exists, and whether one does.
   */
  readonly stated?: readonly { readonly probability: number; readonly better: boolean }[]
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
  const within = (cost: number) => cost <= optimum + Math.log(1 + tolerance)
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
    until: assess ? undefined : (soFar) => within(trueCost(soFar.at(-1)!)),
  })
  const costs = observations.map(trueCost)
  const hit = costs.findIndex(within)
  const regretAt = (trials: number) => Math.exp(Math.min(...costs.slice(0, trials)) - optimum) - 1
  const stopped = assessments.findIndex((a) => a.stop)
  const stated = assessments.flatMap(({ probabilityBetterExists: probability }, i) => {
    const soFar = observations.slice(0, i + 1)
    const best = findIncumbent(table.problem, soFar, fitSurrogate(table.problem, soFar, []))
    return best ? { probability, better: isBetterUntried(best.configuration, soFar) } : []
  })
  return {
    trialsToWithin: hit < 0 ? trialCap + 1 : hit + 1,
    regret: { 10: regretAt(10), 20: regretAt(20), 30: regretAt(30) },
    ...(stopped >= 0
      ? { stop: { trial: stopped + 1, ...judge(observations.slice(0, stopped + 1)) } }
      : {}),
    ...(assess ? { stated } : {}),
    secondsPerSuggestion: seconds / suggestions,
  }

  function judge(soFar: readonly Observation[]): { holds: boolean; right: boolean } {
    const best = findBestTrial(table.problem, soFar, rng.fork('answer'))
    if (!best) return { holds: false, right: false }
    const { configuration } = best
    return {
      holds: !isBetterUntried(configuration, soFar),
      right: within(truth.get(configurationKey(configuration))!),
    }
  }

  /** Whether an untried feasible configuration is more than 5 % cheaper than the given one. */
  function isBetterUntried(configuration: Configuration, soFar: readonly Observation[]): boolean {
    const tried = new Set(soFar.map((o) => configurationKey(o.configuration)))
    const cost = costIfFeasible(configuration)
    return table.configurations.some(
      (c) =>
        !tried.has(configurationKey(c)) &&
        truth.get(configurationKey(c))! < cost + Math.log(1 - tolerance),
    )
  }

  /** True ln cost, also where the constraint is violated. */
  function costIfFeasible(configuration: Configuration): number {
    const { problem } = table
    return observedLogCost({ ...problem, constraintLimit: undefined }, table.measure(configuration))
  }
}

/** Empirical quantile without interpolation (the lower neighbour). */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? Number.NaN
}

/** Upper ends of the bins of stated probabilities. */
const binEnds = [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1]

/**
 * Calibration of the stop rule: the mean stated probability of each bin, and its observed
 * frequency.
 */
export function computeCalibration(
  runs: readonly RunScore[],
): { upTo: number; trials: number; stated: number; true: number }[] {
  const all = runs.flatMap((r) => r.stated ?? []).filter(({ probability }) => probability < 1)
  return binEnds
    .map((upTo, i) => {
      const own = all.filter(
        ({ probability }) => probability > (binEnds[i - 1] ?? -1) && probability <= upTo,
      )
      const mean = (of: (s: (typeof own)[number]) => number) =>
        own.reduce((sum, s) => sum + of(s), 0) / own.length
      return {
        upTo,
        trials: own.length,
        stated: mean((s) => s.probability),
        true: mean((s) => Number(s.better)),
      }
    })
    .filter(({ trials }) => trials > 0)
}

import { recommended } from '../incumbent.ts'
import { observedLogCost } from '../observed-cost.ts'
import { type RecordedTable, replay, trueLogCosts } from '../replay-table.ts'
import { configurationKey } from '../space.ts'
import { fitSurrogate } from '../surrogate.ts'
import type { Configuration, Observation, Rng, Sampler } from '../types.ts'

const TOLERANCE = 0.05
export const CAP = 40

export interface RunScore {
  /** First trial of a truly feasible configuration within 5 % of the optimum; CAP + 1 where none was. */
  readonly trialsToWithin: number
  /** Relative excess cost of the cheapest truly feasible configuration tried by trial 10, 20, 30; Infinity while none. */
  readonly regret: Readonly<Record<10 | 20 | 30, number>>
  /**
   * The first trial after which the rule would stop; whether what it then states holds (no untried feasible configuration is more than 5 % cheaper
   * than the one recommended); and whether that one is truly feasible and within 5 %, which a reading within its noise of the limit cannot tell.
   */
  readonly stop?: { readonly trial: number; readonly holds: boolean; readonly right: boolean }
  readonly secondsPerSuggestion: number
}

/** One seeded replay of a table, scored against the noise-free truth. */
export function scoreRun(table: RecordedTable, sampler: Sampler, rng: Rng, assess: boolean): RunScore {
  const truth = trueLogCosts(table)
  const optimum = Math.min(...truth.values())
  const costOf = (o: Observation) => truth.get(configurationKey(o.configuration))!
  const within = (cost: number) => cost <= optimum + Math.log(1 + TOLERANCE)
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
  const { observations, assessments } = replay(table, timed, rng, {
    maxTrials: CAP,
    noisy: true,
    stop: assess ? 'assess' : 'never',
    until: assess ? undefined : (soFar) => within(costOf(soFar.at(-1)!)),
  })
  const costs = observations.map(costOf)
  const hit = costs.findIndex(within)
  const regretAt = (trials: number) => Math.exp(Math.min(...costs.slice(0, trials)) - optimum) - 1
  const stopped = assessments.findIndex((a) => a.stop)
  return {
    trialsToWithin: hit < 0 ? CAP + 1 : hit + 1,
    regret: { 10: regretAt(10), 20: regretAt(20), 30: regretAt(30) },
    ...(stopped >= 0 ? { stop: { trial: stopped + 1, ...judge(observations.slice(0, stopped + 1)) } } : {}),
    secondsPerSuggestion: seconds / suggestions,
  }

  function judge(soFar: readonly Observation[]): { holds: boolean; right: boolean } {
    const { problem, configurations } = table
    const best = recommended(problem, soFar, fitSurrogate(problem, soFar, []))
    if (!best) return { holds: false, right: false }
    const tried = new Set(soFar.map((o) => configurationKey(o.configuration)))
    const cost = costIfFeasible(best.configuration)
    const better = configurations.some(
      (c) => !tried.has(configurationKey(c)) && truth.get(configurationKey(c))! < cost + Math.log(1 - TOLERANCE),
    )
    return { holds: !better, right: within(truth.get(configurationKey(best.configuration))!) }
  }

  /** True ln cost, whether the constraint is met or not. */
  function costIfFeasible(configuration: Configuration): number {
    const { problem } = table
    return observedLogCost({ ...problem, constraintLimit: undefined }, table.measure(configuration))
  }
}

/** Quantile of numbers, the lower of two neighbours between ranks. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? Number.NaN
}

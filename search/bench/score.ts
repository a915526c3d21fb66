import { fitSurrogate } from '../model/surrogate.ts'
import { observedLogCost } from '../observed-cost.ts'
import { type RecordedTable, replay, trueLogCosts } from '../replay/table.ts'
import { configurationKey } from '../space/space.ts'
import { likeliestAnswer } from '../stopping/best-trial.ts'
import { believedBest } from '../stopping/incumbent.ts'
import type { Configuration, Observation, Rng, Sampler } from '../types.ts'

const TOLERANCE = 0.05
export const CAP = 40

export interface RunScore {
  /**
   * First trial of a truly feasible configuration within 5 % of the optimum; CAP + 1 where none
   * was.
   */
  readonly trialsToWithin: number
  /**
   * Relative excess cost of the cheapest truly feasible configuration tried by trial 10, 20, 30;
   * Infinity while none.
   */
  readonly regret: Readonly<Record<10 | 20 | 30, number>>
  /**
   * The first trial after which the rule would stop; whether what it then states holds (no untried
   * feasible configuration is more than 5 % cheaper than the one recommended); and whether that one
   * is truly feasible and within 5 %, which a reading within its noise of the limit cannot tell.
   */
  readonly stop?: { readonly trial: number; readonly holds: boolean; readonly right: boolean }
  /**
   * After each trial, up to that stop: the probability that was stated of something better being
   * left untried, and whether it was.
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
  const stated = assessments.flatMap(({ probabilityBetterExists: probability }, i) => {
    const soFar = observations.slice(0, i + 1)
    const best = believedBest(table.problem, soFar, fitSurrogate(table.problem, soFar, []))
    return best ? { probability, better: isBetterLeft(best.configuration, soFar) } : []
  })
  return {
    trialsToWithin: hit < 0 ? CAP + 1 : hit + 1,
    regret: { 10: regretAt(10), 20: regretAt(20), 30: regretAt(30) },
    ...(stopped >= 0
      ? { stop: { trial: stopped + 1, ...judge(observations.slice(0, stopped + 1)) } }
      : {}),
    ...(assess ? { stated } : {}),
    secondsPerSuggestion: seconds / suggestions,
  }

  function judge(soFar: readonly Observation[]): { holds: boolean; right: boolean } {
    const answer = likeliestAnswer(table.problem, soFar, rng.fork('answer'))
    if (!answer) return { holds: false, right: false }
    const { configuration } = answer
    return {
      holds: !isBetterLeft(configuration, soFar),
      right: within(truth.get(configurationKey(configuration))!),
    }
  }

  /** Whether something untried and feasible is more than 5 % cheaper than the configuration. */
  function isBetterLeft(configuration: Configuration, soFar: readonly Observation[]): boolean {
    const tried = new Set(soFar.map((o) => configurationKey(o.configuration)))
    const cost = costIfFeasible(configuration)
    return table.configurations.some(
      (c) =>
        !tried.has(configurationKey(c)) &&
        truth.get(configurationKey(c))! < cost + Math.log(1 - TOLERANCE),
    )
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

/** Upper ends of what is stated. */
const ENDS = [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1]

/** What the stop rule stated against how often it was so, by ranges of what was stated. */
export function calibration(
  runs: readonly RunScore[],
): { upTo: number; trials: number; stated: number; true: number }[] {
  const all = runs.flatMap((r) => r.stated ?? []).filter(({ probability }) => probability < 1)
  return ENDS.map((upTo, i) => {
    const own = all.filter(
      ({ probability }) => probability > (ENDS[i - 1] ?? -1) && probability <= upTo,
    )
    const mean = (of: (s: (typeof own)[number]) => number) =>
      own.reduce((sum, s) => sum + of(s), 0) / own.length
    return {
      upTo,
      trials: own.length,
      stated: mean((s) => s.probability),
      true: mean((s) => Number(s.better)),
    }
  }).filter(({ trials }) => trials > 0)
}

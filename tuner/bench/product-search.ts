/**
 * The search as `tune` poses and ends it, for `npm run bench:product` and the gate. Trials are made
 * into the records that the store keeps, read back as the loop reads them, the stop rule is obeyed,
 * and the winner is the report's.
 */
import { rankCandidates } from '../../reports/recommendation/ranking.ts'
import { trialCap } from '../../search/bench/score.ts'
import { assessStop, createRng, createSampler } from '../../search/index.ts'
import { computeTrueLogCosts } from '../../search/replay/table.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { Configuration, Observation, Problem, Rng, Suggestion } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { observeTrial } from '../loop/observations.ts'
import { computeRequiredGain, explainNotWorthwhile } from '../loop/trial-value.ts'
import { anchoredServer, withTableLacks } from './anchored-server.ts'
import {
  type ErrorSize,
  type PerturbedTable,
  perturbedTable,
  type Scenario,
} from './perturbed-truth.ts'
import type { RecordedServer } from './recorded-servers.ts'

/** What is near enough to the cheapest. */
export const WITHIN = 0.05
const sampler = createSampler('gp')

/**
 * A model that has everything the wrong way round: large batches hurt, small GPUs and few cores are
 * fast.
 */
function wrongPrior({ prior, table }: PerturbedTable): Partial<Problem> {
  const logs = table.configurations.flatMap((c) => prior.priorLogRate?.(c) ?? [])
  const middle = logs.reduce((sum, v) => sum + v, 0) / logs.length
  return {
    priorLogRate(c) {
      const value = prior.priorLogRate?.(c)
      return value === undefined ? undefined : 2 * middle - value
    },
  }
}
const priors = {
  none: (): Partial<Problem> => ({}),
  physics: ({ prior }: PerturbedTable): Partial<Problem> => prior,
  wrong: wrongPrior,
}
export type PriorName = keyof typeof priors

/** What the store would hold of a trial. */
function recordOf(
  number: number,
  observation: Observation,
  limitMs: number,
  { predicted }: Suggestion,
): FinishedTrial {
  const { configuration } = observation
  const told = {
    number,
    configuration,
    why: '',
    startedAt: new Date(0).toISOString(),
    seconds: 30,
    ...(predicted && { predicted }),
  }
  if (observation.state === 'infeasible')
    return {
      ...told,
      state: 'infeasible',
      reason: 'out-of-memory',
      detail: `needs more MiB of GPU memory: ${observation.reason}`,
    }
  const capacityRps = observation.rate?.value ?? 0
  const spread = Math.exp(1.645 * (observation.rate?.logSd ?? 0.05))
  const unloadedMs = observation.constraint?.value ?? Number.NaN
  return {
    ...told,
    state: 'complete',
    measurement: {
      outcome: 'converged',
      capacityRps,
      capacityCi90Rps: [capacityRps / spread, capacityRps * spread],
      bounds: 'both',
      slo: { percentile: 0.99, limitMs, maxErrorRate: 0.001 },
      unloaded: {
        requests: 50,
        meanMs: unloadedMs,
        p50Ms: unloadedMs,
        p90Ms: unloadedMs,
        p95Ms: unloadedMs,
        p99Ms: unloadedMs,
        maxMs: unloadedMs,
      },
      saturationRps: capacityRps,
      points: [],
      requests: 0,
      seconds: 20,
      caveats: [],
    },
  }
}

export interface SearchRun {
  readonly trialsToWithin: number
  readonly stoppedAt?: number
  /**
   * How much more than the cheapest the report's winner costs when the search ends, a share;
   * Infinity where it does not keep the SLO, or there is none.
   */
  readonly excess: number
}

/** As the loop ends it, by certainty or because another trial is not worthwhile. */
function ends(
  problem: Problem,
  observations: readonly Observation[],
  trials: readonly FinishedTrial[],
  rng: Rng,
): boolean {
  const { stop, outlook } = assessStop(problem, observations, rng)
  const { objective } = problem
  const spending = { trials, spentUsd: 0, best: { cost: 1, pricePerHour: 1 } }
  const requiredGain = computeRequiredGain(
    { objective, stop: { tolerance: WITHIN, certainty: 0.95 } },
    spending,
  )
  return stop || explainNotWorthwhile(outlook, requiredGain) !== undefined
}

/** One experiment; goes on after the stop to learn when the best would have been found. */
function experiment(
  given: Problem,
  table: PerturbedTable['table'],
  rng: Rng,
  first: readonly Configuration[] = [],
  learned = (problem: Problem, _: readonly FinishedTrial[]) => problem,
): SearchRun {
  const truth = computeTrueLogCosts(table)
  const cheapest = Math.min(...truth.values())
  const limitMs = given.constraintLimit!
  const trials: FinishedTrial[] = []
  const observations: Observation[] = []
  let stoppedAt: number | undefined
  let hit: number | undefined
  while (trials.length < trialCap && (stoppedAt === undefined || hit === undefined)) {
    const problem = learned(given, trials)
    const told = first[trials.length]
    const suggestion = told
      ? { configuration: told, why: '' }
      : sampler.suggest(problem, observations, [], rng)
    if (!suggestion) break
    const measured = table.measure(suggestion.configuration, rng.fork(`noise ${trials.length}`))
    const trial = recordOf(trials.length + 1, measured, limitMs, suggestion)
    trials.push(trial)
    observations.push(observeTrial(trial, given.objective)!)
    if (truth.get(configurationKey(suggestion.configuration))! <= cheapest + Math.log1p(WITHIN))
      hit ??= trials.length
    if (stoppedAt === undefined && ends(learned(given, trials), observations, trials, rng))
      stoppedAt = trials.length
  }
  const seen = trials.slice(0, stoppedAt ?? trials.length)
  const view = {
    slo: { percentile: 0.99, limitMs, maxErrorRate: 0.001 },
    objective: given.objective,
    pricePerHour: given.pricePerHour,
    label: configurationKey,
  }
  const winner = rankCandidates(seen, view)[0]
  const excess = winner
    ? Math.expm1(truth.get(configurationKey(winner.trial.configuration))! - cheapest)
    : Infinity
  return {
    trialsToWithin: hit ?? trialCap + 1,
    ...(stoppedAt ? { stoppedAt } : {}),
    excess,
  }
}

/** One experiment on a server of a scenario that the seed draws. */
export function runPerturbed(
  scenario: Scenario,
  errors: ErrorSize,
  prior: PriorName,
  seed: number,
): SearchRun {
  const drawn = perturbedTable(scenario, createRng(`${scenario.name} truth ${seed}`), errors)
  return experiment(
    { ...drawn.table.problem, ...priors[prior](drawn) },
    drawn.table,
    createRng(`${scenario.name} ${seed}`),
  )
}

/**
 * One experiment on a recorded server. Anchored: the launch whose server gave the anchors is the
 * first trial.
 */
export function runRecorded(
  { name, table }: RecordedServer,
  prior: 'none' | 'anchored',
  seed: number,
): SearchRun {
  const rng = createRng(`${name} ${seed}`)
  if (prior === 'none') return experiment(table.problem, table, rng, [], withTableLacks)
  const anchored = anchoredServer(name, table.problem)
  return experiment(
    { ...table.problem, ...anchored.prior },
    table,
    rng,
    [anchored.measuredOn],
    withTableLacks,
  )
}

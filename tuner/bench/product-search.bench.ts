/**
 * `npm run bench:product [-- --seeds N --from N --only TEXT --priors none,physics]`: the search as
 * `tune` poses and ends it. Trials are made into the records that the store keeps, read back as the
 * loop reads them, the stop rule is obeyed, and the winner is the report's: on servers whose truth
 * the device model does not know, and on recorded ones, these also with the prior of a server
 * anchored on five of its cells.
 */
import { parseArgs } from 'node:util'
import { mean } from 'simple-statistics'
import { judge } from '../../reports/recommendation/judged.ts'
import { CAP, quantile } from '../../search/bench/score.ts'
import { assessStop, createRng, createSampler } from '../../search/index.ts'
import { trueLogCosts } from '../../search/replay-table.ts'
import { configurationKey } from '../../search/space.ts'
import type { Configuration, Observation, Problem, Rng, Suggestion } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { observationOf } from '../loop/observations.ts'
import { notWorth, worthOfTrial } from '../loop/trial-worth.ts'
import { anchoredServer, withTableLacks } from './anchored-server.ts'
import {
  type ErrorSize,
  type PerturbedTable,
  perturbedTable,
  scenarios,
} from './perturbed-truth.ts'
import { recordedServers } from './recorded-servers.ts'

const { values: options } = parseArgs({
  options: {
    seeds: { type: 'string', default: '16' },
    from: { type: 'string', default: '0' },
    only: { type: 'string', default: '' },
    priors: { type: 'string', default: 'none,physics,wrong' },
    errors: { type: 'string', default: 'model,unseen' },
  },
})
const seeds = Number(options.seeds)
/** What is near enough to the cheapest. */
const WITHIN = 0.05
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
const priors: Record<string, (drawn: PerturbedTable) => Partial<Problem>> = {
  none: () => ({}),
  physics: ({ prior }) => prior,
  wrong: wrongPrior,
}

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
  const idleMs = observation.constraint?.value ?? Number.NaN
  return {
    ...told,
    state: 'complete',
    measurement: {
      outcome: 'converged',
      capacityRps,
      capacityCi90Rps: [capacityRps / spread, capacityRps * spread],
      slo: { percentile: 0.99, limitMs, maxErrorRate: 0.001 },
      idle: {
        requests: 50,
        meanMs: idleMs,
        p50Ms: idleMs,
        p90Ms: idleMs,
        p95Ms: idleMs,
        p99Ms: idleMs,
        maxMs: idleMs,
      },
      saturationRps: capacityRps,
      points: [],
      requests: 0,
      seconds: 20,
      caveats: [],
    },
  }
}

interface Run {
  readonly trialsToWithin: number
  readonly stoppedAt?: number
  /**
   * How much more than the cheapest the report's winner costs when the search ends, a share;
   * Infinity where it does not keep the SLO, or there is none.
   */
  readonly excess: number
}

/** As the loop ends it, by certainty or because another trial is not worth it. */
function ends(
  problem: Problem,
  observations: readonly Observation[],
  trials: readonly FinishedTrial[],
  rng: Rng,
): boolean {
  const { stop, outlook } = assessStop(problem, observations, rng)
  const { objective } = problem
  const spending = { trials, spent: 0, best: { cost: 1, pricePerHour: 1 } }
  const worth = worthOfTrial({ objective, stop: { tolerance: WITHIN, certainty: 0.95 } }, spending)
  return stop || notWorth(outlook, worth) !== undefined
}

/** One experiment; goes on after the stop to learn when the best would have been found. */
function experiment(
  given: Problem,
  table: PerturbedTable['table'],
  rng: Rng,
  first: readonly Configuration[] = [],
  learned = (problem: Problem, _: readonly FinishedTrial[]) => problem,
): Run {
  const truth = trueLogCosts(table)
  const cheapest = Math.min(...truth.values())
  const limitMs = given.constraintLimit!
  const trials: FinishedTrial[] = []
  const observations: Observation[] = []
  let stoppedAt: number | undefined
  let hit: number | undefined
  while (trials.length < CAP && (stoppedAt === undefined || hit === undefined)) {
    const problem = learned(given, trials)
    const told = first[trials.length]
    const suggestion = told
      ? { configuration: told, why: '' }
      : sampler.suggest(problem, observations, [], rng)
    if (!suggestion) break
    const measured = table.measure(suggestion.configuration, rng.fork(`noise ${trials.length}`))
    const trial = recordOf(trials.length + 1, measured, limitMs, suggestion)
    trials.push(trial)
    observations.push(observationOf(trial, given.objective)!)
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
  const winner = judge(seen, view)[0]
  const excess = winner
    ? Math.expm1(truth.get(configurationKey(winner.trial.configuration))! - cheapest)
    : Infinity
  return {
    trialsToWithin: hit ?? CAP + 1,
    ...(stoppedAt ? { stoppedAt } : {}),
    excess,
  }
}

function summary(problem: string, prior: string, runs: readonly Run[]) {
  const trials = runs.map((r) => r.trialsToWithin)
  const share = (of: number) => `${((100 * of) / runs.length).toFixed(0)} %`
  return {
    problem,
    prior,
    runs: runs.length,
    median: quantile(trials, 0.5),
    p90: quantile(trials, 0.9),
    reached: share(trials.filter((t) => t <= CAP).length),
    stopped: share(runs.filter((r) => r.stoppedAt).length),
    'stop median': quantile(
      runs.map((r) => r.stoppedAt ?? CAP),
      0.5,
    ),
    "report's winner right": share(runs.filter((r) => r.excess <= WITHIN).length),
    'dearer, mean': `${(100 * mean(runs.map((r) => Math.min(1, r.excess)))).toFixed(1)} %`,
    'at most': `${(100 * Math.max(...runs.map((r) => r.excess))).toFixed(0)} %`,
  }
}

const rows: object[] = []
const seedNumbers = Array.from({ length: seeds }, (_, i) => Number(options.from) + i)
for (const scenario of scenarios.filter((s) => s.name.includes(options.only)))
  for (const errors of options.errors.split(',') as ErrorSize[])
    for (const name of options.priors.split(',')) {
      const runs = seedNumbers.map((seed) => {
        const drawn = perturbedTable(scenario, createRng(`${scenario.name} truth ${seed}`), errors)
        return experiment(
          { ...drawn.table.problem, ...priors[name]!(drawn) },
          drawn.table,
          createRng(`${scenario.name} ${seed}`),
        )
      })
      rows.push(summary(`${scenario.name}, errors: ${errors}`, name, runs))
    }
const repeated = (name: string, run: (rng: Rng) => Run) =>
  seedNumbers.map((seed) => run(createRng(`${name} ${seed}`)))
for (const { name, table } of recordedServers().filter((s) => s.name.includes(options.only))) {
  const anchored = anchoredServer(name, table.problem)
  const runs = {
    none: () => repeated(name, (rng) => experiment(table.problem, table, rng, [], withTableLacks)),
    // The launch whose server gave the anchors is the first trial.
    anchored: () =>
      repeated(name, (rng) =>
        experiment(
          { ...table.problem, ...anchored.prior },
          table,
          rng,
          [anchored.measuredOn],
          withTableLacks,
        ),
      ),
  }
  rows.push(...Object.entries(runs).map(([prior, all]) => summary(name, prior, all())))
}
console.table(rows)

/** `tune estimate`: what the device model expects of every configuration, with error bars; nothing is started or measured. */
import { latency, money, percent, rate, significant, sloText, sloValue } from '../../../reports/format.ts'
import { createRng, logCost } from '../../../search/index.ts'
import type { Configuration, Objective, Problem } from '../../../search/types.ts'
import { untried } from '../../../search/untried.ts'
import type { Estimated } from '../../../trials/launchers/simulated/estimate.ts'
import { inspectMachine } from '../../../trials/machine/machine-facts.ts'
import { architecturesNamed, estimatorsOf } from '../../backends/estimators.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import type { FlagValues } from '../../experiment/flags.ts'
import { loadExperiment } from '../../experiment/load-experiment.ts'
import { surroundings } from '../../experiment/surroundings.ts'
import type { Experiment } from '../../experiment/types.ts'
import { labelOf, loadPriceBook, problemOf } from '../../loop/problem.ts'
import { table } from '../../render/columns.ts'

export interface EstimateRow {
  readonly configuration: Configuration
  readonly label: string
  readonly capacityRps: number
  /** About two in three truths lie within ± this part of the capacity. */
  readonly relativeError: number
  readonly idleMs: number
  readonly binding: 'gpu' | 'cpu' | 'slo'
  readonly pricePerHour: number
  readonly pricePerMillionRequests: number
  /** P(its GPU memory does not suffice after all). */
  readonly outOfMemory: number
  /** What the objective minimises, as a logarithm. */
  readonly logCost: number
}
export interface EstimateTable {
  readonly schema: 'tune.estimate/v1'
  readonly provenance: 'simulated'
  readonly slo: Experiment['slo']
  /** Configurations expected to meet the SLO, best first. */
  readonly rows: readonly EstimateRow[]
  /** How many of the rest fail for what reason. */
  readonly excluded: Readonly<Record<'sloUnattainable' | 'cannotServe', number>>
  /** Why those cannot serve, the nearest to serving first; three of them. */
  readonly reasons: readonly string[]
  /** Every configuration was looked at; else a quasi-random sample of a space too large to list. */
  readonly complete: boolean
  readonly caveat: string
}

/**
 * Estimates every configuration of an experiment's space.
 * @throws UserError where nothing is known of the predictor
 */
export function estimateAll(experiment: Experiment, problem: Problem): EstimateTable {
  if (experiment.predictor.kind !== 'builtin')
    throw new UserError(
      `a ${experiment.predictor.kind} predictor cannot be estimated: what it does is not known`,
      'run trials instead, or estimate the built-in predictor',
      exitCodes.usage,
    )
  const of = estimatorsOf(experiment)
  if (of === undefined)
    throw new UserError(
      'a model of your own cannot be estimated: its architecture is not known',
      'name the nearest: architecture: bert-base',
      exitCodes.usage,
    )
  const { configurations, complete } = untried({ ...problem, cannotServe: undefined }, [], createRng(experiment.seed))
  const label = labelOf(experiment)
  const rows: EstimateRow[] = []
  const failed: { readonly reason: string; readonly nearness: number }[] = []
  let sloUnattainable = 0
  for (const configuration of configurations) {
    const asked = of(configuration)
    const estimated = asked.estimator.estimate(asked.configuration)
    if (!estimated.serves) failed.push({ reason: `${label(configuration)}: ${estimated.reason}`, nearness: estimated.memoryShare ?? 0 })
    else if (estimated.capacityRps === 0) sloUnattainable++
    else rows.push(rowOf(configuration, label(configuration), estimated, problem))
  }
  return {
    schema: 'tune.estimate/v1',
    provenance: 'simulated',
    slo: experiment.slo,
    rows: rows.sort((a, b) => a.logCost - b.logCost),
    excluded: { sloUnattainable, cannotServe: failed.length },
    reasons: failed
      .sort((a, b) => b.nearness - a.nearness)
      .slice(0, 3)
      .map(({ reason }) => reason),
    complete,
    caveat: caveatOf(experiment),
  }
}

/** What is behind the figures: language models have a model of their own. */
const caveatOf = ({ model, variants, own }: Experiment): string =>
  architecturesNamed([model.architecture, ...variants.flatMap(({ architecture }) => architecture ?? [])], own).some(
    ({ kind }) => kind === 'decoder',
  )
    ? 'ESTIMATED by a closed form of continuous batching over step times fitted to composed per-operation latencies: nothing was launched or measured'
    : 'ESTIMATED by a device model calibrated on published tables: nothing was launched or measured'

function rowOf(
  configuration: Configuration,
  label: string,
  estimated: Extract<Estimated, { serves: true }>,
  problem: Problem,
): EstimateRow {
  const { capacityRps, relativeError, idleMs, binding, outOfMemory } = estimated
  const pricePerHour = problem.pricePerHour(configuration)
  return {
    configuration,
    label,
    capacityRps,
    relativeError,
    idleMs,
    binding,
    pricePerHour,
    pricePerMillionRequests: (pricePerHour / 3600 / capacityRps) * 1e6,
    outOfMemory,
    logCost: logCost(problem.objective, pricePerHour, Math.log(capacityRps), Math.log(idleMs)),
  }
}

/**
 * Refuses an experiment whose every configuration is certain not to serve, before anything is started.
 * @throws UserError with the configuration that comes nearest; the exit code is that of an SLO no configuration meets
 */
export function refuseWhatNeverServes(experiment: Experiment, problem: Problem): void {
  if (problem.cannotServe === undefined || untried(problem, [], createRng(experiment.seed)).configurations.length > 0) return
  const [nearest] = estimateAll(experiment, problem).reasons
  throw new UserError(
    `no configuration of the space can serve ${experiment.model.name}${nearest === undefined ? '' : `; the nearest, ${nearest}`}`,
    'add a larger GPU (--gpus), a larger share, a smaller batch or a narrower precision to the space',
    exitCodes.sloUnmet,
  )
}

/** The command. Returns the exit code. */
export async function estimate(flags: FlagValues & { json?: boolean; top?: string }): Promise<number> {
  const around = surroundings(await inspectMachine())
  const experiment = loadExperiment({ file: flags.file as string | undefined, flags, environment: process.env, ...around })
  const top = Number(flags.top ?? 10)
  if (!(Number.isInteger(top) && top >= 1))
    throw new UserError(`--top: '${flags.top}' is not a number of rows`, 'give a whole number from 1', exitCodes.usage)
  const problem = problemOf(experiment, await loadPriceBook(experiment.pricesPath, experiment.own.gpus))
  const estimates = estimateAll(experiment, problem)
  for (const notice of experiment.notices) process.stderr.write(`${notice}\n`)
  process.stdout.write(flags.json ? `${JSON.stringify(estimates, null, 2)}\n` : `${lines(estimates, experiment, top).join('\n')}\n`)
  return estimates.rows.length > 0 ? exitCodes.ok : exitCodes.sloUnmet
}

const costOf = (row: EstimateRow, objective: Objective): string => {
  switch (objective.kind) {
    case 'price':
      return `${money(row.pricePerHour)}/h`
    case 'price-for-demand':
      return `${money(Math.exp(row.logCost))}/h in all`
    default:
      return `${money(row.pricePerMillionRequests)} per million`
  }
}

function lines(estimates: EstimateTable, { objective, slo }: Experiment, top: number): string[] {
  const { rows, excluded, reasons, complete, caveat } = estimates
  const left = [
    excluded.sloUnattainable > 0
      ? `${excluded.sloUnattainable} miss ${slo.limits ? 'the SLO' : latency(slo.limitMs)} even one request at a time`
      : '',
    excluded.cannotServe > 0 ? `${excluded.cannotServe} cannot serve` : '',
  ].filter(Boolean)
  const tail = [
    ...(left.length > 0 ? [`Left out: ${left.join(', ')}.`] : []),
    ...(rows.length === 0 ? reasons : []),
    ...(complete ? [] : ['The space is too large to list: this is the best of a sample.']),
    `${caveat}. Errors: two cases of three.`,
  ]
  const best = rows[0]
  if (!best) return [`No configuration is expected to meet ${sloText(slo)}.`, ...tail]
  const rivals = rows.filter((r) => r.logCost - best.logCost <= Math.hypot(r.relativeError, best.relativeError)).length - 1
  return [
    `Expected best: ${best.label}: ${rate(best.capacityRps)} ± ${percent(best.relativeError)}, ${costOf(best, objective)}`,
    rivals > 0
      ? `${significant(rivals)} other configurations may be as good within the errors: trials tell.`
      : 'No other comes as near within the errors.',
    '',
    ...table([
      ['', 'configuration', 'capacity', 'idle', 'bound by', 'cost', 'P(out of memory)'],
      ...rows
        .slice(0, top)
        .map((row, i) => [
          `${i + 1}`,
          row.label,
          `${rate(row.capacityRps)} ± ${percent(row.relativeError)}`,
          sloValue(slo, row.idleMs),
          row.binding,
          costOf(row, objective),
          row.outOfMemory < 0.001 ? '-' : percent(row.outOfMemory),
        ]),
    ]),
    ...(rows.length > top ? [`... ${rows.length - top} more (--top N)`] : []),
    '',
    ...tail,
  ]
}

/**
 * What the device model expects of every configuration of an experiment, with error bars; nothing
 * is started or measured.
 */
import { createRng } from '../../search/index.ts'
import { cost, logCost } from '../../search/objective.ts'
import { type ReplicaPrice, resolveReplicaPrice } from '../../search/replica-price.ts'
import { findCandidates } from '../../search/space/candidates.ts'
import type { Configuration, Problem } from '../../search/types.ts'
import type { Estimated } from '../../trials/launchers/simulated/estimate.ts'
import { variantParameter } from '../../trials/launchers/variants.ts'
import { resourceParameters, servingParameters } from '../../trials/resources.ts'
import { acceptanceNotice } from '../config/settings/speculation-settings.ts'
import type { Experiment } from '../config/types.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import { createLabeller } from '../loop/problem.ts'
import { architecturesNamed, estimatorsOf } from './estimators.ts'

interface EstimateRow extends ReplicaPrice {
  readonly configuration: Configuration
  readonly label: string
  readonly capacityRps: number
  /** About two in three truths lie within ± this part of the capacity. */
  readonly relativeError: number
  readonly unloadedMs: number
  readonly binding: 'gpu' | 'cpu' | 'slo'
  readonly pricePerMillionRequests: number
  /** P(its GPU memory does not suffice after all). */
  readonly outOfMemory: number
  /** What the objective minimises, as in a recommendation. */
  readonly cost: number
  /** Its logarithm; of what is maximised, the logarithm's negative. */
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
  if (experiment.predictor.kind !== 'builtin' && experiment.calibrated === undefined)
    throw new UserError(
      `cannot estimate a ${experiment.predictor.kind} predictor: its behaviour is unknown`,
      'measure it first (tune calibrate, with the same flags), run trials, or estimate the built-in predictor',
      exitCodes.usage,
    )
  const of = estimatorsOf(experiment)
  if (of === undefined)
    throw new UserError(
      'cannot estimate your own model: its architecture is unknown',
      'set the most similar one: architecture: bert-base',
      exitCodes.usage,
    )
  const { configurations, complete } = findCandidates(
    { ...problem, cannotServe: undefined },
    [],
    createRng(experiment.seed),
  )
  const label = createLabeller(experiment)
  const unknown = unforetold(experiment)
  const offCalibration = (configuration: Configuration) =>
    unknown.some((name) => configuration[name] !== experiment.calibrated?.configuration[name])
  const rows: EstimateRow[] = []
  const failed: { readonly reason: string; readonly nearness: number }[] = []
  let sloUnattainable = 0
  for (const configuration of configurations) {
    const asked = of(configuration)
    const estimated = asked.estimator.estimate(asked.configuration)
    if (!estimated.serves)
      failed.push({
        reason: `${label(configuration)}: ${estimated.reason}`,
        nearness: estimated.memoryShare ?? 0,
      })
    else if (estimated.capacityRps === 0) sloUnattainable++
    else {
      const relativeError = Math.hypot(
        estimated.relativeError,
        offCalibration(configuration) ? unforetoldError : 0,
      )
      rows.push(
        rowOf(configuration, label(configuration), { ...estimated, relativeError }, problem),
      )
    }
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
    caveat: [...acceptanceNotice(experiment), caveatOf(experiment)].join(' '),
  }
}

/**
 * As `relativeError`, of a configuration that differs from the calibrated one in something of which
 * the device model knows nothing: a factor of two.
 */
const unforetoldError = 0.5
const foretold: ReadonlySet<string> = new Set<string>([
  ...resourceParameters,
  ...servingParameters,
  variantParameter,
])

/** The parameters of which the effect on a calibrated server is not known. */
const unforetold = ({ calibrated, space }: Experiment): string[] =>
  calibrated === undefined
    ? []
    : space.parameters.map(({ name }) => name).filter((name) => !foretold.has(name))

/** The values that a calibration says nothing beyond: 'dtype other than fp16'. */
function calibratedAlone(experiment: Experiment): string {
  const names = unforetold(experiment)
  if (names.length === 0) return ''
  const values = names.map(
    (name) => `${name} other than ${experiment.calibrated?.configuration[name]}`,
  )
  return `The effect of ${values.join(', ')} is unknown: the error there is a factor of two. `
}

/** What is behind the figures: language models have a model of their own. */
const caveatOf = (experiment: Experiment): string => {
  const { model, variants, own, calibrated } = experiment
  return (
    (calibrated
      ? `Anchored on ${calibrated.name}, measured ${calibrated.measuredAt.slice(0, 10)} on ${calibrated.device}. `
      : '') +
    calibratedAlone(experiment) +
    (architecturesNamed(
      [model.architecture, ...variants.flatMap(({ architecture }) => architecture ?? [])],
      own,
    ).some(({ kind }) => kind === 'decoder')
      ? 'ESTIMATED by a closed-form model of continuous batching, fitted to published measurements of whole servers: nothing was launched or measured'
      : 'ESTIMATED by a device model calibrated on published tables: nothing was launched or measured')
  )
}

function rowOf(
  configuration: Configuration,
  label: string,
  estimated: Extract<Estimated, { serves: true }>,
  problem: Problem,
): EstimateRow {
  const { capacityRps, relativeError, unloadedMs, binding, outOfMemory } = estimated
  const price = resolveReplicaPrice(problem.pricePerHour, configuration)
  const { pricePerHour } = price
  return {
    configuration,
    label,
    capacityRps,
    relativeError,
    unloadedMs,
    binding,
    ...price,
    pricePerMillionRequests: (pricePerHour / 3600 / capacityRps) * 1e6,
    outOfMemory,
    cost: cost(problem.objective, { ...price, capacityRps, unloadedMs }),
    logCost: logCost(problem.objective, price, Math.log(capacityRps), Math.log(unloadedMs)),
  }
}

/**
 * Refuses an experiment whose every configuration is certain not to serve, before anything is
 * started.
 * @throws UserError with the configuration that comes nearest; the exit code is that of an SLO no
 * configuration meets
 */
export function refuseWhatNeverServes(experiment: Experiment, problem: Problem): void {
  if (
    problem.cannotServe === undefined ||
    findCandidates(problem, [], createRng(experiment.seed)).configurations.length > 0
  )
    return
  const [nearest] = estimateAll(experiment, problem).reasons
  throw new UserError(
    `no configuration of the search space can serve ${experiment.model.name}${nearest === undefined ? '' : `; the nearest is ${nearest}`}`,
    'add a larger GPU (--gpus), a larger share, a smaller batch, a lower precision or a longer maxModelLen to the search space',
    exitCodes.sloUnmet,
  )
}

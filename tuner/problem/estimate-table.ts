/**
 * Predictions of the device model for every configuration of an experiment, with errors. Starts and
 * measures nothing.
 */
import { createRng } from '../../search/index.ts'
import { computeCost, computeLogCost } from '../../search/objective.ts'
import { type ReplicaPrice, resolveReplicaPrice } from '../../search/replica-price.ts'
import { findCandidates } from '../../search/space/candidates.ts'
import type { Configuration, Problem } from '../../search/types.ts'
import type { ConfigurationEstimate } from '../../trials/launchers/simulated/estimate.ts'
import { variantParameter } from '../../trials/launchers/variants.ts'
import { resourceParameters, servingParameters } from '../../trials/resources.ts'
import { describeAcceptance } from '../config/settings/speculation-settings.ts'
import type { Experiment } from '../config/types.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import { createEstimatorLookup, findArchitectures } from './estimators.ts'
import { createLabeller } from './problem.ts'

interface EstimateRow extends ReplicaPrice {
  readonly configuration: Configuration
  readonly label: string
  readonly capacityRps: number
  /** Standard error as a share of the capacity: about two of three true values are within it. */
  readonly relativeError: number
  readonly unloadedMs: number
  /** What limits the capacity. */
  readonly binding: 'gpu' | 'cpu' | 'slo'
  readonly pricePerMillionRequests: number
  /** P(the GPU runs out of memory). */
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
  /** Numbers of excluded configurations by reason. */
  readonly excluded: Readonly<Record<'sloUnattainable' | 'cannotServe', number>>
  /** Why configurations cannot serve: up to three reasons, the one nearest to serving first. */
  readonly reasons: readonly string[]
  /**
   * Whether every configuration was estimated; otherwise a quasi-random sample of a large space.
   */
  readonly complete: boolean
  readonly caveat: string
}

/**
 * Estimates every configuration of an experiment's space.
 * @throws UserError if the predictor is not modelled
 */
export function estimateAll(experiment: Experiment, problem: Problem): EstimateTable {
  if (experiment.stages !== undefined)
    throw new UserError(
      'cannot estimate a pipeline yet',
      'tune it with --backend simulated, or estimate its stages one by one',
      exitCodes.usage,
    )
  if (experiment.predictor.kind !== 'builtin' && experiment.calibrated === undefined)
    throw new UserError(
      `cannot estimate a ${experiment.predictor.kind} predictor: its behaviour is unknown`,
      'measure it first (tune calibrate, with the same flags), run trials, or estimate the built-in predictor',
      exitCodes.usage,
    )
  const findEstimator = createEstimatorLookup(experiment)
  if (findEstimator === undefined)
    throw new UserError(
      'cannot estimate your own model: its architecture is unknown',
      'set the most similar one: architecture: bert-base',
      exitCodes.usage,
    )
  const { configurations, isComplete } = findCandidates(
    // Keep configurations that cannot serve, to count them and say why.
    { ...problem, cannotServe: undefined },
    [],
    createRng(experiment.seed),
  )
  const label = createLabeller(experiment)
  const unknown = listUnmodelledParameters(experiment)
  const offCalibration = (configuration: Configuration) =>
    unknown.some((name) => configuration[name] !== experiment.calibrated?.configuration[name])
  const rows: EstimateRow[] = []
  const failed: { readonly reason: string; readonly nearness: number }[] = []
  let sloUnattainable = 0
  for (const configuration of configurations) {
    const { estimator, configuration: estimatedAs } = findEstimator(configuration)
    const estimated = estimator.estimate(estimatedAs)
    if (!estimated.isFeasible)
      failed.push({
        reason: `${label(configuration)}: ${estimated.reason}`,
        nearness: estimated.availableOverNeededMemory ?? 0,
      })
    else if (estimated.capacityRps === 0) sloUnattainable++
    else {
      const relativeError = Math.hypot(
        estimated.relativeError,
        offCalibration(configuration) ? unmodelledParameterError : 0,
      )
      rows.push(
        createRow(configuration, label(configuration), { ...estimated, relativeError }, problem),
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
    complete: isComplete,
    caveat: [...describeAcceptance(experiment), describeCaveat(experiment)].join(' '),
  }
}

/**
 * Additional relative error of a configuration that differs from the calibrated one in a parameter
 * without a model: about a factor of two at two standard errors.
 */
const unmodelledParameterError = 0.5
const modelledParameters: ReadonlySet<string> = new Set<string>([
  ...resourceParameters,
  ...servingParameters,
  variantParameter,
])

/** Parameters whose effect on a calibrated server is not modelled. */
const listUnmodelledParameters = ({ calibrated, space }: Experiment): string[] =>
  calibrated === undefined
    ? []
    : space.parameters.map(({ name }) => name).filter((name) => !modelledParameters.has(name))

/** Notice on values that the calibration does not cover: 'dtype other than fp16'. */
function describeUnmodelledParameters(experiment: Experiment): string {
  const names = listUnmodelledParameters(experiment)
  if (names.length === 0) return ''
  const values = names.map(
    (name) => `${name} other than ${experiment.calibrated?.configuration[name]}`,
  )
  return `The effect of ${values.join(', ')} is unknown: the error there is a factor of two. `
}

/** The source of the figures; language models have a separate model. */
const describeCaveat = (experiment: Experiment): string => {
  const { model, variants, own, calibrated } = experiment
  return (
    (calibrated
      ? `Anchored on ${calibrated.name}, measured ${calibrated.measuredAt.slice(0, 10)} on ${calibrated.device}. `
      : '') +
    describeUnmodelledParameters(experiment) +
    (findArchitectures(
      [model.architecture, ...variants.flatMap(({ architecture }) => architecture ?? [])],
      own,
    ).some(({ kind }) => kind === 'decoder')
      ? 'ESTIMATED by a closed-form model of continuous batching, fitted to published measurements of whole servers: nothing was launched or measured'
      : 'ESTIMATED by a device model calibrated on published tables: nothing was launched or measured')
  )
}

function createRow(
  configuration: Configuration,
  label: string,
  estimated: Extract<ConfigurationEstimate, { isFeasible: true }>,
  problem: Problem,
): EstimateRow {
  const { capacityRps, relativeError, unloadedMs, binding, outOfMemoryProbability } = estimated
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
    outOfMemory: outOfMemoryProbability,
    cost: computeCost(problem.objective, { ...price, capacityRps, unloadedMs }),
    logCost: computeLogCost(problem.objective, price, Math.log(capacityRps), Math.log(unloadedMs)),
  }
}

/**
 * Rejects an experiment of which no configuration can serve, before anything starts.
 * @throws UserError with the nearest configuration and the exit code of an unmet SLO
 */
export function requireServable(experiment: Experiment, problem: Problem): void {
  if (
    problem.cannotServe === undefined ||
    findCandidates(problem, [], createRng(experiment.seed)).configurations.length > 0
  )
    return
  const [nearest] = experiment.stages ? [] : estimateAll(experiment, problem).reasons
  throw new UserError(
    `no configuration of the search space can serve ${experiment.model.name}${nearest === undefined ? '' : `; the nearest is ${nearest}`}`,
    'add a larger GPU (--gpus), a larger share, a smaller batch, a lower precision or a longer maxModelLen to the search space',
    exitCodes.sloUnmet,
  )
}

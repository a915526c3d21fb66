/** An experiment as a problem of the search: its space, exact prices, limits and priors. */
import type { RankingCriteria } from '../../reports/recommendation/ranked-candidate.ts'
import { modelsCapacityOrLatency } from '../../search/objective.ts'
import type { Pricing } from '../../search/replica-price.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { Configuration, Problem, SearchSpace } from '../../search/types.ts'
import type { Gpu } from '../../trials/devices/catalogue.ts'
import { occupiesWholeGpu } from '../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import type { Estimator } from '../../trials/launchers/simulated/estimate.ts'
import { isStarted } from '../../trials/launchers/template.ts'
import { splitConfiguration, sumOverStages } from '../../trials/pipeline/stage-configuration.ts'
import {
  defaultPriceBook,
  listBundles,
  type PriceBook,
  pricePerHour,
} from '../../trials/prices/book.ts'
import { parsePriceBook } from '../../trials/prices/parse-book.ts'
import { findProviderBook } from '../../trials/prices/providers.ts'
import {
  describeConfiguration,
  parseResources,
  resourceParameters,
} from '../../trials/resources.ts'
import { createQualityLookup } from '../config/settings/variant-settings.ts'
import type { Experiment } from '../config/types.ts'
import { readGivenFile } from '../given-file.ts'
import { createEstimatorLookup, type EstimatorLookup, hasServerPrior } from './estimators.ts'
import { createPipelinePrior } from './pipeline-model.ts'

/**
 * Loads a price book.
 * @param name a provider, or the path of a user's price book; absent: the built-in price book
 * @throws all errors of the file at once, or UserError where it cannot be read
 */
export async function loadPriceBook(
  name: string | undefined,
  ownGpus: readonly Gpu[] = [],
): Promise<PriceBook> {
  if (name === undefined) return defaultPriceBook
  return (
    findProviderBook(name) ??
    parsePriceBook(readGivenFile(name, 'the price book', '--prices', 'document'), name, ownGpus)
  )
}

/**
 * Creates the price of one replica, $ per hour, memoised because samplers price whole grids; of a
 * pipeline, the price of all replicas of its stages.
 * @param reservesWholeGpus a share of a GPU costs the whole GPU
 */
export function createPricing(
  book: PriceBook,
  ownGpus: readonly Gpu[] = [],
  reservesWholeGpus = false,
): Pricing<Configuration> {
  const resolveReservedResources = (configuration: Configuration) => {
    const resources = parseResources(configuration, {}, ownGpus)
    return reservesWholeGpus && resources.gpu !== undefined && !resources.migProfile
      ? { ...resources, gpuShare: 1 }
      : resources
  }
  const priceReplica = memoiseByResources((configuration) =>
    pricePerHour(resolveReservedResources(configuration), book),
  )
  const bundleReplica = memoiseByResources((configuration) =>
    listBundles(resolveReservedResources(configuration), book),
  )
  return Object.assign(
    (configuration: Configuration) => sumOverStages(configuration, priceReplica),
    {
      bundles: (configuration: Configuration) =>
        splitConfiguration(configuration) === undefined ? bundleReplica(configuration) : undefined,
    },
  )
}

/** Memoises a function that depends only on the resources of a configuration. */
function memoiseByResources<V>(
  compute: (configuration: Configuration) => V,
): (configuration: Configuration) => V {
  const memo = new Map<string, V>()
  return (configuration) => {
    const key = resourceParameters.map((name) => configuration[name]).join('/')
    if (!memo.has(key)) memo.set(key, compute(configuration))
    return memo.get(key)!
  }
}

/** Creates labels of configurations for people: '2 cores, 1/4 T4 (4 GiB), batch 8'. */
export const createLabeller =
  ({ own }: Pick<Experiment, 'own'>) =>
  (configuration: Configuration): string =>
    describeConfiguration(configuration, {}, own.gpus) || 'as it runs'

/** Creates the criteria by which the candidates of an experiment are ranked. */
export const createRankingCriteria = (
  { slo, objective, variants, minQuality }: Experiment,
  { pricePerHour, label }: Pick<RankingCriteria, 'pricePerHour' | 'label'>,
): RankingCriteria => ({
  slo,
  objective,
  pricePerHour,
  label,
  quality: createQualityLookup(variants),
  minQuality,
})

/** Creates the prices of the configurations of an experiment. */
export const priceExperiment = (experiment: Experiment, book: PriceBook): Pricing<Configuration> =>
  createPricing(book, experiment.own.gpus, reservesWholeGpus(experiment))

export function createProblem(experiment: Experiment, book: PriceBook): Problem {
  const { space, objective, slo } = experiment
  const hasKnownShape = modelsCapacityOrLatency(objective)
  return {
    space: hasKnownShape ? space : removeMonotonicity(space),
    objective,
    pricePerHour: priceExperiment(experiment, book),
    constraintLimit: slo.limitMs,
    ...(hasKnownShape ? createPrior(experiment) : {}),
  }
}

/** Removes the known directions: a metric of the user may rise where the capacity falls. */
const removeMonotonicity = (space: SearchSpace): SearchSpace => ({
  ...space,
  parameters: space.parameters.map((parameter) => ({ ...parameter, monotone: undefined })),
})

const reservesWholeGpus = ({ kubernetes, backend }: Experiment): boolean =>
  backend === 'kubernetes' &&
  kubernetes?.gpuScheme !== undefined &&
  occupiesWholeGpu(kubernetes.gpuScheme, kubernetes.dra)

/**
 * Estimates the capacity of configurations by the device model, requests per second; undefined for
 * a configuration that does not serve. There is no estimator where the device model does not know
 * the server or the objective models another quantity, and none in virtual time, where a shorter
 * measurement saves nothing.
 */
export function createCapacityEstimator(
  experiment: Experiment,
): ((configuration: Configuration) => number | undefined) | undefined {
  const { backend, objective, predictor, calibrated, stages } = experiment
  if (stages !== undefined) return undefined
  if (backend === 'simulated' || !modelsCapacityOrLatency(objective)) return undefined
  // The typical overhead of servers is no estimate for one server.
  if (predictor.kind !== 'builtin' && calibrated === undefined) return undefined
  const resolveEstimator = createEstimators(experiment)
  if (resolveEstimator === undefined) return undefined
  const memo = new Map<string, number | undefined>()
  const estimate = (configuration: Configuration): number | undefined => {
    const { estimator, configuration: servedConfiguration } = resolveEstimator(configuration)
    const prediction = estimator.estimate(servedConfiguration)
    return prediction.isFeasible && prediction.capacityRps > 0 ? prediction.capacityRps : undefined
  }
  return (configuration) => {
    const key = configurationKey(configuration)
    if (!memo.has(key)) memo.set(key, estimate(configuration))
    return memo.get(key)
  }
}

/**
 * Creates the estimators. Undefined for a server that already runs, for a command without GPUs, and
 * for a server whose model or batching is unknown.
 */
function createEstimators(experiment: Experiment): EstimatorLookup | undefined {
  const { predictor, calibrated } = experiment
  if (listDevices(experiment).length === 0 || !isStarted(predictor)) return undefined
  if (predictor.kind === 'command' && calibrated === undefined && !hasServerPrior(experiment))
    return undefined
  return createEstimatorLookup(experiment)
}

/** Lists the GPUs of the space; 'none' for a built-in server that computes on its cores. */
function listDevices({ space, predictor }: Experiment): readonly string[] {
  const gpus = space.parameters.flatMap((p) =>
    p.name === 'gpu' && p.kind === 'categorical' ? p.values : [],
  )
  return gpus.length === 0 && predictor.kind === 'builtin' ? ['none'] : gpus
}

/** Creates the device-model prior: the search learns only how the server differs from it. */
function createPrior(
  experiment: Experiment,
): Pick<
  Problem,
  'priorLogRate' | 'priorFactors' | 'priorLogConstraint' | 'cannotServe' | 'memoryFitProbability'
> {
  if (experiment.stages !== undefined) return createPipelinePrior(experiment, experiment.stages)
  const resolveEstimator = createEstimators(experiment)
  if (resolveEstimator === undefined) return {}
  /** Creates a function that evaluates the estimator of its configuration. */
  const estimateBy =
    <T>(evaluate: (estimator: Estimator, configuration: Configuration) => T) =>
    (configuration: Configuration) => {
      const served = resolveEstimator(configuration)
      return evaluate(served.estimator, served.configuration)
    }
  // Each model variant would need factors of its own.
  const hasOneModel = experiment.variants.length === 0
  return {
    ...(hasOneModel && {
      priorFactors: resolveEstimator({}).estimator.priorFactors(listDevices(experiment)),
    }),
    priorLogRate: estimateBy((estimator, configuration) => estimator.priorLogRate(configuration)),
    priorLogConstraint: estimateBy((estimator, configuration) =>
      estimator.priorLogConstraint(configuration),
    ),
    cannotServe: estimateBy((estimator, configuration) => estimator.cannotServe(configuration)),
    memoryFitProbability: estimateBy((estimator, configuration) =>
      estimator.memoryFitProbability(configuration),
    ),
  }
}

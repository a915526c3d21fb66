/** An experiment as the search sees it: space, exact prices, the SLO as limit. */
import type { View } from '../../reports/recommendation/judged.ts'
import { modelsCapacityOrLatency } from '../../search/objective.ts'
import type { Pricing } from '../../search/replica-price.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { Configuration, Problem } from '../../search/types.ts'
import type { Gpu } from '../../trials/devices/catalogue.ts'
import { holdsWholeGpu } from '../../trials/launchers/kubernetes/gpu-selection.ts'
import type { Estimator } from '../../trials/launchers/simulated/estimate.ts'
import { isStarted } from '../../trials/launchers/template.ts'
import {
  bundlesIn,
  defaultPriceBook,
  type PriceBook,
  pricePerHour,
} from '../../trials/prices/book.ts'
import { parsePriceBook } from '../../trials/prices/parse-book.ts'
import { providerBook } from '../../trials/prices/providers.ts'
import { describeConfiguration, resourceParameters, resourcesOf } from '../../trials/resources.ts'
import { type EstimatorOf, estimatorsOf, hasServerPrior } from '../backends/estimators.ts'
import { qualityOf } from '../experiment/settings/variant-settings.ts'
import type { Experiment } from '../experiment/types.ts'
import { givenText } from '../given-file.ts'

/**
 * @param named a provider, or the path of a user's own book; absent: the built-in one
 * @throws every problem of the file, or UserError when it cannot be read
 */
export async function loadPriceBook(
  named: string | undefined,
  ownGpus: readonly Gpu[] = [],
): Promise<PriceBook> {
  if (named === undefined) return defaultPriceBook
  return (
    providerBook(named) ??
    parsePriceBook(givenText(named, 'the price book', '--prices', 'document'), named, ownGpus)
  )
}

const holdsWholeGpus = ({ kubernetes, backend }: Experiment): boolean =>
  backend === 'kubernetes' &&
  kubernetes?.gpuScheme !== undefined &&
  holdsWholeGpu(kubernetes.gpuScheme, kubernetes.dra)

/**
 * Price of one replica, $ per hour, remembered per configuration: samplers ask for whole grids.
 * @param wholeGpus a part of a GPU costs all of it
 */
export function pricing(
  book: PriceBook,
  ownGpus: readonly Gpu[] = [],
  wholeGpus = false,
): Pricing<Configuration> {
  const held = (configuration: Configuration) => {
    const resources = resourcesOf(configuration, {}, ownGpus)
    return wholeGpus && resources.gpu !== undefined && !resources.migProfile
      ? { ...resources, gpuShare: 1 }
      : resources
  }
  return Object.assign(
    perResources((configuration) => pricePerHour(held(configuration), book)),
    { bundles: perResources((configuration) => bundlesIn(held(configuration), book)) },
  )
}

/** Remembers what depends on the resources of a configuration alone. */
function perResources<V>(
  of: (configuration: Configuration) => V,
): (configuration: Configuration) => V {
  const known = new Map<string, V>()
  return (configuration) => {
    const key = resourceParameters.map((name) => configuration[name]).join('/')
    if (!known.has(key)) known.set(key, of(configuration))
    return known.get(key)!
  }
}

/** What a configuration is called. */
export const labelOf =
  ({ own }: Pick<Experiment, 'own'>) =>
  (configuration: Configuration): string =>
    describeConfiguration(configuration, {}, own.gpus) || 'as it runs'

/** What an experiment's candidates are ranked by. */
export const viewOf = (
  { slo, objective, variants, minQuality }: Experiment,
  { pricePerHour, label }: Pick<View, 'pricePerHour' | 'label'>,
): View => ({ slo, objective, pricePerHour, label, quality: qualityOf(variants), minQuality })

export function problemOf(experiment: Experiment, book: PriceBook): Problem {
  const { space, objective } = experiment
  // A quantity of the objective's own may rise where the capacity falls.
  const known = modelsCapacityOrLatency(objective)
  return {
    space: known
      ? space
      : {
          ...space,
          parameters: space.parameters.map((parameter) => ({ ...parameter, monotone: undefined })),
        },
    objective,
    pricePerHour: pricing(book, experiment.own.gpus, holdsWholeGpus(experiment)),
    constraintLimit: experiment.slo.limitMs,
    ...(known ? physicsOf(experiment) : {}),
  }
}

/**
 * Capacity that the device model expects of each configuration, requests per second; undefined for
 * one that does not serve. No function where the model does not know the predictor, where the
 * objective learns something else, and in virtual time, where a shorter search saves nothing.
 */
export function expectationOf(
  experiment: Experiment,
): ((configuration: Configuration) => number | undefined) | undefined {
  if (experiment.backend === 'simulated' || !modelsCapacityOrLatency(experiment.objective))
    return undefined
  // What is usual of servers is no expectation of one.
  if (experiment.predictor.kind !== 'builtin' && experiment.calibrated === undefined)
    return undefined
  const of = estimatorsOfDevices(experiment)
  if (of === undefined) return undefined
  const known = new Map<string, number | undefined>()
  return (given) => {
    const key = configurationKey(given)
    if (!known.has(key)) {
      const { estimator, configuration } = of(given)
      const estimated = estimator.estimate(configuration)
      known.set(
        key,
        estimated.serves && estimated.capacityRps > 0 ? estimated.capacityRps : undefined,
      )
    }
    return known.get(key)
  }
}

/**
 * Undefined for a server that runs already, for a command without GPUs, and for one whose model or
 * batches are unknown.
 */
function estimatorsOfDevices(experiment: Experiment): EstimatorOf | undefined {
  const { predictor, calibrated } = experiment
  if (devicesOf(experiment).length === 0 || !isStarted(predictor)) return undefined
  if (predictor.kind === 'command' && calibrated === undefined && !hasServerPrior(experiment))
    return undefined
  return estimatorsOf(experiment)
}

/** GPUs of the space; the built-in server infers on its cores, 'none', where there are none. */
function devicesOf({ space, predictor }: Experiment): readonly string[] {
  const gpus = space.parameters.flatMap((p) =>
    p.name === 'gpu' && p.kind === 'categorical' ? p.values : [],
  )
  return gpus.length === 0 && predictor.kind === 'builtin' ? ['none'] : gpus
}

/**
 * What the device model expects of a predictor that it knows: the search learns only how reality
 * differs from it.
 */
function physicsOf(
  experiment: Experiment,
): Pick<
  Problem,
  'priorLogRate' | 'priorFactors' | 'priorLogConstraint' | 'cannotServe' | 'memoryFitProbability'
> {
  const of = estimatorsOfDevices(experiment)
  if (of === undefined) return {}
  // What the factors move is learned of one model; variants have each their own.
  const one = experiment.variants.length === 0
  const ask =
    <T>(question: (estimator: Estimator, configuration: Configuration) => T) =>
    (given: Configuration) => {
      const { estimator, configuration } = of(given)
      return question(estimator, configuration)
    }
  return {
    ...(one && { priorFactors: of({}).estimator.priorFactors(devicesOf(experiment)) }),
    priorLogRate: ask((estimator, configuration) => estimator.priorLogRate(configuration)),
    priorLogConstraint: ask((estimator, configuration) =>
      estimator.priorLogConstraint(configuration),
    ),
    cannotServe: ask((estimator, configuration) => estimator.cannotServe(configuration)),
    memoryFitProbability: ask((estimator, configuration) =>
      estimator.memoryFitProbability(configuration),
    ),
  }
}

/**
 * Posterior of the GPU memory that a server needs, from its launches: MiB = processes × (fixed +
 * per item × batch), with both amounts unknown. Computed on a grid.
 */
import { cdf } from '../../search/gp/normal.ts'
import { createKeyWithout } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import type { Gpu } from '../../trials/devices/catalogue.ts'
import { DeviceModelError } from '../../trials/devices/device-model-error.ts'
import { grouped } from '../../trials/grouped.ts'
import { parseResources, readServingParameters } from '../../trials/resources.ts'

interface Launch {
  readonly configuration: Configuration
  /** GPU memory ran out; otherwise it served. */
  readonly ranOut: boolean
}

// The following numbers are assumed, with wide priors: a few launches outweigh them.

/**
 * Priors of ln(MiB) of one process. Fixed: a context with its libraries and weights. Per item: an
 * image or a text in the batch. Wide, because servers differ by a factor of several.
 */
const fixedPrior = { mean: Math.log(1500), sd: 0.8 }
const perItemPrior = { mean: Math.log(30), sd: 2 }
/** Standard deviation of ln(MiB) of a launch around the model. */
const noiseSd = 0.06
/** P(a launch ran out because other processes had taken the memory). */
const interferenceProbability = 0.02
/** Lower bound of the likelihood of one launch, so that no observation excludes the whole grid. */
const minLikelihood = 1e-6
/** Grid of standard normal quantiles for each of the two amounts: -3 to 3. */
const gridSize = 41
const grid = Array.from({ length: gridSize }, (_, i) => -3 + (6 * i) / (gridSize - 1))

/**
 * Parameters that the model uses, or that do not affect GPU memory. Launches are comparable where
 * all other parameters are equal.
 */
const modelledParameters: ReadonlySet<string> = new Set([
  'gpu',
  'gpuMemoryPercent',
  'migProfile',
  'batchSize',
  'instances',
  'cpuCores',
  'memoryMiB',
  'maxDelayMs',
  'queueLimit',
])

/** A hypothesis about the memory of one process, with its posterior probability. */
interface MemoryModel {
  readonly fixedMiB: number
  readonly perItemMiB: number
  readonly weight: number
}

interface MemoryUse {
  readonly processes: number
  readonly batch: number
  readonly availableMiB: number
}

/**
 * Returns a function that infers P(the GPU memory of a configuration suffices). It is 1 if no
 * comparable launch ran out of memory, and without a GPU.
 */
export function inferMemoryFit(
  launches: readonly Launch[],
  ownGpus: readonly Gpu[] = [],
): (configuration: Configuration) => number {
  const posteriors = new Map(
    [...grouped(launches, ({ configuration }) => createComparisonKey(configuration))].flatMap(
      ([key, comparable]) =>
        comparable.some(({ ranOut }) => ranOut)
          ? [[key, computePosterior(comparable, ownGpus)]]
          : [],
    ),
  )
  const probabilityByKey = new Map<string, number>()
  return (configuration) => {
    const comparison = createComparisonKey(configuration)
    const posterior = posteriors.get(comparison)
    const use = posterior && resolveMemoryUse(configuration, ownGpus)
    if (!use) return 1
    const key = `${comparison} ${Object.values(use)}`
    const probability =
      probabilityByKey.get(key) ??
      posterior.reduce((sum, model) => sum + model.weight * computeFit(model, use), 0)
    probabilityByKey.set(key, probability)
    return probability
  }
}

const createComparisonKey = (configuration: Configuration): string =>
  createKeyWithout(configuration, modelledParameters)

/** Resolves the memory use; undefined without a GPU, and for an unknown device. */
function resolveMemoryUse(
  configuration: Configuration,
  ownGpus: readonly Gpu[],
): MemoryUse | undefined {
  try {
    const { gpuMemoryMiB } = parseResources(configuration, {}, ownGpus)
    const { instances, batchSize } = readServingParameters(configuration)
    return gpuMemoryMiB === undefined
      ? undefined
      : { processes: instances, batch: batchSize, availableMiB: gpuMemoryMiB }
  } catch (error) {
    if (error instanceof DeviceModelError) return undefined
    throw error
  }
}

/** Computes P(the available memory suffices) under one model. */
function computeFit(
  { fixedMiB, perItemMiB }: Omit<MemoryModel, 'weight'>,
  { processes, batch, availableMiB }: MemoryUse,
): number {
  const neededMiB = processes * (fixedMiB + perItemMiB * batch)
  return cdf(Math.log(availableMiB / neededMiB) / noiseSd)
}

function computePosterior(
  launches: readonly Launch[],
  ownGpus: readonly Gpu[],
): readonly MemoryModel[] {
  const modelledLaunches = launches.flatMap(({ configuration, ranOut }) => {
    const use = resolveMemoryUse(configuration, ownGpus)
    return use ? [{ use, ranOut }] : []
  })
  const models = grid.flatMap((fixedZ) =>
    grid.map((perItemZ) => {
      const model = {
        fixedMiB: Math.exp(fixedPrior.mean + fixedPrior.sd * fixedZ),
        perItemMiB: Math.exp(perItemPrior.mean + perItemPrior.sd * perItemZ),
      }
      const likelihood = modelledLaunches.reduce((product, { use, ranOut }) => {
        const fit = computeFit(model, use)
        const probability = ranOut
          ? interferenceProbability + (1 - interferenceProbability) * (1 - fit)
          : Math.max(minLikelihood, fit)
        return product * probability
      }, 1)
      return { ...model, weight: Math.exp(-(fixedZ ** 2 + perItemZ ** 2) / 2) * likelihood }
    }),
  )
  const total = models.reduce((sum, { weight }) => sum + weight, 0)
  return models.map((model) => ({ ...model, weight: model.weight / total }))
}

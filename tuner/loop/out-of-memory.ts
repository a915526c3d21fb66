/**
 * Rules out configurations by launches that ran out of memory: a configuration with at most the
 * same memory and at least the same demand would fail as well.
 */
import { createRng } from '../../search/rng.ts'
import { findCandidates } from '../../search/space/candidates.ts'
import type { Configuration, Parameter, Problem } from '../../search/types.ts'
import type { Gpu } from '../../trials/devices/catalogue.ts'
import { DeviceModelError } from '../../trials/devices/device-model-error.ts'
import { isGpuOutOfMemory } from '../../trials/launchers/diagnosis.ts'
import { parseResources, type Resources } from '../../trials/resources.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { inferMemoryFit } from './memory-posterior.ts'

/** Parameters that supply memory. `parseResources` resolves them together. */
const supplyParameters: ReadonlySet<string> = new Set([
  'gpu',
  'gpuMemoryPercent',
  'migProfile',
  'memoryMiB',
])
/** Parameters that demand more memory the larger they are, beside those marked as concurrency. */
const demandParameters: ReadonlySet<string> = new Set([
  'batchSize',
  'instances',
  'sequenceLength',
  'imageSize',
  'cpuCores',
  'queueLimit',
])
/** Parameters without influence on memory. */
const neutralParameters: ReadonlySet<string> = new Set(['maxDelayMs'])
/**
 * Another GPU is ruled out only with less than this share of the memory, because contexts and
 * workspaces of GPUs differ by some hundred MiB. Assumed.
 */
const maxShareOnOtherGpu = 0.9

/** A configuration that ran out of memory: the GPU's, or else possibly the machine's. */
interface Shortage {
  readonly configuration: Configuration
  readonly isGpuMemory: boolean
}

const findShortage = (trial: FinishedTrial): Shortage | undefined =>
  trial.state === 'infeasible' && trial.reason === 'out-of-memory'
    ? { configuration: trial.configuration, isGpuMemory: isGpuOutOfMemory(trial.detail) }
    : undefined

/**
 * Excludes from the problem the configurations that trials have shown to run out of memory, and adds
 * the probability that the others fit. Returns the same object if no trial ran out of memory.
 */
export function excludeOutOfMemory(
  problem: Problem,
  trials: readonly FinishedTrial[],
  ownGpus: readonly Gpu[] = [],
): Problem {
  const shortages = trials.flatMap((trial) => findShortage(trial) ?? [])
  if (shortages.length === 0) return problem
  const { parameters } = problem.space
  const launches = trials.flatMap((trial) => {
    const { configuration } = trial
    if (trial.state === 'complete') return [{ configuration, ranOut: false }]
    return findShortage(trial)?.isGpuMemory ? [{ configuration, ranOut: true }] : []
  })
  return {
    ...problem,
    servesProbability: inferMemoryFit(launches, ownGpus),
    cannotServe: (configuration) =>
      problem.cannotServe?.(configuration) === true ||
      shortages.some((shortage) => isRuledOut(configuration, shortage, parameters, ownGpus)),
  }
}

/** Adds to the detail of a trial that ran out of memory how many configurations it rules out. */
export function addExclusionReason(
  trial: FinishedTrial,
  problem: Problem,
  earlier: readonly FinishedTrial[],
  ownGpus: readonly Gpu[] = [],
): FinishedTrial {
  const shortage = findShortage(trial)
  if (shortage === undefined || trial.state !== 'infeasible') return trial
  const triedConfigurations = [...earlier, trial].map(({ configuration }) => configuration)
  const { configurations, isComplete } = findCandidates(
    excludeOutOfMemory(problem, earlier, ownGpus),
    triedConfigurations,
    createRng('memory'),
  )
  const { parameters } = problem.space
  const ruledOut = configurations.filter((configuration) =>
    isRuledOut(configuration, shortage, parameters, ownGpus),
  ).length
  if (ruledOut === 0) return trial
  const memory = shortage.isGpuMemory ? 'GPU memory' : 'memory'
  const others = isComplete ? `${ruledOut} other${ruledOut === 1 ? '' : 's'}` : 'others'
  return {
    ...trial,
    detail: `${trial.detail}; skipped ${others} with no more ${memory} and no smaller demand for it`,
  }
}

/**
 * Whether a configuration has no smaller demand for memory than one that ran out, and no more of
 * it.
 */
function isRuledOut(
  candidate: Configuration,
  { configuration, isGpuMemory }: Shortage,
  parameters: readonly Parameter[],
  ownGpus: readonly Gpu[],
): boolean {
  const hasNoSmallerDemand = parameters.every(({ name, concurrency }) => {
    if (supplyParameters.has(name) || neutralParameters.has(name)) return true
    const [demand, shortageDemand] = [candidate[name], configuration[name]]
    if (demand === shortageDemand) return true
    const isDemand = concurrency === true || demandParameters.has(name)
    return isDemand && Number(demand) >= Number(shortageDemand)
  })
  if (!hasNoSmallerDemand) return false
  try {
    return hasNoMoreMemory(
      parseResources(candidate, {}, ownGpus),
      parseResources(configuration, {}, ownGpus),
      isGpuMemory,
    )
  } catch (error) {
    // The device model does not know the device: nothing is known about its memory.
    if (error instanceof DeviceModelError) return false
    throw error
  }
}

/**
 * Whether a candidate has no more memory than a configuration that ran out.
 * @param isGpuMemory the GPU ran out; otherwise the machine may have
 */
function hasNoMoreMemory(
  candidate: Resources,
  exhausted: Resources,
  isGpuMemory: boolean,
): boolean {
  const isSameGpu = candidate.gpu === exhausted.gpu
  const hasNoMoreRam = candidate.memoryMiB <= exhausted.memoryMiB
  if (exhausted.gpuMemoryMiB === undefined || candidate.gpuMemoryMiB === undefined)
    return isSameGpu && hasNoMoreRam
  const maxGpuMemoryMiB = exhausted.gpuMemoryMiB * (isSameGpu ? 1 : maxShareOnOtherGpu)
  return candidate.gpuMemoryMiB <= maxGpuMemoryMiB && (isGpuMemory || hasNoMoreRam)
}

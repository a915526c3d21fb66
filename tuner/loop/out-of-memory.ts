/**
 * What a launch that ran out of memory teaches of others: with no more memory and nothing smaller
 * in it, they run out of it too.
 */
import { createRng } from '../../search/rng.ts'
import { findCandidates } from '../../search/space/candidates.ts'
import type { Configuration, Parameter, Problem } from '../../search/types.ts'
import type { Gpu } from '../../trials/devices/catalogue.ts'
import { DeviceModelError } from '../../trials/devices/device-model-error.ts'
import { lacksGpuMemory } from '../../trials/launchers/diagnosis.ts'
import { type Resources, resourcesOf } from '../../trials/resources.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { memoryBelief } from './memory-belief.ts'

/** Amounts of memory; `resourcesOf` reads them together. */
const memories: ReadonlySet<string> = new Set([
  'gpu',
  'gpuMemoryPercent',
  'migProfile',
  'memoryMiB',
])
/**
 * What takes more memory the more there is of it, beside parameters that are marked as served at
 * once.
 */
const takers: ReadonlySet<string> = new Set([
  'batchSize',
  'instances',
  'sequenceLength',
  'imageSize',
  'cpuCores',
  'queueLimit',
])
/** How long a batch is waited for takes none. */
const free: ReadonlySet<string> = new Set(['maxDelayMs'])
/**
 * Contexts and workspaces of another GPU differ by some hundred MiB: it is held to have less where
 * it has clearly less.
 */
const clearlyLess = 0.9

/** A configuration that ran out of memory, and of which. */
interface Lack {
  readonly configuration: Configuration
  readonly gpuMemory: boolean
}

const lackOf = (trial: FinishedTrial): Lack | undefined =>
  trial.state === 'infeasible' && trial.reason === 'out-of-memory'
    ? { configuration: trial.configuration, gpuMemory: lacksGpuMemory(trial.detail) }
    : undefined

/**
 * The problem without the configurations that trials have shown to run out of memory, and with what
 * they make likely of the others.
 * @param trials with the configuration of every one that ended so; the same problem where none did
 */
export function withoutMemoryLacks(
  problem: Problem,
  trials: readonly FinishedTrial[],
  ownGpus: readonly Gpu[] = [],
): Problem {
  const lacks = trials.flatMap((trial) => lackOf(trial) ?? [])
  if (lacks.length === 0) return problem
  const { parameters } = problem.space
  const readings = trials.flatMap((trial) => {
    if (trial.state === 'complete') return [{ configuration: trial.configuration, lacked: false }]
    const lack = lackOf(trial)
    return lack?.gpuMemory ? [{ configuration: trial.configuration, lacked: true }] : []
  })
  return {
    ...problem,
    servesProbability: memoryBelief(readings, ownGpus),
    cannotServe: (c) =>
      problem.cannotServe?.(c) === true ||
      lacks.some((lack) => lacksToo(lack, c, parameters, ownGpus)),
  }
}

/**
 * The trial with what it teaches in its detail; as it is where it teaches nothing of what is left
 * to try.
 */
export function withMemoryLesson(
  trial: FinishedTrial,
  problem: Problem,
  earlier: readonly FinishedTrial[],
  ownGpus: readonly Gpu[] = [],
) {
  const lack = lackOf(trial)
  if (lack === undefined || trial.state !== 'infeasible') return trial
  const known = withoutMemoryLacks(problem, earlier, ownGpus)
  const taken = [...earlier, trial].map(({ configuration }) => configuration)
  const { configurations, complete } = findCandidates(known, taken, createRng('memory'))
  const { parameters } = problem.space
  const ruledOut = configurations.filter((c) => lacksToo(lack, c, parameters, ownGpus)).length
  if (ruledOut === 0) return trial
  const memory = lack.gpuMemory ? 'GPU memory' : 'memory'
  const many = complete ? `${ruledOut} other${ruledOut === 1 ? '' : 's'}` : 'others'
  return {
    ...trial,
    detail: `${trial.detail}; skipped ${many} with no more ${memory} and no smaller demand for it`,
  }
}

function lacksToo(
  lack: Lack,
  candidate: Configuration,
  parameters: readonly Parameter[],
  ownGpus: readonly Gpu[],
): boolean {
  const { configuration } = lack
  const takesNoLess = parameters.every(({ name, concurrency }) => {
    const [here, there] = [configuration[name], candidate[name]]
    if (memories.has(name) || free.has(name) || here === there) return true
    return (concurrency === true || takers.has(name)) && Number(there) >= Number(here)
  })
  if (!takesNoLess) return false
  try {
    return hasNoMore(
      resourcesOf(candidate, {}, ownGpus),
      resourcesOf(configuration, {}, ownGpus),
      lack.gpuMemory,
    )
  } catch (error) {
    // What cannot be read says nothing of its memory.
    if (error instanceof DeviceModelError) return false
    throw error
  }
}

/** @param gpuMemory it was the GPU's that ended; else it may have been the machine's */
function hasNoMore(candidate: Resources, lacking: Resources, gpuMemory: boolean): boolean {
  const machine = candidate.memoryMiB <= lacking.memoryMiB
  if (lacking.gpuMemoryMiB === undefined || candidate.gpuMemoryMiB === undefined)
    return candidate.gpu === lacking.gpu && machine
  const same = candidate.gpu === lacking.gpu
  const device = candidate.gpuMemoryMiB <= lacking.gpuMemoryMiB * (same ? 1 : clearlyLess)
  return device && (gpuMemory || machine)
}

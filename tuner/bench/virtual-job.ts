/**
 * Whole runs of `tune` in virtual time, for `npm run bench:virtual-job` and the gate. Servers are
 * the device model's, measured by the search that measures real ones. The clock counts launches and
 * load.
 */
import { measureSimulatedCapacity } from '../../profiler/index.ts'
import { computeCost } from '../../search/objective.ts'
import { configurationKey, enumerateConfigurations } from '../../search/space/space.ts'
import type { Configuration, Outlook, Problem } from '../../search/types.ts'
import { findArchitecture } from '../../trials/devices/architecture.ts'
import { createSimulatedLauncher } from '../../trials/launchers/simulated/simulated-launcher.ts'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import { type FinishedTrial, InfeasibleError, type Launcher } from '../../trials/types.ts'
import type { Backend } from '../backends/backend.ts'
import { createLoadWork, runLoadWork } from '../backends/load-work.ts'
import { createSimulatedBackend } from '../backends/simulated-backend.ts'
import { loadExperiment } from '../config/load-experiment.ts'
import type { Experiment } from '../config/types.ts'
import { runLoop } from '../loop/loop.ts'
import type { LoopParts } from '../loop/parts.ts'
import { computeRequiredGain, explainNotWorthwhile } from '../loop/trial-value.ts'
import { createCapacityEstimator } from '../problem/problem.ts'
import { assemble } from '../run/assemble.ts'
import { fakeStore } from '../testing/fakes.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'

export interface VirtualJobSettings {
  readonly launchS: number
  /** Trials at once. */
  readonly parallel: number
  /** The next server starts while one is measured. */
  readonly ahead: boolean
  /** Of trials: by the profiler's search, or by windows of 10,000 requests. */
  readonly figures: 'trials' | 'long'
  /** Requests cost this many times what the device model expects on the CPU. */
  readonly cpuFactor: number
  readonly coreSpeed: number
  /** Twelve trials whatever the stop rule says, and no confirmation. */
  readonly gains: boolean
}

/** What a trial takes where its figures are those of long windows. */
const longTrialS = 4
const machine = await inspectMachine()
const morphling = {
  gpus: 'T4,M60,V100',
  cores: '1,2,3,4,5',
  gpuMemory: '5,10,15,20,30,40',
  batch: '1,2,4,8,16,32,64,128',
}

export interface VirtualJob {
  readonly name: string
  readonly flags: object
  readonly cpuCores: number
}
export const virtualJobs: readonly VirtualJob[] = [
  { name: 'bert 50ms', flags: { ...morphling, model: 'bert', slo: '50ms' }, cpuCores: 64 },
  {
    name: 'resnet50 100ms',
    flags: { ...morphling, model: 'resnet50', slo: '100ms' },
    cpuCores: 64,
  },
  {
    name: 'bert-large 200ms',
    flags: { ...morphling, model: 'bert-large', slo: '200ms' },
    cpuCores: 64,
  },
  {
    name: 'README: bert 50ms, two cores',
    flags: { model: 'bert', slo: '50ms', cores: '1,2' },
    cpuCores: 2,
  },
]
const never = new AbortController().signal

function experimentOf(
  { flags, cpuCores }: VirtualJob,
  seed: number,
  { parallel, figures, gains, coreSpeed }: VirtualJobSettings,
): Experiment {
  const common = {
    param: [],
    pin: [],
    constraint: [],
    backend: 'simulated',
    parallel: String(parallel),
    confirm: figures !== 'long' && !gains,
  }
  return {
    ...loadExperiment({
      cwd: '.',
      machine: { cpuCores, gpus: [] },
      environment: {},
      flags: { ...common, ...flags, seed: String(seed) },
    }),
    cores: { speed: coreSpeed, count: cpuCores },
  }
}

/**
 * Servers of the device model, whose CPU may cost more than it expects; trials as of real servers,
 * on this clock.
 */
function onClock(
  experiment: Experiment,
  job: VirtualJob,
  clock: VirtualClock,
  settings: VirtualJobSettings,
): Backend {
  const { ahead, figures, launchS } = settings
  const backend = createSimulatedBackend(experiment)
  const launcher = serversOf(experiment, job, settings)
  return {
    ...backend,
    ...(ahead && { canLaunchAlongside: () => true }),
    launcher: {
      ...launcher,
      launch: async (...asked) => {
        await clock.sleep(launchS)
        return launcher.launch(...asked)
      },
    },
    measure: async (predictor, task, told, signal) => {
      if (figures === 'long' && task.kind === 'trial') {
        await clock.sleep(longTrialS)
        return backend.measure(predictor, task, told, signal)
      }
      const { target } = predictor
      const steps: Parameters<typeof told.onStep>[] = []
      const onStep: typeof told.onStep = (...step) => void steps.push(step)
      const measurement = await runLoadWork(createLoadWork(experiment, task, told.number), {
        target,
        slo: experiment.slo,
        signal,
        onStep,
      })
      // Its load begins now, by this clock.
      for (const step of steps) told.onStep(...step)
      await clock.sleep(measurement.seconds)
      return measurement
    },
  }
}

/**
 * A server that has all cores of a machine shares one with the load, which costs it as much more.
 */
const sharedCostFactor = 1.5

function serversOf(
  { model, seed }: Experiment,
  { cpuCores }: VirtualJob,
  { cpuFactor, coreSpeed }: VirtualJobSettings,
): Launcher {
  const cpuCostFactor = cpuFactor / coreSpeed
  const architecture = findArchitecture(model.architecture)
  const alone = createSimulatedLauncher({ architecture, seed, cpuCostFactor })
  const beside = createSimulatedLauncher({
    architecture,
    seed,
    cpuCostFactor: sharedCostFactor * cpuCostFactor,
  })
  return {
    ...alone,
    launch: (configuration, ...asked) =>
      (Number(configuration.cpuCores) < cpuCores ? alone : beside).launch(configuration, ...asked),
  }
}

/** What the search believed after a trial, and what it would have recommended. */
interface Belief {
  readonly outlook?: Outlook
  readonly stops: boolean
  readonly best?: Configuration
}

/**
 * What the loop is told of stopping, and what is written down of it; with `--gains` nothing ends a
 * run but its cap.
 */
function listening(
  parts: LoopParts,
  { stop, objective }: Experiment,
  beliefs: Belief[],
  gains: boolean,
): Pick<LoopParts, 'assessStop' | 'store'> {
  const trials: FinishedTrial[] = []
  const append: LoopParts['store']['append'] = async (id, trial) => {
    trials.push(trial)
    await parts.store.append(id, trial)
  }
  const assessStop: LoopParts['assessStop'] = (problem, observations, rng) => {
    const assessment = parts.assessStop(problem, observations, rng)
    const { best } = parts.recommend(trials, undefined)
    const requiredGain =
      best && computeRequiredGain({ stop, objective }, { trials, spentUsd: 0, best })
    const { outlook } = assessment
    const stops =
      assessment.stop ||
      (requiredGain !== undefined && explainNotWorthwhile(outlook, requiredGain) !== undefined)
    beliefs.push({ stops, best: best?.configuration, ...(outlook && { outlook }) })
    return gains ? { ...assessment, stop: false, outlook: undefined } : assessment
  }
  return { assessStop, store: { ...parts.store, append } }
}

export async function runVirtualJob(job: VirtualJob, seed: number, settings: VirtualJobSettings) {
  const experiment = experimentOf(job, seed, settings)
  const clock = new VirtualClock()
  const parts = await assemble(experiment, `seed-${seed}`, fakeStore(), machine)
  const beliefs: Belief[] = []
  const ran = {
    ...parts,
    ...listening(parts, experiment, beliefs, settings.gains),
    backend: onClock(experiment, job, clock, settings),
    estimateCapacityRps: createCapacityEstimator({ ...experiment, backend: 'local' }),
    now: () => clock.now,
    write: async () => [],
  }
  const { recommendation, trials, reason } = await clock.pass(
    runLoop(experiment, ran, [], () => undefined, never),
  )
  const searched = trials.filter(({ purpose }) => purpose !== 'confirmation')
  const price = trials.reduce(
    (sum, { configuration, seconds }) =>
      sum + (parts.problem.pricePerHour(configuration) * seconds) / 3600,
    0,
  )
  const loadS = searched.map((trial) =>
    trial.state === 'complete' ? trial.measurement.seconds : 0,
  )
  return {
    recommended: recommendation.best?.configuration,
    confirmed: recommendation.best?.status === 'confirmed',
    trials: searched.length,
    hours: clock.now / 3_600_000,
    price,
    reason,
    beliefs,
    loadS: loadS.reduce((sum, each) => sum + each, 0) / Math.max(1, searched.length),
  }
}
export type VirtualJobRun = Awaited<ReturnType<typeof runVirtualJob>>

/**
 * What every configuration costs by long windows, by its key; those that cannot serve are left out.
 */
async function truthOf(
  experiment: Experiment,
  job: VirtualJob,
  problem: Problem,
  settings: VirtualJobSettings,
): Promise<Map<string, number>> {
  const launcher = serversOf(experiment, job, settings)
  const { slo, objective, seed } = experiment
  const costs = new Map<string, number>()
  for (const [i, configuration] of enumerateConfigurations(problem.space).entries()) {
    try {
      const { target } = await launcher.launch(configuration, i, never)
      if (target.kind !== 'virtual') throw new TypeError('not in virtual time')
      const { capacityRps } = await measureSimulatedCapacity({ target, slo, seed, signal: never })
      costs.set(
        configurationKey(configuration),
        computeCost(objective, { pricePerHour: problem.pricePerHour(configuration), capacityRps }),
      )
    } catch (error) {
      if (!(error instanceof InfeasibleError)) throw error
    }
  }
  return costs
}
/**
 * What every configuration of a job costs, and by how much what was found is above the cheapest.
 */
export async function virtualJobTruth(job: VirtualJob, settings: VirtualJobSettings) {
  const experiment = experimentOf(job, 1, settings)
  const { problem } = await assemble(experiment, 'truth', fakeStore(), machine)
  const costs = await truthOf(experiment, job, problem, settings)
  const least = Math.min(...costs.values())
  return {
    problem,
    /** A share; Infinity where nothing was found. */
    excessOf: (found: Configuration | undefined) =>
      (found ? costs.get(configurationKey(found))! : Infinity) / least - 1,
  }
}

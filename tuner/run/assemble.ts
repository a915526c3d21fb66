/**
 * Creates the parts of a run from an experiment. The only module that knows all backends and
 * samplers.
 */
import { recommend } from '../../reports/recommendation/recommend.ts'
import { assessStop, countConfigurations, createRng, createSampler } from '../../search/index.ts'
import { getSteadyNowMs } from '../../trials/clock.ts'
import { measureCoreSpeed } from '../../trials/machine/core-speed.ts'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import type { Damage } from '../../trials/store/index.ts'
import type { TrialStore } from '../../trials/types.ts'
import { resolveResultsFolder, writeResults } from '../artifacts/result-files.ts'
import type { Backend } from '../backends/backend.ts'
import { openKubernetes } from '../backends/kubernetes-backend.ts'
import { createLocalBackend } from '../backends/local-backend.ts'
import { createSimulatedBackend } from '../backends/simulated-backend.ts'
import { createUrlBackend } from '../backends/url-backend.ts'
import { resolveMeasuredWith } from '../config/measured-with.ts'
import { fillSecrets } from '../config/secret-values.ts'
import type { Experiment } from '../config/types.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import { listGpuNotices } from '../loop/gpu-notices.ts'
import { loadHistory } from '../loop/history.ts'
import {
  describeCalibration,
  describeCoreSpeed,
  describeDevices,
  describeHistory,
  listNotices,
  resolveProvenance,
} from '../loop/notices.ts'
import type { LoopParts } from '../loop/parts.ts'
import { applyCalibration } from '../problem/calibration.ts'
import { chooseDefaultConfiguration } from '../problem/default-configuration.ts'
import { requireServable } from '../problem/estimate-table.ts'
import { dependsOnHostCores } from '../problem/estimators.ts'
import { choosePipelineDefault, createPipelineLearner } from '../problem/pipeline-model.ts'
import {
  createCapacityEstimator,
  createLabeller,
  createProblem,
  createRankingCriteria,
  loadPriceBook,
} from '../problem/problem.ts'

/**
 * The caller closes the returned backend.
 * @param onDamage called for damaged calibrations of the store; default: prints on stderr
 * @throws UserError for what this machine cannot do, and the errors of the price book
 */
export async function assemble(
  configuredExperiment: Experiment,
  experimentId: string,
  store: TrialStore,
  machine: MachineFacts,
  onDamage?: (damage: Damage) => void,
): Promise<LoopParts> {
  const calibratedExperiment = addMeasuredCores(
    await applyCalibration(configuredExperiment, onDamage),
    machine,
  )
  const book = await loadPriceBook(calibratedExperiment.pricesPath, calibratedExperiment.own.gpus)
  const backend = await openBackend(calibratedExperiment, experimentId, machine)
  try {
    const experiment = { ...calibratedExperiment, space: backend.space }
    const history = await loadHistory(experiment, experimentId, store)
    const problem = {
      ...createProblem(experiment, book),
      ...(history.observations.length > 0 && { earlier: history.observations }),
    }
    requireServable(experiment, problem)
    const label = createLabeller(experiment)
    const { pricePerHour } = problem
    const provenance = resolveProvenance(experiment)
    const notices = listNotices(experiment, provenance)
    const { seed, stop } = experiment
    const outDir = resolveResultsFolder(experiment, experimentId)
    return {
      experimentId,
      provenance,
      problem,
      learnFromTrials:
        experiment.stages &&
        createPipelineLearner(experiment, experiment.stages, history.stageTrials),
      spaceSize: countConfigurations(problem.space),
      estimateCapacityRps: createCapacityEstimator(experiment),
      defaultConfiguration:
        experiment.stages === undefined
          ? chooseDefaultConfiguration(problem)
          : choosePipelineDefault(problem, experiment.stages, pricePerHour),
      sampler: createSampler(experiment.sampler),
      assessStop: (known, observations, rng) =>
        assessStop(known, observations, rng, {
          tolerance: stop.tolerance,
          risk: 1 - stop.certainty,
        }),
      rng: createRng(seed),
      backend,
      store,
      recommend: (trials, stop) =>
        recommend({
          experimentId,
          provenance,
          seed,
          trials,
          stop,
          confirm: experiment.confirm,
          maxTrials: experiment.budget.maxTrials,
          notices,
          measuredWith:
            experiment.stages === undefined
              ? (configuration) => resolveMeasuredWith(experiment, provenance, configuration)
              : undefined,
          ...createRankingCriteria(experiment, { pricePerHour, label }),
        }),
      label,
      write: (recommendation, trials) =>
        writeResults({ outDir, recommendation, trials, experiment, pricePerHour, label }),
      notices: [
        describeDevices(experiment, machine, provenance),
        ...listGpuNotices(experiment, machine),
        ...describeCoreSpeed(experiment),
        ...describeCalibration(experiment),
        ...describeHistory(history.experiments),
        ...backend.notices,
        ...notices,
      ],
      now: getSteadyNowMs,
    }
  } catch (error) {
    await backend.close()
    throw error
  }
}

/**
 * The CPU costs of the built-in server are known for one core, so they are scaled to this machine's
 * cores.
 */
const addMeasuredCores = (experiment: Experiment, { affinity }: MachineFacts): Experiment =>
  dependsOnHostCores(experiment)
    ? { ...experiment, cores: { speed: measureCoreSpeed(), count: affinity.length } }
    : experiment

/**
 * Opens the backend of an experiment. Only backends receive the secrets.
 * @throws ConfigError for missing secrets
 */
export async function openBackend(
  unfilledExperiment: Experiment,
  experimentId: string,
  machine: MachineFacts,
): Promise<Backend> {
  const experiment = fillSecrets(unfilledExperiment)
  const { predictor } = experiment
  if (predictor.kind === 'imported')
    throw new UserError(
      `cannot run trials of ${predictor.from.join('; ')}: these are results of another tool`,
      'set the server with --url, --server or --command',
      exitCodes.usage,
    )
  switch (experiment.backend) {
    case 'simulated':
      return createSimulatedBackend(experiment)
    case 'kubernetes':
      return openKubernetes(experiment, experimentId)
    case 'local':
      return predictor.kind === 'url'
        ? createUrlBackend(experiment, predictor)
        : createLocalBackend(experiment, predictor, experimentId, machine)
  }
}

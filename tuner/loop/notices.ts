/** Notices about the figures of a run: where they come from, and their typical error. */
import { describeDeployment } from '../../reports/figures.ts'
import { percent } from '../../reports/format.ts'
import { findArchitecture } from '../../trials/devices/architecture.ts'
import { findGpu } from '../../trials/devices/catalogue.ts'
import { isCalibrated } from '../../trials/devices/coefficients.ts'
import { predictDeviceLatency } from '../../trials/devices/device-model.ts'
import { referenceCores } from '../../trials/launchers/simulated/cpu-stage.ts'
import { cpuError } from '../../trials/launchers/simulated/modelled-server.ts'
import type { ImportedTemplate } from '../../trials/launchers/template.ts'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import { getEngineError, type LlmEngineName } from '../../trials/predictor/llm/engine-profile.ts'
import type { Provenance } from '../../trials/types.ts'
import { resolveMeasuredWith } from '../config/measured-with.ts'
import { describeAcceptance } from '../config/settings/speculation-settings.ts'
import type { Experiment, ExperimentStage } from '../config/types.ts'
import {
  findArchitectures,
  hasServerPrior,
  resolveAnchor,
  resolveLlmEngine,
} from '../problem/estimators.ts'

/**
 * Resolves the provenance. Imported: results of other tools. Simulated: virtual time. Emulated:
 * real processes and load, with modelled GPU time. Measured: nothing is modelled.
 */
export function resolveProvenance(experiment: Experiment): Provenance {
  if (experiment.predictor.kind === 'imported') return 'imported'
  if (experiment.backend === 'simulated') return 'simulated'
  return experiment.devicesUsed === 'emulated' ? 'emulated' : 'measured'
}

/** Lists the GPUs of the search space; of a pipeline, those of all its stages. */
export function listGpus({ space, stages }: Experiment): readonly string[] {
  if (stages !== undefined)
    return [...new Set(stages.flatMap(({ experiment }) => listGpus(experiment)))]
  const gpu = space.parameters.find((parameter) => parameter.name === 'gpu')
  return gpu?.kind === 'categorical' ? gpu.values.filter((name) => name !== 'none') : []
}

/** Describes the devices that the trials use, in one line. */
export function describeDevices(
  experiment: Experiment,
  machine: MachineFacts,
  provenance: Provenance,
): string {
  const gpus = listGpus(experiment)
  const cores =
    experiment.backend !== 'local'
      ? []
      : [`${machine.affinity.length} of ${machine.cores} cores (${machine.cpuModel})`]
  const gpuText =
    gpus.length > 0
      ? `${gpus.join(', ')}${provenance === 'measured' ? '' : ` (${provenance})`}`
      : 'no GPU'
  return `Devices: ${[...cores, gpuText].join('; ')}`
}

/**
 * Cores that differ less from the reference core of the device model are not mentioned. Assumed.
 */
const maxUnreportedSpeedRatio = 1.25

/**
 * Reports that CPU costs are scaled to this machine, where its cores differ from the reference
 * core.
 */
export function describeCoreSpeed({ cores = referenceCores }: Experiment): string[] {
  const { speed } = cores
  if (Math.max(speed, 1 / speed) <= maxUnreportedSpeedRatio) return []
  return [
    `Prior: the cores of this machine are ${speed.toFixed(1)} times as fast as the reference core; CPU costs are scaled accordingly`,
  ]
}

/** Describes the source of the prior of a server other than the built-in one. */
export function describeCalibration(experiment: Experiment): string[] {
  const { calibrated, predictor } = experiment
  if (calibrated)
    return [
      `Prior anchored on ${calibrated.name}: ${calibrated.points.length} sizes measured ${calibrated.measuredAt.slice(0, 10)} on ${calibrated.device}`,
    ]
  if (predictor.kind !== 'command' || !hasServerPrior(experiment)) return []
  return [
    'Prior: the device model with typical server overhead, corrected by the trials; tune calibrate with the same flags measures this server in seconds',
  ]
}

/** Describes the earlier experiments that the search learns from. */
export const describeHistory = (experiments: readonly string[]): string[] =>
  experiments.length > 0
    ? [`The search uses trials of ${experiments.join(', ')} (--no-history ignores them)`]
    : []

/** The server version that each engine profile describes. */
const serverNames: Readonly<Record<LlmEngineName, string>> = {
  vllm: 'vLLM 0.11',
  sglang: 'SGLang 0.5',
  tgi: 'the TGIS branch of TGI from 2023, because the tables have no current version',
  'tensorrt-llm': 'TensorRT-LLM 0.14 to 1.2',
}

/** Batch size at which the typical error of the device model is reported. */
const typicalBatch = 8

/**
 * Describes the typical error of the modelled batch times by GPU: 'T4 4 %, A10G 21 % (no published
 * table)'.
 */
function describeModelErrors(experiment: Experiment): string {
  const architecture = findArchitecture(experiment.model.architecture, experiment.own.architectures)
  return listGpus(experiment)
    .map((name) => {
      const gpu = findGpu(name, experiment.own.gpus)
      if (architecture.kind === 'decoder')
        return `${gpu.name} ${percent(getEngineError(resolveLlmEngine(experiment), { gpu, tensorParallel: 1 }))}`
      const calibratedServer = resolveAnchor(experiment, architecture)
      const { relativeError } = predictDeviceLatency({
        architecture,
        gpu,
        batch: typicalBatch,
        calibratedServer,
      })
      return `${gpu.name} ${percent(relativeError)}${isCalibrated(gpu) ? '' : ' (from its datasheet)'}`
    })
    .join(', ')
}

const describeImport = ({ from }: ImportedTemplate): string =>
  `IMPORTED: all figures come from ${from.join('; ')}; tune measured none of them. Intervals span two imported loads, and closed loops hide queueing: check the deployment with tune verify --url.`

/** Lists the notices of a run, which are also the caveats of its recommendation. */
export function listNotices(experiment: Experiment, provenance: Provenance): string[] {
  if (provenance === 'measured') return [...experiment.notices]
  if (experiment.predictor.kind === 'imported')
    return [describeImport(experiment.predictor), ...experiment.notices]
  if (experiment.stages !== undefined)
    return [describePipelineModel(experiment.stages, provenance), ...experiment.notices]
  // A configuration without a GPU is measured even in an emulated run, and its spec says so.
  const [gpu] = listGpus(experiment)
  const deploymentNotice = describeDeployment(
    resolveMeasuredWith(experiment, provenance, gpu === undefined ? {} : { gpu }),
  )
  return [
    describeDeviceModel(experiment, provenance),
    ...describeAcceptance(experiment),
    ...(deploymentNotice === undefined ? [] : [deploymentNotice]),
    ...experiment.notices,
  ]
}

function describePipelineModel(stages: readonly ExperimentStage[], provenance: Provenance): string {
  const describeErrors = ({ name, experiment }: ExperimentStage): string =>
    `${name} ${listGpus(experiment).length > 0 ? describeModelErrors(experiment) : `CPU ${percent(cpuError)}`}`
  if (provenance === 'simulated')
    return `SIMULATED in virtual time: nothing is launched or measured; each stage is modelled by a device model from published tables, typical error of batch times (1σ): ${stages.map(describeErrors).join('; ')}. A stage that waits for its calls occupies no worker, and the network between stages takes no time.`
  const emulatedStages = stages.filter(({ experiment }) => experiment.devicesUsed === 'emulated')
  return `GPU time is EMULATED by a device model from published tables, while predictors, CPU and load are real; typical error of batch times (1σ): ${emulatedStages.map(describeErrors).join('; ')}.`
}

function describeDeviceModel(experiment: Experiment, provenance: Provenance): string {
  const { architecture, path } = experiment.model
  const isLanguageModel =
    path === undefined &&
    findArchitectures([architecture], experiment.own).some(({ kind }) => kind === 'decoder')
  const source = isLanguageModel
    ? `a model of ${serverNames[resolveLlmEngine(experiment)]}`
    : 'a device model from published tables'
  const errors = `typical error of ${isLanguageModel ? 'step' : 'batch'} times (1σ): ${describeModelErrors(experiment)}`
  if (provenance === 'emulated')
    return `GPU time is EMULATED by ${source}, while predictors, CPU and load are real; ${errors}.`
  const devices =
    listGpus(experiment).length > 0
      ? `GPUs are modelled by ${source}, ${errors}`
      : `CPU inference is modelled by its operations, typical error (1σ) ${percent(cpuError)}`
  return `SIMULATED in virtual time: nothing is launched or measured; ${devices}.`
}

/**
 * What a reader must know before believing a figure: where it comes from, and how far it may be
 * off.
 */
import { deployNotice } from '../../reports/figures.ts'
import { percent } from '../../reports/format.ts'
import { architectureOf } from '../../trials/devices/architecture.ts'
import { findGpu } from '../../trials/devices/catalogue.ts'
import { isCalibrated } from '../../trials/devices/coefficients.ts'
import { deviceLatencyMs } from '../../trials/devices/device-model.ts'
import { coresElsewhere } from '../../trials/launchers/simulated/cpu-stage.ts'
import { cpuError } from '../../trials/launchers/simulated/device.ts'
import type { ImportedTemplate } from '../../trials/launchers/template.ts'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import { engineError, type LlmEngineName } from '../../trials/predictor/llm/engine-profile.ts'
import type { Provenance } from '../../trials/types.ts'
import {
  anchoredServer,
  architecturesNamed,
  engineOf,
  hasServerPrior,
} from '../backends/estimators.ts'
import { measuredOf } from '../experiment/measured-of.ts'
import { acceptanceNotice } from '../experiment/settings/speculation-settings.ts'
import type { Experiment } from '../experiment/types.ts'

/**
 * Imported: of other tools. Simulated: virtual time. Emulated: real processes and load, the GPU's
 * time modelled. Measured: nothing is modelled.
 */
export function provenanceOf(experiment: Experiment): Provenance {
  if (experiment.predictor.kind === 'imported') return 'imported'
  if (experiment.backend === 'simulated') return 'simulated'
  return experiment.devicesUsed === 'emulated' ? 'emulated' : 'measured'
}

function gpusOf(experiment: Experiment): readonly string[] {
  const gpu = experiment.space.parameters.find((parameter) => parameter.name === 'gpu')
  return gpu?.kind === 'categorical' ? gpu.values.filter((name) => name !== 'none') : []
}

/** Which devices the trials will use, in one line. */
export function devicesLine(
  experiment: Experiment,
  machine: MachineFacts,
  provenance: Provenance,
): string {
  const gpus = gpusOf(experiment)
  const cores =
    experiment.backend !== 'local'
      ? []
      : [`${machine.affinity.length} of ${machine.cores} cores (${machine.cpuModel})`]
  const named =
    gpus.length > 0
      ? `${gpus.join(', ')}${provenance === 'measured' ? '' : ` (${provenance})`}`
      : 'no GPU'
  return `Devices: ${[...cores, named].join('; ')}`
}

/** A core of another speed than this much around the one that the device model knows is told of. */
const usualSpeed = 1.25

/** That costs on the CPU are expected to be those of this machine, where they are others. */
export function coreSpeedNotice({ cores = coresElsewhere }: Experiment): string[] {
  const { speed } = cores
  if (Math.max(speed, 1 / speed) <= usualSpeed) return []
  return [
    `Prior: the cores of this machine are ${speed.toFixed(1)} times as fast as the reference core; CPU costs are scaled accordingly`,
  ]
}

/** What the prior of a server that is not the built-in one rests on. */
export function calibrationNotice(experiment: Experiment): string[] {
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

/** Names the earlier experiments that the search learns from. */
export const historyNotice = (experiments: readonly string[]): string[] =>
  experiments.length > 0
    ? [`The search uses trials of ${experiments.join(', ')} (--no-history ignores them)`]
    : []

/** What each profile was measured as. */
const serverNames: Readonly<Record<LlmEngineName, string>> = {
  vllm: 'vLLM 0.11',
  sglang: 'SGLang 0.5',
  tgi: 'the TGIS branch of TGI from 2023, because the tables have no current version',
  'tensorrt-llm': 'TensorRT-LLM 0.14 to 1.2',
}

/** Batch at which the error of the device model is stated. */
const typicalBatch = 8

/**
 * How far modelled batch times may be off, GPU by GPU: 'T4 4 %, A10G 21 % (no published table)'.
 */
function modelErrors(experiment: Experiment): string {
  const architecture = architectureOf(experiment.model.architecture, experiment.own.architectures)
  return gpusOf(experiment)
    .map((name) => {
      const gpu = findGpu(name, experiment.own.gpus)
      if (architecture.kind === 'decoder')
        return `${gpu.name} ${percent(engineError(engineOf(experiment), { gpu, tensorParallel: 1 }))}`
      const anchored = anchoredServer(experiment, architecture)
      const { relativeError } = deviceLatencyMs({
        architecture,
        gpu,
        batch: typicalBatch,
        anchored,
      })
      return `${gpu.name} ${percent(relativeError)}${isCalibrated(gpu) ? '' : ' (from its datasheet)'}`
    })
    .join(', ')
}

const importedNotice = ({ from }: ImportedTemplate): string =>
  `IMPORTED: all figures come from ${from.join('; ')}; tune measured none of them. Intervals span two imported loads, and closed loops hide queueing: check the deployment with tune verify --url.`

/** Banners a reader must not miss; also the caveats of the recommendation. */
export function noticesOf(experiment: Experiment, provenance: Provenance): string[] {
  if (provenance === 'measured') return [...experiment.notices]
  if (experiment.predictor.kind === 'imported')
    return [importedNotice(experiment.predictor), ...experiment.notices]
  const gpus = gpusOf(experiment)
  const { architecture, path } = experiment.model
  const language =
    architecturesNamed([architecture], experiment.own).some(({ kind }) => kind === 'decoder') &&
    path === undefined
  const source = language
    ? `a model of ${serverNames[engineOf(experiment)]}`
    : 'a device model from published tables'
  const errors = `typical error of ${language ? 'step' : 'batch'} times (1σ): ${modelErrors(experiment)}`
  const banner =
    provenance === 'emulated'
      ? `GPU time is EMULATED by ${source}, while predictors, CPU and load are real; ${errors}.`
      : `SIMULATED in virtual time: nothing is launched or measured; ${
          gpus.length > 0
            ? `GPUs are modelled by ${source}, ${errors}.`
            : `CPU inference is modelled by its operations, typical error (1σ) ${percent(cpuError)}.`
        }`
  // A configuration without a GPU is measured for real even here: its spec says so itself.
  const [gpu] = gpus
  const deploys = deployNotice(measuredOf(experiment, provenance, gpu === undefined ? {} : { gpu }))
  return [
    banner,
    ...acceptanceNotice(experiment),
    ...(deploys === undefined ? [] : [deploys]),
    ...experiment.notices,
  ]
}

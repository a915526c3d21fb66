/** The device model of an experiment's predictor: of its model, or of each of its variants. */
import type { Configuration } from '../../search/types.ts'
import { type Architecture, findArchitecture } from '../../trials/devices/architecture.ts'
import type { CustomDevices } from '../../trials/devices/custom-devices.ts'
import type { CalibratedServer } from '../../trials/devices/device-model.ts'
import { DeviceModelError } from '../../trials/devices/device-model-error.ts'
import { fitCalibration, fitTypicalServer } from '../../trials/devices/server-calibration.ts'
import { createEstimator, type Estimator } from '../../trials/launchers/simulated/estimate.ts'
import type { LlmModelOptions } from '../../trials/launchers/simulated/llm-configuration.ts'
import { createLlmEstimator } from '../../trials/launchers/simulated/llm-estimate.ts'
import type { BuiltinTemplate } from '../../trials/launchers/template.ts'
import { applyVariant, variantParameter } from '../../trials/launchers/variants.ts'
import type { LlmEngineName } from '../../trials/predictor/llm/engine-profile.ts'
import { llmDefaults } from '../../trials/predictor/llm/serving-limits.ts'
import { architectureNameOf } from '../config/settings/variant-settings.ts'
import type { Experiment, Variant } from '../config/types.ts'
import { llmRequests } from './llm-requests.ts'

/**
 * What to ask of a configuration: the estimator of its variant, and the configuration with what
 * comes with that variant.
 */
export type EstimatorOf = (given: Configuration) => {
  readonly estimator: Estimator
  readonly configuration: Configuration
}

/**
 * Undefined where an architecture is unknown: a user's own files run, and nothing is known of them
 * beforehand.
 */
export function estimatorsOf(experiment: Experiment): EstimatorOf | undefined {
  const { variants, slo, predictor, own, load, backend, cores } = experiment
  const requests = () => llmRequests(load.payload)
  const asDrawn =
    backend === 'simulated' ||
    (load.payload.kind === 'generated' && load.payload.keepOverlongPrompts === true)
  const known = new Map<string, Estimator>()
  for (const variant of variantsOf(experiment)) {
    const architecture = architectureFor(experiment, variant)
    if (architecture === undefined) return undefined
    // Language models' servers have a model of steps of their own; of one that is not ours nothing
    // is known.
    if (architecture.kind === 'decoder' && predictor.kind !== 'builtin') return undefined
    known.set(
      variant?.name ?? '',
      architecture.kind === 'decoder'
        ? createLlmEstimator({ architecture, slo, requests, asDrawn, ...llmModelOf(experiment) })
        : createEstimator({
            architecture,
            slo,
            defaults: computedIn(experiment, architecture),
            ownGpus: own.gpus,
            calibratedServer: anchoredServer(experiment, architecture),
            cores,
          }),
    )
  }
  return (given) => ({
    estimator: known.get(variants.length > 0 ? String(given[variantParameter]) : '')!,
    configuration: applyVariant(predictor, given).configuration,
  })
}

/** The model alone where there are none to choose from. */
const variantsOf = ({ variants }: Experiment): readonly (Variant | undefined)[] =>
  variants.length > 0 ? variants : [undefined]

/**
 * Whether what is expected rests on what the built-in server costs on cores, and it runs on this
 * machine's: a language model's steps, and a calibrated server, are modelled by what was read of
 * them.
 */
export const restsOnCores = (experiment: Experiment): boolean =>
  experiment.backend === 'local' &&
  experiment.predictor.kind === 'builtin' &&
  experiment.calibrated === undefined &&
  variantsOf(experiment).every(
    (variant) => (architectureFor(experiment, variant)?.kind ?? 'decoder') !== 'decoder',
  )

/** What the model of a language model's server goes by, beside architecture and configuration. */
export const llmModelOf = (experiment: Pick<Experiment, 'predictor' | 'own'>): LlmModelOptions => {
  const { predictor, own } = experiment
  const { acceptance, kvTransfer }: Partial<BuiltinTemplate> =
    predictor.kind === 'builtin' ? predictor : {}
  return {
    ownGpus: own.gpus,
    ownArchitectures: own.architectures,
    engine: engineOf(experiment),
    ...(acceptance !== undefined && { acceptance }),
    ...(kvTransfer !== undefined && { kvTransfer }),
  }
}

/** The server of language models whose schedule and host are modelled. */
export const engineOf = ({ predictor }: Pick<Experiment, 'predictor'>): LlmEngineName =>
  (predictor.kind === 'builtin' ? predictor.standsFor : undefined) ?? llmDefaults.engine

/**
 * What the built-in server's real engines compute in where the space does not say: fp32
 * (`trials/predictor/settings.ts`), a file of halves in them; what is quantised ONNX Runtime's CUDA
 * provider mostly widens first.
 */
const computedIn = (
  { predictor, backend, devicesUsed }: Experiment,
  architecture: Architecture,
): Configuration => {
  if (predictor.kind !== 'builtin' || backend !== 'local' || devicesUsed !== 'gpu') return {}
  const written = architecture.kind === 'graph' ? architecture.precision : undefined
  return { precision: written === 'fp16' || written === 'bf16' ? written : 'fp32' }
}

/**
 * What is known of the server beside the device: undefined for the built-in one, whose tables are
 * behind the device model.
 */
export function anchoredServer(
  { calibrated, predictor, own }: Experiment,
  architecture: Architecture,
): CalibratedServer | undefined {
  if (calibrated) return fitCalibration(calibrated, architecture, own.gpus)
  return predictor.kind === 'builtin' ? undefined : fitTypicalServer()
}

function architectureFor(
  { model, predictor, own }: Experiment,
  variant: Variant | undefined,
): Architecture | undefined {
  const name = architectureNameOf(variant, model)
  try {
    return name === undefined ? undefined : findArchitecture(name, own.architectures)
  } catch (error) {
    if (
      error instanceof DeviceModelError &&
      (model.path !== undefined || predictor.kind !== 'builtin')
    )
      return undefined
    throw error
  }
}

/** Those of the names that are known. */
export const architecturesNamed = (
  names: readonly string[],
  own: CustomDevices,
): readonly Architecture[] =>
  names.flatMap((name) => {
    try {
      return findArchitecture(name, own.architectures)
    } catch (error) {
      if (error instanceof DeviceModelError) return []
      throw error
    }
  })

/**
 * Whether the device model has something to say of a user's own server: its model is known, it runs
 * on a GPU, and its batches are tuned by name.
 */
export const hasServerPrior = (experiment: Experiment): boolean => {
  const names = experiment.space.parameters.map(({ name }) => name)
  return (
    names.includes('gpu') && names.includes('batchSize') && estimatorsOf(experiment) !== undefined
  )
}

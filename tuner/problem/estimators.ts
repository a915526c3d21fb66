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
import { resolveArchitectureName } from '../config/settings/variant-settings.ts'
import type { Experiment, Variant } from '../config/types.ts'
import { createLlmRequests } from './llm-requests.ts'

/**
 * Returns the estimator of a configuration's variant, and the configuration with the values of that
 * variant.
 */
export type EstimatorLookup = (given: Configuration) => {
  readonly estimator: Estimator
  readonly configuration: Configuration
}

/** Undefined if an architecture is unknown, as for a user's own model files. */
export function createEstimatorLookup(experiment: Experiment): EstimatorLookup | undefined {
  const { variants, slo, predictor, own, load, backend, cores } = experiment
  const requests = () => createLlmRequests(load.payload)
  const asDrawn =
    backend === 'simulated' ||
    (load.payload.kind === 'generated' && load.payload.keepOverlongPrompts === true)
  const estimatorsByVariant = new Map<string, Estimator>()
  for (const variant of listVariants(experiment)) {
    const architecture = resolveVariantArchitecture(experiment, variant)
    if (architecture === undefined) return undefined
    // Language-model servers have a separate model of steps, which covers only the built-in
    // predictor and the servers that it stands for.
    if (architecture.kind === 'decoder' && predictor.kind !== 'builtin') return undefined
    estimatorsByVariant.set(
      variant?.name ?? '',
      architecture.kind === 'decoder'
        ? createLlmEstimator({
            architecture,
            slo,
            requests,
            keepOverlongPrompts: asDrawn,
            ...resolveLlmModel(experiment),
          })
        : createEstimator({
            architecture,
            slo,
            defaults: resolvePrecision(experiment, architecture),
            ownGpus: own.gpus,
            calibratedServer: resolveAnchor(experiment, architecture),
            cores,
          }),
    )
  }
  return (given) => ({
    estimator: estimatorsByVariant.get(variants.length > 0 ? String(given[variantParameter]) : '')!,
    configuration: applyVariant(predictor, given).configuration,
  })
}

/** Lists the variants, or the model itself if there are none. */
const listVariants = ({ variants }: Experiment): readonly (Variant | undefined)[] =>
  variants.length > 0 ? variants : [undefined]

/**
 * Whether estimates depend on the speed of this machine's cores: the built-in server runs here, and
 * neither a calibration nor the model of language-model steps replaces its CPU costs.
 */
export const dependsOnHostCores = (experiment: Experiment): boolean =>
  experiment.backend === 'local' &&
  experiment.predictor.kind === 'builtin' &&
  experiment.calibrated === undefined &&
  listVariants(experiment).every(
    (variant) => (resolveVariantArchitecture(experiment, variant)?.kind ?? 'decoder') !== 'decoder',
  )

/** Inputs of the language-model simulation besides architecture and configuration. */
export const resolveLlmModel = (
  experiment: Pick<Experiment, 'predictor' | 'own'>,
): LlmModelOptions => {
  const { predictor, own } = experiment
  const { acceptance, kvTransfer }: Partial<BuiltinTemplate> =
    predictor.kind === 'builtin' ? predictor : {}
  return {
    ownGpus: own.gpus,
    ownArchitectures: own.architectures,
    engine: resolveLlmEngine(experiment),
    ...(acceptance !== undefined && { acceptance }),
    ...(kvTransfer !== undefined && { kvTransfer }),
  }
}

/** Resolves the language-model server whose scheduler and host costs are modelled. */
export const resolveLlmEngine = ({ predictor }: Pick<Experiment, 'predictor'>): LlmEngineName =>
  (predictor.kind === 'builtin' ? predictor.standsFor : undefined) ?? llmDefaults.engine

/**
 * Default precision of the built-in server's real engines: that of a half-precision file, otherwise
 * fp32 (`trials/predictor/settings.ts`). ONNX Runtime's CUDA provider widens most quantised
 * weights.
 */
const resolvePrecision = (
  { predictor, backend, devicesUsed }: Experiment,
  architecture: Architecture,
): Configuration => {
  if (predictor.kind !== 'builtin' || backend !== 'local' || devicesUsed !== 'gpu') return {}
  const precision = architecture.kind === 'graph' ? architecture.precision : undefined
  return { precision: precision === 'fp16' || precision === 'bf16' ? precision : 'fp32' }
}

/**
 * Resolves the server model besides the device: a calibration, or a typical server. Undefined for
 * the built-in one, on which the device model was fitted.
 */
export function resolveAnchor(
  { calibrated, predictor, own }: Experiment,
  architecture: Architecture,
): CalibratedServer | undefined {
  if (calibrated) return fitCalibration(calibrated, architecture, own.gpus)
  return predictor.kind === 'builtin' ? undefined : fitTypicalServer()
}

function resolveVariantArchitecture(
  { model, predictor, own }: Experiment,
  variant: Variant | undefined,
): Architecture | undefined {
  const name = resolveArchitectureName(variant, model)
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

/** Finds the known architectures among the names. */
export const findArchitectures = (
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
 * Whether the device model applies to a user's own server: its architecture is known, it runs on a
 * GPU, and batchSize is tuned.
 */
export const hasServerPrior = (experiment: Experiment): boolean => {
  const names = experiment.space.parameters.map(({ name }) => name)
  return (
    names.includes('gpu') &&
    names.includes('batchSize') &&
    createEstimatorLookup(experiment) !== undefined
  )
}

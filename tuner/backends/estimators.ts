/** The device model of an experiment's predictor: of its model, or of each of its variants. */
import type { Configuration } from '../../search/types.ts'
import { type Architecture, architectureOf } from '../../trials/devices/architecture.ts'
import { DeviceModelError } from '../../trials/devices/device-model-error.ts'
import type { OwnDevices } from '../../trials/devices/own.ts'
import { createEstimator, type Estimator } from '../../trials/launchers/simulated/estimate.ts'
import { createLlmEstimator } from '../../trials/launchers/simulated/llm-estimate.ts'
import { variantParameter, withVariant } from '../../trials/launchers/variants.ts'
import type { Experiment, ModelSpec, Variant } from '../experiment/types.ts'
import { architectureNameOf } from '../experiment/variant-settings.ts'
import { llmRequests } from './llm-requests.ts'

/** What to ask of a configuration: the estimator of its variant, and the configuration with what comes with that variant. */
export type EstimatorOf = (given: Configuration) => { readonly estimator: Estimator; readonly configuration: Configuration }

/** Undefined where an architecture is unknown: a user's own files run, and nothing is known of them beforehand. */
export function estimatorsOf({ model, variants, slo, predictor, own, load }: Experiment): EstimatorOf | undefined {
  const requests = () => llmRequests(load.payload)
  const known = new Map<string, Estimator>()
  for (const variant of variants.length > 0 ? variants : [undefined]) {
    const architecture = architectureFor(model, variant, own)
    if (architecture === undefined) return undefined
    known.set(
      variant?.name ?? '',
      architecture.kind === 'decoder'
        ? createLlmEstimator({ architecture, slo, requests, ownGpus: own.gpus })
        : createEstimator({ architecture, slo, ownGpus: own.gpus }),
    )
  }
  return (given) => ({
    estimator: known.get(variants.length > 0 ? String(given[variantParameter]) : '')!,
    configuration: withVariant(predictor, given).configuration,
  })
}

function architectureFor(model: ModelSpec, variant: Variant | undefined, own: OwnDevices): Architecture | undefined {
  const name = architectureNameOf(variant, model)
  try {
    return name === undefined ? undefined : architectureOf(name, own.architectures)
  } catch (error) {
    if (error instanceof DeviceModelError && model.path !== undefined) return undefined
    throw error
  }
}

/** Those of the names that are known. */
export const architecturesNamed = (names: readonly string[], own: OwnDevices): readonly Architecture[] =>
  names.flatMap((name) => {
    try {
      return architectureOf(name, own.architectures)
    } catch (error) {
      if (error instanceof DeviceModelError) return []
      throw error
    }
  })

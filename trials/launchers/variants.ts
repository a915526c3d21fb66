/** Model variants: one parameter, 'variant', chooses between models of the same task that differ in size, precision or input length. */
import type { Configuration } from '../../search/types.ts'
import type { BuiltinEngine, PredictorTemplate } from './template.ts'

/** The parameter that chooses. */
export const variantParameter = 'variant'

/** What a variant changes of the built-in predictor. */
export interface VariantSettings {
  /** An architecture in place of the template's model. */
  readonly model?: string
  /** The user's own files in place of the template's. */
  readonly modelPath?: string
  readonly engine?: BuiltinEngine
  /** Values of parameters that come with the variant, e.g. { precision: 'int8', sequenceLength: 64 }; tuned ones win. */
  readonly values?: Configuration
}

/** The template and the configuration that a variant comes to; both as they are where the template has none. */
export function withVariant<T extends PredictorTemplate>(
  template: T,
  configuration: Configuration,
): { template: T; configuration: Configuration } {
  const variant = template.kind === 'builtin' ? template.variants?.[String(configuration[variantParameter])] : undefined
  if (template.kind !== 'builtin' || variant === undefined) return { template, configuration }
  const { [variantParameter]: _chosen, ...others } = configuration
  const { MODEL_PATH: own, ...env } = template.env ?? {}
  const modelPath = variant.modelPath ?? (variant.model === undefined ? own : undefined)
  return {
    template: {
      ...template,
      model: variant.model ?? template.model,
      // The file is of the template's model.
      architectureFile: (variant.model ?? template.model) === template.model ? template.architectureFile : undefined,
      engine: variant.engine ?? template.engine,
      env: { ...env, ...(modelPath !== undefined && { MODEL_PATH: modelPath }) },
    },
    configuration: { ...variant.values, ...others },
  }
}

/**
 * Model variants: one parameter, 'variant', chooses between models of the same task that differ in
 * size, precision or input length.
 */
import type { Configuration } from '../../search/types.ts'
import type { PredictorTemplate } from './template.ts'

/** The parameter that chooses. */
export const variantParameter = 'variant'

/** Applies a variant to template and configuration; both are unchanged if the template has none. */
export function applyVariant<T extends PredictorTemplate>(
  template: T,
  configuration: Configuration,
): { template: T; configuration: Configuration } {
  const variant =
    template.kind === 'builtin'
      ? template.variants?.[String(configuration[variantParameter])]
      : undefined
  if (template.kind !== 'builtin' || variant === undefined) return { template, configuration }
  const { [variantParameter]: _chosen, ...others } = configuration
  const { MODEL_PATH: own, ...env } = template.env ?? {}
  const modelPath = variant.modelPath ?? (variant.model === undefined ? own : undefined)
  return {
    template: {
      ...template,
      model: variant.model ?? template.model,
      // The file is of the template's model.
      architectureFile:
        (variant.model ?? template.model) === template.model
          ? template.architectureFile
          : undefined,
      engine: variant.engine ?? template.engine,
      env: { ...env, ...(modelPath !== undefined && { MODEL_PATH: modelPath }) },
    },
    configuration: { ...variant.values, ...others },
  }
}

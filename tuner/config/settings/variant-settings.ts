/** Model variants of an experiment, and which of them meet the minimum quality. */
import type { Configuration } from '../../../search/types.ts'
import { findArchitecture } from '../../../trials/devices/architecture.ts'
import type { CustomDevices } from '../../../trials/devices/custom-devices.ts'
import { DeviceModelError } from '../../../trials/devices/device-model-error.ts'
import type { BuiltinTemplate, VariantSettings } from '../../../trials/launchers/template.ts'
import { variantParameter } from '../../../trials/launchers/variants.ts'
import { suggestNames } from '../../../trials/near-names.ts'
import { modelNames } from '../../../trials/predictor/models/model-names.ts'
import { type Context, isMissing } from '../context.ts'
import type { Settings } from '../schema/experiment-schema.ts'
import type { Experiment, ModelSpec, Variant } from '../types.ts'

/** @returns every variant, in the order of the file */
export function resolveVariants(
  { entries, report, own, host }: Context,
  kind: string,
  devicesUsed: Experiment['devicesUsed'],
): readonly Variant[] {
  const variants = Object.entries(entries.variants ?? {}).map(
    ([name, { quality, model, path, values }]): Variant => {
      const at = ['variants', name]
      if (kind !== 'builtin' && (model ?? path ?? values) !== undefined)
        report(
          at,
          `variant ${name}: model, path and values apply only to the built-in predictor`,
          'put ${variant} into the command, and keep only quality',
        )
      if (path !== undefined && isMissing(path, host))
        report(
          [...at, 'path'],
          `variant ${name}: no file or folder ${path}`,
          'paths are relative to the folder of the file that contains them',
        )
      if (kind === 'builtin' && model !== undefined)
        for (const hint of explainUnknownArchitecture(model, devicesUsed, own))
          report([...at, 'model'], `variant ${name}: unknown model '${model}'`, hint)
      return { name, quality, architecture: model, path, values }
    },
  )
  if (kind === 'url' && variants.length > 0)
    report(
      ['variants'],
      'variants with a running server',
      'a running server serves one model: set a command that starts it with ${variant}',
    )
  const { minQuality } = entries
  if (minQuality !== undefined && variants.length === 0)
    report(
      ['minQuality'],
      'a minimum quality without variants',
      'state the quality of each: variants: {base: {quality: 0.92}, small: {quality: 0.90, model: distilbert}}',
    )
  else if (minQuality !== undefined && variants.every(({ quality }) => quality < minQuality))
    report(
      ['minQuality'],
      `no variant has a quality of ${minQuality}`,
      `the best has ${Math.max(...variants.map((v) => v.quality))}`,
    )
  return variants
}

/** Hints for an unsupported architecture; empty for a supported one. */
function explainUnknownArchitecture(
  name: string,
  devicesUsed: Experiment['devicesUsed'],
  own: CustomDevices,
): string[] {
  try {
    const architecture = findArchitecture(name, own.architectures)
    if (devicesUsed === 'emulated' || (modelNames as readonly string[]).includes(architecture.name))
      return []
    return [`it can be emulated; the built-in predictor runs ${modelNames.join(', ')}`]
  } catch (error) {
    if (error instanceof DeviceModelError) return [error.hint ?? '']
    throw error
  }
}

/**
 * Adds the parameter 'variant' with the variants of sufficient quality. The user's own list keeps
 * its choice and order.
 */
export function addVariantParameter(
  entries: Settings,
  variants: readonly Variant[],
  { report }: Context,
): Settings {
  if (variants.length === 0) return entries
  const names = variants.map(({ name }) => name)
  const chosen = entries.space?.[variantParameter]?.values?.map(String) ?? names
  for (const name of chosen.filter((one) => !names.includes(one)))
    report(['space', variantParameter], `no variant '${name}'`, suggestNames(name, names))
  const good = variants.filter(
    ({ name, quality }) =>
      chosen.includes(name) && quality >= (entries.minQuality ?? Number.NEGATIVE_INFINITY),
  )
  // If none is left, that was reported before.
  const values = good.length > 0 ? good.map(({ name }) => name) : names
  return {
    ...entries,
    space: {
      ...entries.space,
      [variantParameter]: { kind: 'categorical', values, category: 'server' },
    },
  }
}

/** Settings of the built-in predictor for each variant. */
export function applyVariants(
  template: BuiltinTemplate,
  variants: readonly Variant[],
  model: ModelSpec,
  devicesUsed: Experiment['devicesUsed'],
): BuiltinTemplate {
  if (variants.length === 0) return template
  const settings = variants.map(
    ({ name, architecture, path, values }): [string, VariantSettings] => {
      if (devicesUsed === 'emulated')
        return [name, { model: architecture ?? model.architecture, values }]
      const engine = path?.endsWith('.onnx')
        ? ('onnx' as const)
        : architecture === undefined
          ? undefined
          : ('auto' as const)
      return [
        name,
        path === undefined
          ? { model: architecture, engine, values }
          : { modelPath: path, engine, values },
      ]
    },
  )
  return { ...template, variants: Object.fromEntries(settings) }
}

/** The quality of a configuration's variant; undefined if the experiment has no variants. */
export function createQualityLookup(
  variants: readonly Variant[],
): ((configuration: Configuration) => number | undefined) | undefined {
  if (variants.length === 0) return undefined
  const qualities = new Map(variants.map(({ name, quality }) => [name, quality]))
  return (configuration) => qualities.get(String(configuration[variantParameter]))
}

/** Notice on variants that were left out. */
export function describeLeftOutVariants(
  variants: readonly Variant[],
  minQuality: number | undefined,
): string[] {
  const excluded = variants.filter(
    ({ quality }) => minQuality !== undefined && quality < minQuality,
  )
  return excluded.length === 0
    ? []
    : [
        `Left out, because their quality is below ${minQuality}: ${excluded.map((v) => `${v.name} (${v.quality})`).join(', ')}`,
      ]
}

/** Undefined for the user's own files without a named architecture. */
export const resolveArchitectureName = (
  variant: Variant | undefined,
  model: ModelSpec,
): string | undefined =>
  variant?.architecture ?? (variant?.path === undefined ? model.architecture : undefined)

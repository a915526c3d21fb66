/**
 * Models of a fleet whose requests are told apart by size: a language model that is estimated, or
 * classes that were each measured by themselves.
 */
import { resolve } from 'node:path'
import { z } from 'zod'
import { drawLength } from '../../../profiler/protocols/prompts.ts'
import { countsByShare } from '../../../profiler/protocols/request-classes.ts'
import { seeded } from '../../../profiler/seeded-random.ts'
import type { Slo } from '../../../profiler/types.ts'
import { unroutedRps } from '../../../reports/fleet/buckets.ts'
import { estimatedModel } from '../../../reports/fleet/estimated-rates.ts'
import {
  FleetError,
  type FleetModel,
  type GpuKind,
  type Segment,
} from '../../../reports/fleet/packing.ts'
import { poolOf } from '../../../reports/fleet/rules.ts'
import {
  architectureOf,
  architectures,
  type Decoder,
} from '../../../trials/devices/architecture.ts'
import type { Gpu } from '../../../trials/devices/catalogue.ts'
import type { LlmRequest } from '../../../trials/launchers/simulated/llm-configuration.ts'
import { llmDefaults } from '../../../trials/predictor/llm/serving-limits.ts'
import { readLengths } from '../../experiment/lengths.ts'
import { duration, quantity, share } from '../../experiment/schema/schema-parts.ts'
import { parseLengths } from '../../experiment/settings/prompt-settings.ts'

const languageModels = architectures.flatMap(({ kind, name }) => (kind === 'decoder' ? [name] : []))
const lengths = quantity(parseLengths, 'a length in tokens')
const setting = (name: keyof typeof llmDefaults) =>
  typeof llmDefaults[name] === 'number'
    ? z.number().positive().optional()
    : z.string().min(1).optional()
const given = Object.keys(llmDefaults).filter(
  (name) => name !== 'maxModelLen',
) as (keyof typeof llmDefaults)[]

/** Shares are written to the per cent, and thirds do not come to a whole. */
const shareTolerance = 0.005

const comeToAll = (classes: Readonly<Record<string, { readonly share: number }>>): boolean =>
  Math.abs(Object.values(classes).reduce((sum, { share }) => sum + share, 0) - 1) <= shareTolerance
const notAll = 'the shares of the classes are parts of all requests: 100 % together'

export const llmSchema = z
  .strictObject({
    model: z.string().min(1),
    lengths: z.string().min(1).optional(),
    inputTokens: lengths.optional(),
    outputTokens: lengths.optional(),
    classes: z
      .record(z.string(), z.strictObject({ share, inputTokens: lengths, outputTokens: lengths }))
      .refine(comeToAll, notAll)
      .optional(),
    settings: z
      .strictObject(Object.fromEntries(given.map((name) => [name, setting(name)])))
      .optional(),
  })
  .superRefine(({ model, lengths: file, inputTokens, outputTokens, classes }, context) => {
    if (!languageModels.includes(model))
      context.addIssue({
        code: 'custom',
        path: ['model'],
        message: `no language model is called '${model}': ${languageModels.join(', ')}`,
        input: model,
      })
    const ways = [file, inputTokens ?? outputTokens, classes].filter(
      (way) => way !== undefined,
    ).length
    const half = (inputTokens === undefined) !== (outputTokens === undefined)
    if (ways !== 1 || half)
      context.addIssue({
        code: 'custom',
        message:
          'needs the lengths of its requests: lengths: FILE, or inputTokens: and outputTokens:, or classes: (one of the three)',
      })
  })

/** @param gpu reads a name of the catalogue */
export const classesSchema = (gpu: z.ZodType<Gpu>) =>
  z
    .record(
      z.string(),
      z
        .strictObject({
          share,
          experiment: z.string().min(1).optional(),
          table: z.string().min(1).optional(),
          gpu: gpu.optional(),
          slo: duration.optional(),
        })
        .refine(
          ({ experiment, table }) => (experiment === undefined) !== (table === undefined),
          'needs what was measured of it: experiment: ID, or table: FILE.csv (one of the two)',
        ),
    )
    .refine(
      (classes) => Object.keys(classes).length > 1,
      'one class is no class: give the model its experiment: or table:',
    )
    .refine(comeToAll, notAll)

export type LlmEntry = z.output<typeof llmSchema>

/** So many requests are drawn from distributions. */
const drawn = 4096

/** @param folder of the fleet file */
export function estimatedFrom(
  name: string,
  entry: LlmEntry,
  slo: Slo,
  folder: string,
  kinds: readonly GpuKind[],
  perNode: (kind: string) => number,
): FleetModel {
  const architecture = architectureOf(entry.model) as Decoder
  return estimatedModel(
    { name, architecture, slo, requests: requestsOf(entry, folder), settings: settingsOf(entry) },
    kinds,
    perNode,
  )
}

const settingsOf = ({ settings = {} }: LlmEntry) =>
  Object.fromEntries(
    Object.entries(settings).flatMap(([key, value]) =>
      value === undefined ? [] : [[key, value as string | number]],
    ),
  )

function requestsOf(
  { lengths: file, inputTokens, outputTokens, classes }: LlmEntry,
  folder: string,
): LlmRequest[] {
  if (file !== undefined)
    return readLengths(resolve(folder, file), file).map(([promptTokens, output]) => ({
      promptTokens,
      outputTokens: output,
      prefix: [],
    }))
  const uniform = seeded(1)
  const kinds = classes
    ? Object.entries(classes).map(([requestClass, of]) => ({ requestClass, ...of }))
    : [{ share: 1, inputTokens: inputTokens!, outputTokens: outputTokens! }]
  const counts = countsByShare(
    kinds.map((of) => of.share),
    drawn,
  )
  return kinds.flatMap((of, i) =>
    Array.from({ length: counts[i]! }, (): LlmRequest => {
      const [promptTokens, output] = [
        drawLength(of.inputTokens, uniform),
        drawLength(of.outputTokens, uniform),
      ]
      return {
        promptTokens,
        outputTokens: output,
        prefix: [],
        ...('requestClass' in of && { requestClass: of.requestClass }),
      }
    }),
  )
}

interface MeasuredClass {
  readonly name: string
  readonly share: number
  readonly segments: readonly Segment[]
}

/**
 * Classes that were measured one by one as one model: a replica serves those of them that were
 * measured in its configuration.
 * @throws FleetError where no configuration that is known serves a class
 */
export function joinedClasses(
  name: string,
  classes: readonly MeasuredClass[],
): FleetModel & { readonly buckets: NonNullable<FleetModel['buckets']> } {
  const total = classes.reduce((sum, of) => sum + of.share, 0)
  const buckets = classes.map((of) => ({ name: of.name, share: of.share / total }))
  const without = classes.find(({ segments }) => segments.length === 0)
  if (without)
    throw new FleetError(
      `${name}: nothing that was measured of its class ${without.name} keeps its SLO`,
    )
  const pools = new Map<string, { first: Segment; startedAs: string; rates: number[] }>()
  for (const [c, { name: of, segments }] of classes.entries())
    for (const segment of segments) {
      const key = poolOf(segment)
      const pool = pools.get(key) ?? { first: segment, startedAs: of, rates: classes.map(() => 0) }
      pool.rates[c] = Math.max(pool.rates[c]!, segment.rateRps)
      pools.set(key, pool)
    }
  const segments = [...pools.values()].map(
    ({ first, startedAs, rates }): Segment => ({
      ...first,
      rateRps: unroutedRps(buckets, rates),
      bucketRps: rates,
      startedAs,
    }),
  )
  return { name, buckets, segments }
}

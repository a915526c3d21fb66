/**
 * What a fleet file says: models with their traffic and what was measured of them, and the GPUs to
 * be had.
 */
import { dirname, resolve } from 'node:path'
import { z } from 'zod'
import type { Slo } from '../../../profiler/types.ts'
import { interferenceOf, type MeasuredSlowdown } from '../../../reports/fleet/interference.ts'
import { readPairs } from '../../../reports/fleet/measured-pairs.ts'
import { type GpuKind, whole } from '../../../reports/fleet/packing.ts'
import type { Rules } from '../../../reports/fleet/rules.ts'
import {
  type Demand,
  steadyDemand,
  tableDemand,
  traceDemand,
} from '../../../reports/plan/demand.ts'
import { architectureOf } from '../../../trials/devices/architecture.ts'
import { findGpu, type Gpu, usableMemoryMiB } from '../../../trials/devices/catalogue.ts'
import { DeviceModelError } from '../../../trials/devices/device-model-error.ts'
import { migProfilesOf } from '../../../trials/devices/mig.ts'
import { partitionsOf } from '../../../trials/devices/mig-placements.ts'
import type { PriceBook } from '../../../trials/prices/book.ts'
import { secretSpans } from '../../../trials/secrets.ts'
import { parseYaml } from '../../../trials/yaml.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import { writtenSlo } from '../../experiment/parse-slo.ts'
import { duration, share } from '../../experiment/schema/schema-parts.ts'
import { UnitError } from '../../experiment/units.ts'
import { givenText } from '../../given-file.ts'
import { classesSchema, type LlmEntry, llmSchema } from './request-sizes.ts'

const positive = z.number().positive()
/** A value as some function of this product reads it. */
const read = <T>(what: string, parse: (text: string | number) => T) =>
  z.union([z.string(), z.number()]).transform((value, context): T => {
    try {
      return parse(value)
    } catch (error) {
      context.addIssue({
        code: 'custom',
        message: `${(error as Error).message} (${what})`,
        input: value,
      })
      return z.NEVER
    }
  })
const gpuName = read("a GPU of the catalogue, as in 'A100-80GB'", (text) => findGpu(String(text)))
const demand = z.union([
  z.strictObject({ trace: z.string().min(1) }),
  read(
    "requests per second, or a day: '0-8:20, 8-20:200, 20-24:60'",
    (given): Demand => (typeof given === 'number' ? steadyDemand(given) : tableDemand(given)),
  ),
])

/** It stands in manifests as it is. */
const withoutSecret = z
  .string()
  .min(1)
  .refine(
    (text) => secretSpans(text).length === 0,
    'holds a secret, and manifests are files that others read: give it to the cluster as a Secret',
  )

function isTimezone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }) !== undefined
  } catch {
    return false
  }
}

const gpu = z.strictObject({
  price: positive.optional(),
  count: z.number().int().min(0).optional(),
  mig: z.boolean().default(true),
  mps: z.boolean().default(false),
  perNode: z.number().int().min(1).max(64).default(1),
})
/**
 * Whether models leave memory for one another: by the hours of their demand, or as requests come
 * too.
 */
const turns = z.enum(['byHour', 'onDemand', 'never'])

/** GPUs that may be lost. */
const spare = z.number().int().min(0).max(1)
/** A time that whole answers keep, or limits on parts of a stream. */
const sloOrLimit = z.union([z.string(), z.number()]).transform((value, context): Slo => {
  try {
    return writtenSlo(String(value), maxErrorRate)
  } catch (error) {
    if (!(error instanceof UnitError)) throw error
    context.addIssue({ code: 'custom', message: `${error.message} (${error.hint})`, input: value })
    return z.NEVER
  }
})
/** Of an SLO where nothing is said, as of experiments. */
const maxErrorRate = 0.001

const isPlain = ({ metric, limits, percentile }: Slo): boolean =>
  metric === undefined && limits === undefined && percentile === 0.99

/** What the built-in predictor serves on a GPU. */
const builtin = read('a model of the built-in predictor', (text) => {
  const { kind, name } = architectureOf(String(text))
  if (kind === 'decoder')
    throw new Error(`${name} generates text, and is not measured beside others`)
  return String(text)
})

const model = z
  .strictObject({
    experiment: z.string().min(1).optional(),
    table: z.string().min(1).optional(),
    classes: classesSchema(gpuName).optional(),
    llm: llmSchema.optional(),
    gpu: gpuName.optional(),
    slo: sloOrLimit.optional(),
    image: withoutSecret.optional(),
    port: z.number().int().min(1).max(65_535).optional(),
    health: z.string().startsWith('/').optional(),
    modelUri: withoutSecret.optional(),
    builtin: builtin.optional(),
    server: z.string().min(1).optional(),
    spare: spare.optional(),
    turns: turns.optional(),
    load: duration.optional(),
    wake: duration.optional(),
    endsEarly: duration.optional(),
    demand,
  })
  .superRefine(
    (
      { experiment, table, classes, llm, slo, turns: inTurns, builtin: inPlace, server },
      context,
    ) => {
      if (inPlace !== undefined && server !== undefined)
        context.addIssue({
          code: 'custom',
          path: ['server'],
          message: 'starts it as it is, and builtin: another in its place: one of them',
          input: server,
        })
      if ((classes ?? llm) !== undefined && inTurns === 'onDemand')
        context.addIssue({
          code: 'custom',
          path: ['turns'],
          message: 'models whose requests are told apart take turns by the hours: turns: byHour',
          input: inTurns,
        })
      if ([experiment, table, classes, llm].filter((source) => source !== undefined).length !== 1)
        context.addIssue({
          code: 'custom',
          message:
            'needs what was measured of it: experiment: ID, table: FILE.csv or classes:, or llm: to estimate a language model (one of them)',
        })
      if (llm !== undefined && slo === undefined)
        context.addIssue({
          code: 'custom',
          path: ['slo'],
          message: "is needed by llm:, as in 'p90 tpot<80ms'",
        })
      if (llm === undefined && slo !== undefined && !isPlain(slo))
        context.addIssue({
          code: 'custom',
          path: ['slo'],
          message:
            'is a p99 of whole answers, such as 50ms: what was measured keeps the SLO of its experiment; others are of llm:',
        })
    },
  )
/** It stands in the comments of manifests, and in tables. */
const isLine = (name: string): boolean => name.trim() !== '' && !/\p{Cc}/u.test(name)

const fleet = z
  .strictObject({
    gpus: z.record(
      z.string(),
      gpu
        .nullable()
        .transform(
          (given) =>
            given ?? { price: undefined, count: undefined, mig: true, mps: false, perNode: 1 },
        ),
    ),
    models: z.record(z.string(), model),
    spare: spare.default(0),
    turns: turns.default('never'),
    endsEarly: duration.optional(),
    apart: z.array(z.array(z.string()).min(2)).default([]),
    pairs: z.string().min(1).optional(),
    headroom: share
      .refine((part) => part < 1, 'all of a replica kept free leaves nothing to serve with')
      .default(0),
    timezone: z
      .string()
      .refine(isTimezone, "no time zone of the IANA database, such as 'Europe/Berlin'")
      .default('UTC'),
  })
  .superRefine(({ models, apart }, context) => {
    for (const name of Object.keys(models).filter((one) => !isLine(one)))
      context.addIssue({
        code: 'custom',
        path: ['models', name],
        message: 'the name of a model is one line of text',
        input: name,
      })
    for (const [i, group] of apart.entries())
      for (const [j, name] of group.entries()) {
        const message = !(name in models)
          ? `no model is called '${name}'`
          : group.indexOf(name) < j
            ? `'${name}' is named twice`
            : undefined
        if (message !== undefined)
          context.addIssue({ code: 'custom', path: ['apart', i, j], message, input: name })
      }
  })

export interface FleetModelEntry {
  readonly name: string
  /** Of the store. */
  readonly experiment?: string
  /** Path of a table. */
  readonly table?: string
  /** Measured by themselves, each as a model of its own. */
  readonly classes?: readonly (Pick<
    FleetModelEntry,
    'name' | 'experiment' | 'table' | 'gpu' | 'sloMs'
  > & { readonly share: number })[]
  /** Estimated. */
  readonly llm?: { readonly entry: LlmEntry; readonly slo: Slo }
  /** What a table's rows were measured on, where they do not say. */
  readonly gpu?: string
  readonly sloMs?: number
  readonly demand: Demand
  /** How it is deployed, as far as its experiment does not say. */
  readonly image?: string
  readonly port?: number
  readonly health?: string
  readonly modelUri?: string
  /** It leaves memory for others; absent: it stays. */
  readonly turns?: 'byHour' | 'onDemand'
  /** Until it serves, as the user knows it; and where its weights wait in the host's memory. */
  readonly loadS?: number
  readonly wakeS?: number
  /** It may leave so long before its hours end. */
  readonly endsEarlyS?: number
  /** What the built-in predictor serves in its place, where pairs are measured. */
  readonly builtin?: string
  /** Path of an experiment file that says how its own server is started and asked, likewise. */
  readonly server?: string
}

export interface FleetFile {
  /** Where it stands: paths in it are relative to that. */
  readonly folder: string
  readonly kinds: readonly GpuKind[]
  readonly models: readonly FleetModelEntry[]
  readonly headroom: number
  readonly rules: Rules
  /** Slowdowns under MPS that are known, and where they stand. */
  readonly pairs?: { readonly path: string; readonly measured: readonly MeasuredSlowdown[] }
  /** Of its hours. */
  readonly timezone: string
  /** GPUs of a node, of a kind. */
  readonly perNode: (kind: string) => number
}

/** @throws UserError, and YamlFileError with every problem */
export function readFleetFile(path: string, book: PriceBook): FleetFile {
  const given = parseYaml(givenText(path, 'the fleet', '--file', 'document'), path, fleet)
  const kinds = Object.entries(given.gpus).map(([name, entry]) => gpuKind(name, entry, path, book))
  const twice = kinds.findIndex(({ name }, i) => kinds.findIndex((kind) => kind.name === name) < i)
  if (twice >= 0)
    throw new UserError(
      `${path}: gpus: ${Object.keys(given.gpus)[twice]} is ${kinds[twice]!.name}, which is there already`,
      'name each kind once, with the count of all of it',
      exitCodes.usage,
    )
  const models = Object.entries(given.models).map(
    ([
      name,
      {
        slo,
        gpu: on,
        table,
        experiment,
        demand: asked,
        spare: _,
        classes,
        llm,
        turns,
        load,
        wake,
        endsEarly,
        server,
        ...deployed
      },
    ]): FleetModelEntry => {
      const source = sourceOf(path, kinds)
      const inTurns = turns ?? given.turns
      const early = endsEarly ?? given.endsEarly
      return {
        name,
        ...deployed,
        ...(server !== undefined && { server: resolve(dirname(path), server) }),
        ...(inTurns !== 'never' && { turns: inTurns }),
        ...(load !== undefined && { loadS: load / 1000 }),
        ...(wake !== undefined && { wakeS: wake / 1000 }),
        ...(early !== undefined && { endsEarlyS: early / 1000 }),
        ...source({ table, experiment, gpu: on, slo: llm ? undefined : slo?.limitMs }),
        ...(classes && {
          classes: Object.entries(classes).map(([of, { share, ...entry }]) => ({
            name: of,
            share,
            ...source({ ...entry, slo: entry.slo ?? slo?.limitMs }),
          })),
        }),
        ...(llm && { llm: { entry: llm, slo: slo! } }),
        demand: 'trace' in asked ? tracedFrom(resolve(dirname(path), asked.trace), name) : asked,
      }
    },
  )
  if (kinds.length === 0 || models.length === 0)
    throw new UserError(
      `${path} has no ${kinds.length === 0 ? 'gpus' : 'models'}`,
      'gpus: {A100-80GB: {}} and models: {bert: {table: bert.csv, slo: 50ms, demand: 800}}',
      exitCodes.usage,
    )
  const sizes = new Map(kinds.map(({ name }, i) => [name, Object.values(given.gpus)[i]!.perNode]))
  const spared = Object.entries(given.models).flatMap(([name, { spare = given.spare }]) =>
    spare > 0 ? [name] : [],
  )
  const pairs =
    given.pairs === undefined
      ? undefined
      : pairsAt(resolve(dirname(path), given.pairs), given.pairs)
  const rules = {
    spared: new Set(spared),
    apart: given.apart,
    slows: interferenceOf(pairs?.measured),
  }
  return {
    folder: dirname(path),
    kinds,
    models,
    rules,
    headroom: given.headroom,
    timezone: given.timezone,
    ...(pairs && { pairs }),
    perNode: (kind) => sizes.get(kind) ?? 1,
  }
}

const pairsAt = (path: string, shown: string) => ({
  path,
  measured: readPairs(givenText(path, 'the measured pairs', '--file', 'data'), shown),
})

interface GivenSource {
  readonly table?: string
  readonly experiment?: string
  readonly gpu?: Gpu
  readonly slo?: number
}

/** What was measured of a model or a class, and on what where its table does not say. */
const sourceOf =
  (path: string, kinds: readonly GpuKind[]) =>
  ({ table, experiment, gpu: on, slo }: GivenSource) => {
    const measuredOn = on?.name ?? (kinds.length === 1 ? kinds[0]!.name : undefined)
    return {
      ...(experiment !== undefined && { experiment }),
      ...(table !== undefined && { table: resolve(dirname(path), table) }),
      ...(measuredOn !== undefined && { gpu: measuredOn }),
      ...(slo !== undefined && { sloMs: slo }),
    }
  }

/** The solver tells costs apart to a millionth. */
const leastPrice = 0.001

function gpuKind(
  name: string,
  { price, count, mig, mps }: z.output<typeof gpu>,
  path: string,
  book: PriceBook,
): GpuKind {
  try {
    const found = findGpu(name)
    const pricePerHour = price ?? book.gpus[found.name]?.perHour
    if (pricePerHour !== undefined && pricePerHour < leastPrice)
      throw new UserError(
        `${path}: gpus: ${name} at ${pricePerHour} an hour is less than money can be told apart by`,
        `give what an hour costs, ${leastPrice} at the least`,
        exitCodes.usage,
      )
    if (pricePerHour === undefined)
      throw new UserError(
        `${path}: no price is known for ${found.name}`,
        `give one: gpus: {${name}: {price: 2.50}}`,
        exitCodes.usage,
      )
    return {
      name: found.name,
      pricePerHour,
      ...(count !== undefined && { count }),
      memoryMiB: {
        [whole]: usableMemoryMiB(found),
        ...Object.fromEntries(migProfilesOf(found).map((slice) => [slice.name, slice.memoryMiB])),
      },
      partitions: [[whole], ...(mig ? partitionsOf(found) : [])],
      ...(mps && { mps: { memoryMiB: usableMemoryMiB(found) } }),
    }
  } catch (error) {
    if (!(error instanceof DeviceModelError)) throw error
    throw new UserError(`${path}: gpus: ${error.message}`, error.hint, exitCodes.usage)
  }
}

const tracedFrom = (path: string, model: string): Demand =>
  traceDemand(givenText(path, `the trace of ${model}`, '--file', 'data'), path)

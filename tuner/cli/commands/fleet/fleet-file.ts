/** The fleet file: models with their demand and measurements, and the GPUs that are available. */
import { dirname, resolve } from 'node:path'
import { z } from 'zod'
import { type GpuKind, wholeGpu } from '../../../../reports/fleet/packing.ts'
import { createSteadyDemand, type Demand, parseDayTable } from '../../../../reports/plan/demand.ts'
import { parseTraceDemand } from '../../../../reports/plan/trace-demand.ts'
import { computeUsableMemoryMiB, findGpu } from '../../../../trials/devices/catalogue.ts'
import { DeviceModelError } from '../../../../trials/devices/device-model-error.ts'
import { enumeratePartitions } from '../../../../trials/devices/mig-placements.ts'
import type { PriceBook } from '../../../../trials/prices/book.ts'
import { findSecrets } from '../../../../trials/secrets.ts'
import { parseYaml } from '../../../../trials/yaml.ts'
import { share } from '../../../config/schema/schema-parts.ts'
import { parseSloText } from '../../../config/values/parse-slo.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { readGivenFile } from '../../../given-file.ts'

/** @param what the value should be, for the message where `parse` throws */
const parseWith = <T>(what: string, parse: (text: string | number) => T) =>
  z.union([z.string(), z.number()]).transform((input, context): T => {
    try {
      return parse(input)
    } catch (error) {
      const message = `${(error as Error).message} (${what})`
      context.addIssue({ code: 'custom', message, input })
      return z.NEVER
    }
  })
const gpuName = parseWith("a GPU of the catalogue, as in 'A100-80GB'", (text) =>
  findGpu(String(text)),
)
const demand = z.union([
  z.strictObject({ trace: z.string().min(1) }),
  parseWith(
    "requests per second, or a day: '0-8:20, 8-20:200, 20-24:60'",
    (given): Demand =>
      typeof given === 'number' ? createSteadyDemand(given) : parseDayTable(given),
  ),
])

/** A text that manifests repeat, so it must not contain a secret. */
const secretFreeText = z
  .string()
  .min(1)
  .refine(
    (text) => findSecrets(text).length === 0,
    'contains a secret, and others can read manifests: pass it to the cluster as a Secret',
  )

function isTimezone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }) !== undefined
  } catch {
    return false
  }
}

const gpu = z.strictObject({
  price: z.number().positive().optional(),
  count: z.number().int().min(0).optional(),
  mig: z.boolean().default(true),
  mps: z.boolean().default(false),
  perNode: z.number().int().min(1).max(64).default(1),
})
/** A limit of whole answers at p99; experiments have SLOs of their own. */
const sloLimit = parseWith("a p99 of whole answers, as in '50ms'", (text) => {
  const { metric, limits, percentile, limitMs } = parseSloText(String(text), maxErrorRate)
  if (metric !== undefined || limits !== undefined || percentile !== 0.99)
    throw new RangeError('another SLO needs an experiment instead of the table')
  return limitMs
})
/** The default of experiments. */
const maxErrorRate = 0.001

const model = z
  .strictObject({
    experiment: z.string().min(1).optional(),
    table: z.string().min(1).optional(),
    gpu: gpuName.optional(),
    slo: sloLimit.optional(),
    image: secretFreeText.optional(),
    port: z.number().int().min(1).max(65_535).optional(),
    health: z.string().startsWith('/').optional(),
    modelUri: secretFreeText.optional(),
    demand,
  })
  .refine(
    ({ experiment, table }) => (experiment === undefined) !== (table === undefined),
    'needs measurements: either experiment: ID or table: FILE.csv',
  )
/** Comments of manifests and tables repeat names. */
const isSingleLine = (name: string): boolean => name.trim() !== '' && !/\p{Cc}/u.test(name)

const fleet = z
  .strictObject({
    gpus: z.record(
      z.string(),
      gpu.nullable().transform((given) => given ?? gpu.parse({})),
    ),
    models: z.record(z.string(), model),
    headroom: share.refine((part) => part < 1, 'a headroom of 100 % leaves no capacity').default(0),
    timezone: z
      .string()
      .refine(isTimezone, "not a time zone of the IANA database, such as 'Europe/Berlin'")
      .default('UTC'),
  })
  .superRefine(({ models }, context) => {
    for (const name of Object.keys(models).filter((one) => !isSingleLine(one)))
      context.addIssue({
        code: 'custom',
        path: ['models', name],
        message: 'the name of a model must be one line of text',
        input: name,
      })
  })

export interface FleetModelEntry {
  readonly name: string
  /** In the store. */
  readonly experiment?: string
  /** Path of a table. */
  readonly table?: string
  /** GPU of a table without a column for it. */
  readonly gpu?: string
  readonly sloMs?: number
  readonly demand: Demand
  /** The deployment of a table, or what an experiment did not record. */
  readonly image?: string
  readonly port?: number
  readonly health?: string
  readonly modelUri?: string
}

export interface FleetFile {
  readonly kinds: readonly GpuKind[]
  readonly models: readonly FleetModelEntry[]
  readonly headroom: number
  /** IANA name. */
  readonly timezone: string
  /** GPUs of a node by kind. */
  readonly perNode: (kind: string) => number
}

/** @throws UserError, and YamlFileError with every problem */
export function readFleetFile(path: string, book: PriceBook): FleetFile {
  const file = parseYaml(readGivenFile(path, 'the fleet', '--file', 'document'), path, fleet)
  const kinds = Object.entries(file.gpus).map(([name, entry]) => toGpuKind(name, entry, path, book))
  const twice = kinds.findIndex(({ name }, i) => kinds.findIndex((kind) => kind.name === name) < i)
  if (twice >= 0)
    throw new UserError(
      `${path}: gpus: ${Object.keys(file.gpus)[twice]} is ${kinds[twice]!.name}, which already appears above`,
      'list each kind once, with its total count',
      exitCodes.usage,
    )
  const resolvePath = (name: string) => resolve(dirname(path), name)
  const models = Object.entries(file.models).map(
    ([name, { slo, gpu: on, table, demand: given, ...rest }]): FleetModelEntry => {
      const measuredOn = on?.name ?? (kinds.length === 1 ? kinds[0]!.name : undefined)
      return {
        name,
        ...rest,
        ...(table !== undefined && { table: resolvePath(table) }),
        ...(measuredOn !== undefined && { gpu: measuredOn }),
        ...(slo !== undefined && { sloMs: slo }),
        demand: 'trace' in given ? readTrace(resolvePath(given.trace), name) : given,
      }
    },
  )
  if (kinds.length === 0 || models.length === 0)
    throw new UserError(
      `${path} has no ${kinds.length === 0 ? 'gpus' : 'models'}`,
      'gpus: {A100-80GB: {}} and models: {bert: {table: bert.csv, slo: 50ms, demand: 800}}',
      exitCodes.usage,
    )
  const sizes = new Map(kinds.map(({ name }, i) => [name, Object.values(file.gpus)[i]!.perNode]))
  return {
    kinds,
    models,
    headroom: file.headroom,
    timezone: file.timezone,
    perNode: (kind) => sizes.get(kind) ?? 1,
  }
}

/** The solver distinguishes costs to a millionth. */
const minPricePerHour = 0.001

function toGpuKind(
  name: string,
  { price, count, mig, mps }: z.output<typeof gpu>,
  path: string,
  book: PriceBook,
): GpuKind {
  try {
    const catalogueGpu = findGpu(name)
    const pricePerHour = price ?? book.gpus[catalogueGpu.name]?.perHour
    if (pricePerHour !== undefined && pricePerHour < minPricePerHour)
      throw new UserError(
        `${path}: gpus: ${name} at ${pricePerHour} per hour is below the precision of the solver`,
        `set a price per hour of at least ${minPricePerHour}`,
        exitCodes.usage,
      )
    if (pricePerHour === undefined)
      throw new UserError(
        `${path}: the price book has no price for ${catalogueGpu.name}`,
        `add one: gpus: {${name}: {price: 2.50}}`,
        exitCodes.usage,
      )
    return {
      name: catalogueGpu.name,
      pricePerHour,
      ...(count !== undefined && { count }),
      partitions: [[wholeGpu], ...(mig ? enumeratePartitions(catalogueGpu) : [])],
      ...(mps && { mps: { memoryMiB: computeUsableMemoryMiB(catalogueGpu) } }),
    }
  } catch (error) {
    if (!(error instanceof DeviceModelError)) throw error
    throw new UserError(`${path}: gpus: ${error.message}`, error.hint, exitCodes.usage)
  }
}

const readTrace = (path: string, model: string): Demand =>
  parseTraceDemand(readGivenFile(path, `the trace of ${model}`, '--file', 'table'), path)

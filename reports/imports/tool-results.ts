/**
 * Turns results of other load testers into recordings for `tune replay`. They report the rate that
 * was achieved at a load. Under a latency limit it is at most what an open loop would achieve.
 */
import { dirname, sep } from 'node:path'
import { percentileName } from '../../profiler/model/slo.ts'
import type { ReplayParameter, ReplayTask } from '../../search/replay/task.ts'
import { configurationKey } from '../../search/space/space.ts'
import { type Source, TableError } from '../../trials/table-text.ts'
import { aiperf } from './aiperf.ts'
import { guidellm } from './guidellm.ts'
import { k6 } from './k6.ts'
import { modelAnalyzer } from './model-analyzer.ts'
import { buildRecording, type PlacedRow, type Recording } from './own-table.ts'
import { perfAnalyzer } from './perf-analyzer.ts'
import {
  describeUnknowns,
  type ImportOptions,
  type ToolPoint,
  type ToolReader,
} from './tool-point.ts'
import { sglangBench, vllmBench } from './vllm-bench.ts'

/** Options with a latency limit; without one from the user, the tool's own limits decide. */
interface ResolvedOptions extends ImportOptions {
  readonly limitMs: number
  readonly useToolLimits: boolean
}

const readers: readonly ToolReader[] = [
  modelAnalyzer,
  perfAnalyzer,
  vllmBench,
  sglangBench,
  guidellm,
  aiperf,
  k6,
]
export const toolNames: readonly string[] = readers.map(({ tool }) => tool)

/**
 * Reads files of the tools as one recording. Of each configuration it takes the load that serves
 * most within the limit; of a single configuration every load. Rows have their own configurations,
 * or with several files the file is one.
 * @throws TableError
 */
export function importResults(sources: readonly Source[], given: ImportOptions): Recording {
  const read = sources.map((source) => readToolFile(source, given, ownTableHint))
  const tools = [...new Set(read.map(({ tool }) => tool))].join(' and ')
  const labels = sources.length > 1 ? labelFiles(sources.map(({ file }) => file)) : []
  const points = read.flatMap(({ points }, i) =>
    points.map((point) =>
      sources.length > 1
        ? { ...point, configuration: { file: labels[i]!, ...point.configuration } }
        : point,
    ),
  )
  const options: ResolvedOptions = {
    ...given,
    limitMs: given.limitMs ?? points.reduce((most, p) => Math.max(most, p.latencyMs), 0),
    useToolLimits: given.limitMs === undefined,
  }
  const failing = points.filter((p) => (p.errorRate ?? 0) > options.maxErrorRate)
  const violatesToolLimits = options.useToolLimits && points.some((p) => p.meetsOwnLimits === false)
  const varied = keepVaryingParameters(points)
  const selected = varied.configured
    ? pickBestByConfiguration(varied.points, options)
    : varied.points
  const { task, rows } = buildTask(selected, tools, options)
  const recording = buildRecording(sources[0]!.file, task, rows)
  const share = `${options.maxErrorRate * 100} %`
  return {
    ...recording,
    notes: [
      ...(options.useToolLimits
        ? [
            `no --slo: every latency is accepted${violatesToolLimits ? `, but results that violate the constraints of ${tools} count as not served` : ''}`,
          ]
        : []),
      ...(failing.length > 0
        ? [
            `${failing.length} of ${points.length} loads failed more than ${share} of their requests and count as not served, for example ${failing[0]!.where}`,
          ]
        : []),
      ...describeUnknowns(
        read.flatMap(({ tool, points }) => points.map((point) => ({ tool, point }))),
      ),
      ...recording.notes,
    ],
  }
}

const ownTableHint =
  'for a table of your own, add --task FILE, which describes its columns (docs/how-to/import-results.md)'

/**
 * Reads a file with the reader of its tool.
 * @throws TableError
 */
export function readToolFile(
  source: Source,
  options: ImportOptions,
  hint?: string,
): Pick<ToolReader, 'tool' | 'language'> & { points: readonly ToolPoint[] } {
  try {
    for (const { tool, language, read } of readers) {
      const points = read(source, options)
      if (points?.length === 0)
        throw new TableError([{ where: source.file, what: 'it has no rows' }])
      if (points) return { tool, language, points }
    }
  } catch (error) {
    if (error instanceof SyntaxError && !beginsWithJsonLine(source.text))
      throw new TableError([
        { where: source.file, what: `it starts like JSON but is not valid JSON: ${error.message}` },
      ])
    if (!(error instanceof SyntaxError)) throw error
  }
  throw new TableError([
    {
      where: source.file,
      what: `it is not a result of ${toolNames.join(', ')}`,
      ...(hint && { hint }),
    },
  ])
}

/** Whether the first line is JSON by itself, as in a file with a record per line. */
function beginsWithJsonLine(text: string): boolean {
  try {
    JSON.parse(/\S.*/.exec(text)?.[0] ?? '')
    return true
  } catch {
    return false
  }
}

/** Labels that tell files apart: their names, or their folders where the names are equal. */
export function labelFiles(files: readonly string[]): string[] {
  let names = [...files]
  while (
    new Set(names.map(getBaseName)).size < names.length &&
    names.some((name) => dirname(name) !== name)
  )
    names = names.map(dirname)
  return new Set(names.map(getBaseName)).size < names.length ? [...files] : names.map(getBaseName)
}

const getBaseName = (path: string): string =>
  (path.split(sep).at(-1) ?? path).replace(/\.(csv|json)$/, '')

/**
 * Reduces configurations to the parameters that vary between points. The path of a configuration is
 * dropped where the other parameters identify it.
 */
export function keepVaryingParameters(points: readonly ToolPoint[]): {
  points: readonly ToolPoint[]
  /** Whether any parameter varies. */
  configured: boolean
} {
  const named = [...new Set(points.flatMap(({ configuration }) => Object.keys(configuration)))]
  const varying = named.filter((name) => new Set(points.map((p) => p.configuration[name])).size > 1)
  const pick = ({ configuration }: ToolPoint, kept: readonly string[]) =>
    Object.fromEntries(kept.map((name) => [name, configuration[name] ?? '']))
  const numeric = varying.filter((name) => name !== 'configuration')
  const paths = new Map<string, Set<unknown>>()
  for (const p of points) {
    const key = configurationKey(pick(p, numeric))
    paths.set(key, (paths.get(key) ?? new Set()).add(p.configuration.configuration))
  }
  const ambiguous =
    varying.includes('configuration') && [...paths.values()].some((set) => set.size > 1)
  const kept = ambiguous ? varying : numeric
  return {
    points: points.map((p) => ({ ...p, configuration: pick(p, kept) })),
    configured: kept.length > 0,
  }
}

/**
 * Picks the point of each configuration that serves most within the limit, else the fastest one.
 */
function pickBestByConfiguration(
  points: readonly ToolPoint[],
  options: ResolvedOptions,
): ToolPoint[] {
  const best = new Map<string, ToolPoint>()
  for (const point of points) {
    const key = configurationKey(point.configuration)
    const known = best.get(key)
    if (!known || isBetter(point, known, options)) best.set(key, point)
  }
  return [...best.values()]
}

function isBetter(a: ToolPoint, b: ToolPoint, options: ResolvedOptions): boolean {
  const meets = (p: ToolPoint) => p.latencyMs <= options.limitMs && isServed(p, options)
  if (meets(a) !== meets(b)) return meets(a)
  return meets(a) ? a.ratePerSecond > b.ratePerSecond : a.latencyMs < b.latencyMs
}

const isServed = (
  { ratePerSecond, errorRate = 0, meetsOwnLimits = true }: ToolPoint,
  { maxErrorRate, useToolLimits }: ResolvedOptions,
): boolean => ratePerSecond !== 0 && errorRate <= maxErrorRate && (meetsOwnLimits || !useToolLimits)

function buildTask(
  points: readonly ToolPoint[],
  tools: string,
  options: ResolvedOptions,
): { task: ReplayTask; rows: PlacedRow[] } {
  const { metric, percentile, limitMs, pricePerHour } = options
  const of = (p: ToolPoint) => (Object.keys(p.configuration).length > 0 ? p.configuration : p.load)
  const named = [...new Set(points.flatMap((p) => Object.keys(of(p))))]
  const varying = named.filter((name) => new Set(points.map((p) => of(p)[name])).size > 1)
  // A single run may have one load, or none with a name.
  const names = varying.length > 0 ? varying : named.length > 0 ? named.slice(0, 1) : ['run']
  const latency = `${percentileName(percentile)}${metric === 'e2e' ? '' : `${metric[0]!.toUpperCase()}${metric.slice(1)}`}Ms`
  const value = (p: ToolPoint, name: string) => of(p)[name] ?? (name === 'run' ? 1 : '')
  const parameters = names.map((name): ReplayParameter => {
    const values = [...new Set(points.map((p) => value(p, name)))]
    return values.every((v) => typeof v === 'number')
      ? { kind: 'ordinal', name, values: values.sort((a, b) => a - b) }
      : { kind: 'categorical', name, values: [...new Set(values.map(String))] }
  })
  return {
    task: {
      name: `measurements of ${tools}`,
      parameters,
      price: 'pricePerHour',
      objective: 'pricePerRequest',
      constraint: { metric: latency, max: limitMs },
      rate: 'ratePerSecond',
      infeasibleColumn: 'failed',
      source: tools,
    },
    rows: points.map((p) => ({
      where: p.where,
      cells: {
        ...Object.fromEntries(names.map((name) => [name, value(p, name)])),
        ratePerSecond: p.ratePerSecond,
        [latency]: p.latencyMs,
        pricePerHour,
        failed: isServed(p, options) ? 0 : 1,
      },
    })),
  }
}

/**
 * Measurements of other load testers as recordings for `tune replay`. All of them, open loop or
 * closed, report what was achieved at a load: a rate under a latency is at most what an open loop
 * would keep.
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
import { type PlacedRow, type Recording, recordingOf } from './own-table.ts'
import { perfAnalyzer } from './perf-analyzer.ts'
import {
  describeUnknowns,
  type ImportOptions,
  type ToolPoint,
  type ToolReader,
} from './tool-point.ts'
import { sglangBench, vllmBench } from './vllm-bench.ts'

/**
 * With a limit in any case, and whether it is the tool's own word that counts for want of another.
 */
interface Limits extends ImportOptions {
  readonly limitMs: number
  readonly own: boolean
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
 * Files of the tools as one recording: of each configuration (a row's own, or a file's where there
 * are several) the load that serves most within the limit; where there is but one configuration,
 * each load.
 * @throws TableError
 */
export function importResults(sources: readonly Source[], given: ImportOptions): Recording {
  const read = sources.map((source) => readOne(source, given, ownTable))
  const tools = [...new Set(read.map(({ tool }) => tool))].join(' and ')
  const labels = sources.length > 1 ? labelsOf(sources.map(({ file }) => file)) : []
  const points = read.flatMap(({ points }, i) =>
    points.map((point) =>
      sources.length > 1
        ? { ...point, configuration: { file: labels[i]!, ...point.configuration } }
        : point,
    ),
  )
  const options: Limits = {
    ...given,
    limitMs: given.limitMs ?? points.reduce((most, p) => Math.max(most, p.latencyMs), 0),
    own: given.limitMs === undefined,
  }
  const failing = points.filter((p) => (p.errorRate ?? 0) > options.maxErrorRate)
  const ownMissed = options.own && points.some((p) => p.keepsOwnLimits === false)
  const told = distinguished(points)
  const kept = told.configured ? bestByConfiguration(told.points, options) : told.points
  const { task, rows } = asTask(kept, tools, options)
  const recording = recordingOf(sources[0]!.file, task, rows)
  const share = `${options.maxErrorRate * 100} %`
  return {
    ...recording,
    notes: [
      ...(options.own
        ? [
            `no --slo: every latency is accepted${ownMissed ? `, but results that violate the constraints of ${tools} count as not served` : ''}`,
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

const ownTable =
  'for a table of your own, add --task FILE, which describes its columns (docs/how-to/import-results.md)'

/** What the tool whose file it is says in it. @throws TableError */
export function readOne(
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

/** Whether its first line is JSON by itself: then it is a record a line, and whole. */
function beginsWithJsonLine(text: string): boolean {
  try {
    JSON.parse(/\S.*/.exec(text)?.[0] ?? '')
    return true
  } catch {
    return false
  }
}

/**
 * What tells files apart: their names, or the folders they lie in, where the names are the same.
 */
export function labelsOf(files: readonly string[]): string[] {
  let names = [...files]
  while (
    new Set(names.map(lastOf)).size < names.length &&
    names.some((name) => dirname(name) !== name)
  )
    names = names.map(dirname)
  return new Set(names.map(lastOf)).size < names.length ? [...files] : names.map(lastOf)
}

const lastOf = (path: string): string =>
  (path.split(sep).at(-1) ?? path).replace(/\.(csv|json)$/, '')

/**
 * Points with what changes among their configurations alone, the path of a configuration left out
 * where the rest tells as much; and whether anything does.
 */
export function distinguished(points: readonly ToolPoint[]): {
  points: readonly ToolPoint[]
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

/** Per configuration the point that serves most within the limit, else the fastest one. */
function bestByConfiguration(points: readonly ToolPoint[], options: Limits): ToolPoint[] {
  const best = new Map<string, ToolPoint>()
  for (const point of points) {
    const key = configurationKey(point.configuration)
    const known = best.get(key)
    if (!known || better(point, known, options)) best.set(key, point)
  }
  return [...best.values()]
}

function better(a: ToolPoint, b: ToolPoint, options: Limits): boolean {
  const keeps = (p: ToolPoint) => p.latencyMs <= options.limitMs && served(p, options)
  if (keeps(a) !== keeps(b)) return keeps(a)
  return keeps(a) ? a.ratePerSecond > b.ratePerSecond : a.latencyMs < b.latencyMs
}

const served = (
  { ratePerSecond, errorRate = 0, keepsOwnLimits = true }: ToolPoint,
  { maxErrorRate, own }: Limits,
): boolean => ratePerSecond !== 0 && errorRate <= maxErrorRate && (keepsOwnLimits || !own)

function asTask(
  points: readonly ToolPoint[],
  tools: string,
  options: Limits,
): { task: ReplayTask; rows: PlacedRow[] } {
  const { metric, percentile, limitMs, pricePerHour } = options
  const of = (p: ToolPoint) => (Object.keys(p.configuration).length > 0 ? p.configuration : p.load)
  const named = [...new Set(points.flatMap((p) => Object.keys(of(p))))]
  const varying = named.filter((name) => new Set(points.map((p) => of(p)[name])).size > 1)
  // A single run has no load by name, or one load alone.
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
        failed: served(p, options) ? 0 : 1,
      },
    })),
  }
}

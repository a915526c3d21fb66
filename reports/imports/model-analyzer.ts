/**
 * Measurements of NVIDIA's tools as tables for `tune replay`: Model Analyzer's metrics-model-inference.csv and perf_analyzer's -f CSV.
 * Both load in closed loop, by concurrency: what they call a throughput under a latency is an upper bound of the rate an open loop would keep.
 */
import type { ReplayParameter, ReplayRow, ReplayTask } from '../../search/replay-table.ts'
import { parseCsv } from '../report/csv.ts'

export interface ImportOptions {
  readonly percentile: number
  readonly limitMs: number
  /** Of one server with its GPU, $; the tables say nothing of prices. */
  readonly pricePerHour: number
}

export interface Imported {
  readonly tool: 'Model Analyzer' | 'perf_analyzer'
  readonly task: ReplayTask
  readonly rows: readonly ReplayRow[]
}

interface Point {
  readonly parameters: Readonly<Record<string, string | number>>
  readonly rate: number
  readonly latencyMs: number
}

/** The table as a replay task, or undefined when it is of neither tool. Throws SyntaxError naming the column or row at fault. */
export function importTritonTable(text: string, options: ImportOptions): Imported | undefined {
  const [header, ...rows] = parseCsv(text)
  if (!header) return undefined
  const read = header.includes('Inferences/Second')
    ? readPerfAnalyzer
    : header.includes('Model Config Path')
      ? readModelAnalyzer
      : undefined
  if (!read) return undefined
  const named = rows.map((row) => Object.fromEntries(header.map((column, i) => [column, row[i] ?? ''])))
  const points = named.map((row, i) => read(row, i + 2, options.percentile))
  if (points.length === 0) throw new SyntaxError('the table has no rows')
  const tool = read === readPerfAnalyzer ? 'perf_analyzer' : 'Model Analyzer'
  return { tool, ...asTask(tool === 'perf_analyzer' ? points : bestByConfiguration(distinct(points), options.limitMs), tool, options) }
}

type Row = Readonly<Record<string, string>>

function number(row: Row, column: string, line: number): number {
  const text = row[column]
  if (text === undefined) throw new SyntaxError(`the table has no column '${column}'`)
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value)) throw new SyntaxError(`row ${line}: '${text}' in column '${column}' is no number`)
  return value
}

const percentileColumn = (percentile: number): string => `p${Number((percentile * 100).toFixed(4))}`

/** Latencies are in microseconds. */
function readPerfAnalyzer(row: Row, line: number, percentile: number): Point {
  const load = row.Concurrency === undefined ? 'Request Rate' : 'Concurrency'
  return {
    parameters: { [load === 'Concurrency' ? 'concurrency' : 'requestRate']: number(row, load, line) },
    rate: number(row, 'Inferences/Second', line),
    latencyMs: number(row, `${percentileColumn(percentile)} latency`, line) / 1000,
  }
}

function readModelAnalyzer(row: Row, line: number, percentile: number): Point {
  // '2:GPU', '1/GPU', '2/GPU + 1/CPU': the count in front.
  const instances = Number(/^\s*(\d+)/.exec(row['Instance Group'] ?? '')?.[1])
  return {
    parameters: {
      configuration: row['Model Config Path'] ?? '',
      ...(row['Max Batch Size'] === undefined ? {} : { maxBatchSize: number(row, 'Max Batch Size', line) }),
      ...(Number.isFinite(instances) ? { instances } : {}),
      ...(row.Batch === undefined ? {} : { clientBatch: number(row, 'Batch', line) }),
    },
    rate: number(row, 'Throughput (infer/sec)', line),
    latencyMs: number(row, `${percentileColumn(percentile)} Latency (ms)`, line),
  }
}

/** Leaves out parameters that never change, and the configuration's path where the others already tell the rows' configurations apart. */
function distinct(points: readonly Point[]): Point[] {
  const names = Object.keys(points[0]!.parameters)
  const varying = names.filter((name) => new Set(points.map((p) => p.parameters[name])).size > 1)
  const numeric = varying.filter((name) => name !== 'configuration')
  const pick = (p: Point, kept: readonly string[]) => JSON.stringify(kept.map((name) => p.parameters[name]))
  const paths = new Map<string, Set<unknown>>()
  for (const p of points) paths.set(pick(p, numeric), (paths.get(pick(p, numeric)) ?? new Set()).add(p.parameters.configuration))
  const ambiguous = numeric.length === 0 || [...paths.values()].some((set) => set.size > 1)
  const kept = ambiguous ? [...numeric, 'configuration'] : numeric
  return points.map((p) => ({ ...p, parameters: Object.fromEntries(kept.map((name) => [name, p.parameters[name]!])) }))
}

/** Per configuration the point that serves most within the limit, else the fastest one. */
function bestByConfiguration(points: readonly Point[], limitMs: number): Point[] {
  const best = new Map<string, Point>()
  for (const point of points) {
    const key = JSON.stringify(point.parameters)
    const known = best.get(key)
    if (!known || better(point, known, limitMs)) best.set(key, point)
  }
  return [...best.values()]
}

function better(a: Point, b: Point, limitMs: number): boolean {
  const [aKeeps, bKeeps] = [a.latencyMs <= limitMs, b.latencyMs <= limitMs]
  if (aKeeps !== bKeeps) return aKeeps
  return aKeeps ? a.rate > b.rate : a.latencyMs < b.latencyMs
}

function asTask(
  points: readonly Point[],
  tool: string,
  { percentile, limitMs, pricePerHour }: ImportOptions,
): Pick<Imported, 'task' | 'rows'> {
  const metric = `${percentileColumn(percentile)}Ms`
  const parameters = Object.keys(points[0]!.parameters).map((name): ReplayParameter => {
    const values = [...new Set(points.map((p) => p.parameters[name]!))]
    return values.every((v) => typeof v === 'number')
      ? { kind: 'ordinal', name, values: values.sort((a, b) => a - b) }
      : { kind: 'categorical', name, values: values.map(String) }
  })
  return {
    task: {
      name: `measurements of ${tool}`,
      parameters,
      price: 'pricePerHour',
      objective: 'pricePerRequest',
      constraint: { metric, max: limitMs },
      rate: 'ratePerSecond',
      source: tool,
    },
    rows: points.map((p) => ({ ...p.parameters, ratePerSecond: p.rate, [metric]: p.latencyMs, pricePerHour })),
  }
}

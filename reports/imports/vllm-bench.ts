/**
 * `vllm bench serve --save-result`: one run a file, or one a line with --append-result. One load
 * each. `vllm bench sweep` writes the same for each of its runs. SGLang's client has the same
 * figures under other names.
 */
import type { LatencyMetric } from '../../profiler/model/latency-metrics.ts'
import { percentileName } from '../../profiler/model/slo.ts'
import { isUnknown, readHeaderLine, readTable, type Source } from '../../trials/table-text.ts'
import {
  type ImportOptions,
  mapCollectingErrors,
  parseFigure,
  parseIfNumeric,
  parseJson,
  parseJsonLines,
  requireFound,
  requireObject,
  type ToolPoint,
  type ToolReader,
  toErrorRate,
} from './tool-point.ts'

/** The part of a run that is read. Values of --metadata come between num_prompts and request_rate. */
interface BenchRun {
  readonly model_id?: string
  readonly num_prompts?: number
  readonly request_rate?: number | string
  readonly max_concurrency?: number
  readonly duration?: number
  readonly completed?: number
  /** Absent in old versions. */
  readonly failed?: number
  readonly request_throughput?: number
  readonly [name: string]: unknown
}

/** Differences between the results of the two clients. */
interface Dialect {
  readonly names: Readonly<Record<LatencyMetric, string>>
  /** Flags that make it report a percentile; absent: its list is fixed. */
  readonly flags?: (metricName: string, percentile: string) => string
}

const vllmDialect: Dialect = {
  names: { e2e: 'e2el', ttft: 'ttft', tpot: 'tpot' },
  flags: (metricName, percentile) =>
    ` (--percentile-metrics ${metricName} --metric-percentiles ${percentile} reports it)`,
}
const sglangDialect: Dialect = { names: { e2e: 'e2e_latency', ttft: 'ttft', tpot: 'tpot' } }

export const vllmBench: ToolReader = {
  tool: 'vllm bench serve',
  language: true,
  read(source, options) {
    const runs = readRuns(source)
    if (!runs?.some((run) => run && 'completed' in run && 'num_prompts' in run)) return undefined
    return mapCollectingErrors(runs, (run, i) =>
      buildPoint(run, locateRun(source, runs, i), options, vllmDialect),
    )
  },
}

/** `python -m sglang.bench_serving --output-file`, which appends a line with each run. */
export const sglangBench: ToolReader = {
  tool: 'sglang.bench_serving',
  language: true,
  read(source, options) {
    const runs = readRuns(source)
    if (!runs?.some((run) => run && 'completed' in run && 'mean_e2e_latency_ms' in run))
      return undefined
    return mapCollectingErrors(runs, (run, i) =>
      buildPoint(run, locateRun(source, runs, i), options, sglangDialect),
    )
  },
}

/**
 * One run, a run a line, an array of them (summary.json of `vllm bench sweep`), or a table of them
 * (its summary.csv). Undefined: a file of another tool.
 */
function readRuns(source: Source): readonly BenchRun[] | undefined {
  if (/^\s*[[{]/.test(source.text)) {
    if (!/"request_throughput": *[\d.]/.test(source.text)) return undefined
    const read = parseJsonLines(source) ?? parseJson(source)
    return (Array.isArray(read) ? read : [read]) as BenchRun[]
  }
  const columns = readHeaderLine(source).split(',')
  if (!['num_prompts', 'completed', 'request_throughput'].every((name) => columns.includes(name)))
    return undefined
  return readTable(source).rows.map(
    ({ cells }) =>
      Object.fromEntries(
        Object.entries(cells).flatMap(([name, cell]) =>
          isUnknown(cell) ? [] : [[name, parseIfNumeric(cell)]],
        ),
      ) as BenchRun,
  )
}

const locateRun = ({ file, text }: Source, runs: readonly BenchRun[], i: number): string =>
  runs.length === 1
    ? file
    : /^\s*\[/.test(text)
      ? `${file}: [${i}]`
      : `${file}:${/^\s*\{/.test(text) ? i + 1 : i + 2}`

function buildPoint(
  given: BenchRun,
  where: string,
  { metric, percentile }: ImportOptions,
  { names, flags }: Dialect,
): ToolPoint {
  const run = requireObject(given, where)
  const name = percentileName(percentile)
  const of = (latency: string) =>
    run[`${name}_${latency}_ms`] ?? (name === 'p50' ? run[`median_${latency}_ms`] : undefined)
  const there = Object.keys(run).filter((key) => /^(median|p[\d.]+)_\w+_ms$/.test(key))
  const metricName = names[metric]
  // Includes the waiting of requests that --max-concurrency holds back.
  const latency =
    (metric === 'e2e' ? of(`${metricName}_including_client_queue`) : undefined) ?? of(metricName)
  const key = `${name}_${metricName}_ms`
  const completed = parseFigure(run.completed, 'completed', where)
  return {
    where,
    configuration: { ...readMetadata(run), ...readSweptParameters(run) },
    load: readLoad(run),
    ratePerSecond: parseFigure(run.request_throughput, 'request_throughput', where),
    latencyMs: parseFigure(
      requireFound(
        latency as number | undefined,
        `${key}${flags?.(metricName, name.slice(1)) ?? ''}`,
        where,
        there,
      ),
      key,
      where,
    ),
    ...readFailures(run, completed, where),
    ...(run.duration === undefined ? {} : { seconds: run.duration }),
    ...(typeof run.model_id === 'string' ? { model: run.model_id } : {}),
  }
}

/** SGLang reports neither the number of requests nor that of failures. */
function readFailures(
  run: BenchRun,
  completed: number,
  where: string,
): ReturnType<typeof toErrorRate> {
  if (run.failed !== undefined)
    return toErrorRate(parseFigure(run.failed, 'failed', where), completed)
  if (run.num_prompts === undefined) return { requests: completed }
  return toErrorRate(
    Math.max(0, parseFigure(run.num_prompts, 'num_prompts', where) - completed),
    completed,
  )
}

const loadKeys = ['request_rate', 'max_concurrency']
/** 'inf' is all requests at once. */
function readLoad({ request_rate: rate, max_concurrency: most }: BenchRun): Record<string, number> {
  return {
    ...(typeof rate === 'number' && { requestRate: rate }),
    ...(typeof most === 'number' && { concurrency: most }),
  }
}

function readMetadata(run: BenchRun): Record<string, string | number> {
  const keys = Object.keys(run)
  const between = keys.slice(
    keys.indexOf('num_prompts') + 1,
    Math.max(0, keys.indexOf('request_rate')),
  )
  return Object.fromEntries(
    between.flatMap((key) => {
      const value = run[key]
      return typeof value === 'string' ? [[key, parseIfNumeric(value)]] : []
    }),
  )
}

/** Parameters of `vllm bench sweep`, which follow `run_number` in each run. */
function readSweptParameters(run: BenchRun): Record<string, string | number> {
  const keys = Object.keys(run)
  const at = keys.indexOf('run_number')
  if (at < 0) return {}
  return Object.fromEntries(
    keys.slice(at + 1).flatMap((key) => {
      const value = run[key]
      if (value === undefined || key.startsWith('_') || loadKeys.includes(key)) return []
      return [[key, typeof value === 'number' ? value : toParameterValue(value)]]
    }),
  )
}

const toParameterValue = (value: unknown): string | number =>
  typeof value === 'string' ? parseIfNumeric(value) : JSON.stringify(value)

/**
 * `vllm bench serve --save-result`: one run a file, or one a line with --append-result. One load
 * each. `vllm bench sweep` writes the same for each of its runs. SGLang's client has the same
 * figures under other names.
 */
import type { LatencyMetric } from '../../profiler/model/latency-metrics.ts'
import { percentileName } from '../../profiler/model/slo.ts'
import { isUnknown, readHeaderLine, readTable, type Source } from '../../trials/table-text.ts'
import {
  each,
  entry,
  failures,
  figure,
  type ImportOptions,
  jsonLinesOf,
  jsonOf,
  type ToolPoint,
  type ToolReader,
  wanted,
} from './tool-point.ts'

/**
 * Only what is read of it. What --metadata names stands between the number of prompts and the
 * request rate.
 */
interface Result {
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

/** What sets one client's results apart from the other's. */
interface Dialect {
  readonly names: Readonly<Record<LatencyMetric, string>>
  /** Flags by which it reports a percentile; absent: it has a fixed list. */
  readonly flags?: (asked: string, percentile: string) => string
}

const ofVllm: Dialect = {
  names: { e2e: 'e2el', ttft: 'ttft', tpot: 'tpot' },
  flags: (asked, percentile) =>
    ` (--percentile-metrics ${asked} --metric-percentiles ${percentile} reports it)`,
}
const ofSglang: Dialect = { names: { e2e: 'e2e_latency', ttft: 'ttft', tpot: 'tpot' } }

export const vllmBench: ToolReader = {
  tool: 'vllm bench serve',
  language: true,
  read(source, options) {
    const runs = runsOf(source)
    if (!runs?.some((run) => run && 'completed' in run && 'num_prompts' in run)) return undefined
    return each(runs, (run, i) => pointOf(run, placeOf(source, runs, i), options, ofVllm))
  },
}

/** `python -m sglang.bench_serving --output-file`, which appends a line with each run. */
export const sglangBench: ToolReader = {
  tool: 'sglang.bench_serving',
  language: true,
  read(source, options) {
    const runs = runsOf(source)
    if (!runs?.some((run) => run && 'completed' in run && 'mean_e2e_latency_ms' in run))
      return undefined
    return each(runs, (run, i) => pointOf(run, placeOf(source, runs, i), options, ofSglang))
  },
}

/**
 * One run, a run a line, an array of them (summary.json of `vllm bench sweep`), or a table of them
 * (its summary.csv). Undefined: another tool's.
 */
function runsOf(source: Source): readonly Result[] | undefined {
  if (/^\s*[[{]/.test(source.text)) {
    if (!/"request_throughput": *[\d.]/.test(source.text)) return undefined
    const read = jsonLinesOf(source) ?? jsonOf(source)
    return (Array.isArray(read) ? read : [read]) as Result[]
  }
  const columns = readHeaderLine(source).split(',')
  if (!['num_prompts', 'completed', 'request_throughput'].every((name) => columns.includes(name)))
    return undefined
  return readTable(source).rows.map(
    ({ cells }) =>
      Object.fromEntries(
        Object.entries(cells).flatMap(([name, cell]) =>
          isUnknown(cell) ? [] : [[name, asFigure(cell)]],
        ),
      ) as Result,
  )
}

const placeOf = ({ file, text }: Source, runs: readonly Result[], i: number): string =>
  runs.length === 1
    ? file
    : /^\s*\[/.test(text)
      ? `${file}: [${i}]`
      : `${file}:${/^\s*\{/.test(text) ? i + 1 : i + 2}`

function pointOf(
  given: Result,
  where: string,
  { metric, percentile }: ImportOptions,
  { names, flags }: Dialect,
): ToolPoint {
  const run = entry(given, where)
  const name = percentileName(percentile)
  const of = (latency: string) =>
    run[`${name}_${latency}_ms`] ?? (name === 'p50' ? run[`median_${latency}_ms`] : undefined)
  const there = Object.keys(run).filter((key) => /^(median|p[\d.]+)_\w+_ms$/.test(key))
  const asked = names[metric]
  // Requests that its --max-concurrency held back have waited too.
  const latency =
    (metric === 'e2e' ? of(`${asked}_including_client_queue`) : undefined) ?? of(asked)
  const key = `${name}_${asked}_ms`
  const completed = figure(run.completed, 'completed', where)
  return {
    where,
    configuration: { ...metadataOf(run), ...sweptOf(run) },
    load: loadOf(run),
    ratePerSecond: figure(run.request_throughput, 'request_throughput', where),
    latencyMs: figure(
      wanted(
        latency as number | undefined,
        `${key}${flags?.(asked, name.slice(1)) ?? ''}`,
        where,
        there,
      ),
      key,
      where,
    ),
    ...failuresOf(run, completed, where),
    ...(run.duration === undefined ? {} : { seconds: run.duration }),
    ...(typeof run.model_id === 'string' ? { model: run.model_id } : {}),
  }
}

/** SGLang's has neither how many requests there were, nor how many failed. */
function failuresOf(run: Result, completed: number, where: string): ReturnType<typeof failures> {
  if (run.failed !== undefined) return failures(figure(run.failed, 'failed', where), completed)
  if (run.num_prompts === undefined) return { requests: completed }
  return failures(Math.max(0, figure(run.num_prompts, 'num_prompts', where) - completed), completed)
}

const loadKeys = ['request_rate', 'max_concurrency']
/** 'inf' is all requests at once. */
function loadOf({ request_rate: rate, max_concurrency: most }: Result): Record<string, number> {
  return {
    ...(typeof rate === 'number' && { requestRate: rate }),
    ...(typeof most === 'number' && { concurrency: most }),
  }
}

function metadataOf(run: Result): Record<string, string | number> {
  const keys = Object.keys(run)
  const between = keys.slice(
    keys.indexOf('num_prompts') + 1,
    Math.max(0, keys.indexOf('request_rate')),
  )
  return Object.fromEntries(
    between.flatMap((key) => {
      const value = run[key]
      return typeof value === 'string' ? [[key, asFigure(value)]] : []
    }),
  )
}

/** Parameters of `vllm bench sweep`: it appends those that it set to each run, behind its number. */
function sweptOf(run: Result): Record<string, string | number> {
  const keys = Object.keys(run)
  const at = keys.indexOf('run_number')
  if (at < 0) return {}
  return Object.fromEntries(
    keys.slice(at + 1).flatMap((key) => {
      const value = run[key]
      if (value === undefined || key.startsWith('_') || loadKeys.includes(key)) return []
      return [[key, typeof value === 'number' ? value : asWord(value)]]
    }),
  )
}

const asWord = (value: unknown): string | number =>
  typeof value === 'string' ? asFigure(value) : JSON.stringify(value)

const asFigure = (text: string): string | number =>
  text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : text

/**
 * `vllm bench serve --save-result`: one run a file, or one a line with --append-result. One load
 * each.
 */
import type { LatencyMetric } from '../../profiler/latency-metrics.ts'
import { percentileName } from '../../profiler/slo.ts'
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

const names: Readonly<Record<LatencyMetric, string>> = { e2e: 'e2el', ttft: 'ttft', tpot: 'tpot' }

export const vllmBench: ToolReader = {
  tool: 'vllm bench serve',
  language: true,
  read(source, options) {
    if (!/^\s*\{/.test(source.text) || !/"request_throughput": *[\d.]/.test(source.text))
      return undefined
    const runs = (jsonLinesOf(source) ?? [jsonOf(source)]) as Result[]
    if (!runs.some((run) => 'completed' in run && 'num_prompts' in run)) return undefined
    return each(runs, (run, i) =>
      pointOf(run, runs.length > 1 ? `${source.file}:${i + 1}` : source.file, options),
    )
  },
}

function pointOf(given: Result, where: string, { metric, percentile }: ImportOptions): ToolPoint {
  const run = entry(given, where)
  const name = percentileName(percentile)
  const of = (latency: string) =>
    run[`${name}_${latency}_ms`] ?? (name === 'p50' ? run[`median_${latency}_ms`] : undefined)
  const there = Object.keys(run).filter((key) => /^(median|p[\d.]+)_\w+_ms$/.test(key))
  const asked = names[metric]
  // Requests that its --max-concurrency held back have waited too.
  const latency =
    (metric === 'e2e' ? of(`${asked}_including_client_queue`) : undefined) ?? of(asked)
  const flags = `--percentile-metrics ${asked} --metric-percentiles ${name.slice(1)}`
  const completed = figure(run.completed, 'completed', where)
  const prompts = figure(run.num_prompts, 'num_prompts', where)
  return {
    where,
    configuration: metadataOf(run),
    load: loadOf(run),
    ratePerSecond: figure(run.request_throughput, 'request_throughput', where),
    latencyMs: figure(
      wanted(
        latency as number | undefined,
        `${name}_${asked}_ms (${flags} reports it)`,
        where,
        there,
      ),
      `${name}_${asked}_ms`,
      where,
    ),
    ...failures(run.failed ?? Math.max(0, prompts - completed), completed),
    ...(run.duration === undefined ? {} : { seconds: run.duration }),
    ...(typeof run.model_id === 'string' ? { model: run.model_id } : {}),
  }
}

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
      if (typeof value !== 'string') return []
      return [[key, value.trim() !== '' && Number.isFinite(Number(value)) ? Number(value) : value]]
    }),
  )
}

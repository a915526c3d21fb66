/**
 * AIPerf (and GenAI-Perf, which it follows): profile_export_aiperf.csv and .json of one run,
 * profile_export_aiperf_aggregate.json of several alike, profile_export_aiperf_sweep.csv and .json
 * of a sweep, a row for each combination.
 */

import type { LatencyMetric } from '../../profiler/model/latency-metrics.ts'
import { percentileName } from '../../profiler/model/slo.ts'
import { readHeaderLine, readRows, type Source, type TextRow } from '../../trials/table-text.ts'
import {
  type ImportOptions,
  mapCollectingErrors,
  parseFigure,
  parseIfNumeric,
  parseJson,
  requireFound,
  requireObject,
  type ToolPoint,
  type ToolReader,
  toErrorRate,
} from './tool-point.ts'

/** Names of each latency, in ms: headings of the CSV, and tags of the JSON, newest first. */
const latencies: Partial<
  Record<LatencyMetric, { readonly heading: string; readonly tags: readonly [string, ...string[]] }>
> = {
  e2e: { heading: 'Request Latency', tags: ['request_latency'] },
  ttft: { heading: 'Time to First Token', tags: ['time_to_first_token', 'ttft'] },
  tpot: { heading: 'Inter Token Latency', tags: ['inter_token_latency'] },
}
const findLatencyNames = (metric: LatencyMetric, file: string) =>
  requireFound(
    latencies[metric],
    `${metric} among what AIPerf reports`,
    file,
    Object.keys(latencies),
  )

const rateTag = 'request_throughput'
const sweptMetric = /^(.+)_(mean|std|min|max|cv)(?: \(.*\))?$/

export const aiperf: ToolReader = {
  tool: 'AIPerf',
  language: true,
  read(source, options) {
    if (/^\s*\{/.test(source.text)) return readJson(source, options)
    if (/^"?Metric"?[,;\t|]/.test(readHeaderLine(source))) return [readRun(source, options)]
    if (readHeaderLine(source).includes('request_throughput_avg_mean'))
      return readSweep(source, options)
    return undefined
  },
}

/** One run: a table of percentiles per request, and a table of totals below it. */
function readRun(source: Source, { metric, percentile }: ImportOptions): ToolPoint {
  const sections = readRows(source).rows.reduce<TextRow[][]>((all, record) => {
    if (record.cells[0] === 'Metric') all.push([record])
    else all.at(-1)!.push(record)
    return all
  }, [])
  const cell = (heading: string, column: string): { text: string; where: string } | undefined => {
    for (const [header, ...rows] of sections) {
      const at = header!.cells.indexOf(column)
      const row = rows.find(({ cells }) => cells[0]!.replace(/ \(.*\)$/, '') === heading)
      if (at > 0 && row) return { text: row.cells[at]!, where: `${source.file}:${row.line}` }
    }
    return undefined
  }
  const { heading } = findLatencyNames(metric, source.file)
  const column = percentileName(percentile)
  const there = sections[0]![0]!.cells.slice(1)
  const latency = requireFound(
    cell(heading, column),
    `${column} of '${heading}'`,
    source.file,
    there,
  )
  const rate = requireFound(
    cell('Request Throughput', 'Value') ?? cell('Request Throughput', 'avg'),
    "row 'Request Throughput'",
    source.file,
    [],
  )
  const count = (name: string) => {
    const found = cell(name, 'Value')
    return found ? parseFigure(found.text, name, found.where) : 0
  }
  return {
    where: rate.where,
    configuration: {},
    load: {},
    ratePerSecond: parseFigure(rate.text, 'Request Throughput', rate.where),
    latencyMs: parseFigure(latency.text, heading, latency.where),
    ...toErrorRate(count('Error Request Count'), count('Request Count')),
  }
}

/**
 * Reads a sweep: the first table of the file. AIPerf's own summary and a description follow below
 * it.
 */
function readSweep(source: Source, { metric, percentile }: ImportOptions): ToolPoint[] {
  const [header, ...records] = readRows(source).rows
  const columns = header!.cells
  const parameters = columns.filter((name) => !sweptMetric.test(name))
  const column = (tags: readonly string[], statistic: string) => {
    const names = tags.flatMap((tag) => [`${tag}_${statistic}`, `${tag}_${statistic}_ms`])
    const at = columns.findIndex((name) => {
      const [, metricName, mean] = sweptMetric.exec(name) ?? []
      return mean === 'mean' && names.includes(metricName!)
    })
    const there = columns.flatMap((name) => /^(.+)_mean/.exec(name)?.[1] ?? [])
    return requireFound(at < 0 ? undefined : at, `metric ${names[0]}`, source.file, there)
  }
  const latency = column(findLatencyNames(metric, source.file).tags, percentileName(percentile))
  const rate = column([rateTag], 'avg')
  const end = records.findIndex(({ cells }) => cells.length !== columns.length)
  return mapCollectingErrors(records.slice(0, end < 0 ? undefined : end), ({ line, cells }) => {
    const where = `${source.file}:${line}`
    return {
      where,
      configuration: {},
      load: Object.fromEntries(parameters.map((name, i) => [name, parseIfNumeric(cells[i]!)])),
      ratePerSecond: parseFigure(cells[rate], columns[rate]!, where),
      latencyMs: parseFigure(cells[latency], columns[latency]!, where),
    }
  })
}

type Statistics = Readonly<Record<string, number | string | null | undefined>>
interface Combination {
  readonly parameters?: Readonly<Record<string, string | number>>
  readonly metrics?: Readonly<Record<string, Statistics>>
}
/**
 * The part of the JSON that is read. An aggregate of runs is one combination. Before 0.2 the
 * metrics were under `records`.
 */
interface Report extends Combination {
  readonly per_combination_metrics?: readonly Combination[]
  readonly records?: Readonly<Record<string, Statistics>>
  readonly input_config?: {
    readonly endpoint?: { readonly model_names?: readonly string[] }
    readonly loadgen?: { readonly concurrency?: number; readonly request_rate?: number }
  }
}

function readJson(source: Source, { metric, percentile }: ImportOptions): ToolPoint[] | undefined {
  const { file } = source
  const report = parseJson(source) as Report
  const { tags } = findLatencyNames(metric, file)
  const name = percentileName(percentile)
  const swept = Array.isArray(report.per_combination_metrics)
    ? (report.per_combination_metrics as readonly Combination[])
    : undefined
  const isAggregate = report.metrics?.[`${rateTag}_avg`] !== undefined
  if (swept || isAggregate) {
    return mapCollectingErrors(swept ?? [{ metrics: report.metrics }], (combination, i) => {
      const where = swept ? `${file}: per_combination_metrics[${i}]` : `${file}: metrics`
      const { parameters = {}, metrics = {} } = requireObject(combination, where)
      const mean = (found: readonly string[], statistic: string) => {
        const key = found
          .flatMap((tag) => [`${tag}_${statistic}`, `${tag}_${statistic}_ms`])
          .find((k) => metrics[k])
        return parseFigure(
          requireFound(
            metrics[key ?? '']?.mean ?? undefined,
            `metric ${found[0]}_${statistic}`,
            where,
            Object.keys(metrics),
          ),
          found[0]!,
          where,
        )
      }
      const count = (tag: string) => Number(metrics[`${tag}_avg`]?.mean ?? 0)
      const failed = count('error_request_count')
      return {
        where,
        configuration: {},
        load: parameters,
        ratePerSecond: mean([rateTag], 'avg'),
        latencyMs: mean(tags, name),
        // No error count does not mean no errors.
        ...(failed > 0 && toErrorRate(failed, count('request_count'))),
      }
    })
  }
  const metrics = (report.records ?? report) as Readonly<Record<string, Statistics>>
  const rate = metrics[rateTag]
  if (rate?.avg === undefined) return undefined
  const latency = requireFound(
    tags.map((tag) => metrics[tag]).find((found) => found !== undefined),
    `metric ${tags[0]}`,
    file,
    Object.keys(metrics),
  )
  const percentiles = Object.keys(latency).filter((key) => /^p\d/.test(key))
  const { concurrency, request_rate } = report.input_config?.loadgen ?? {}
  const model = report.input_config?.endpoint?.model_names?.[0]
  return [
    {
      where: file,
      configuration: {},
      load: {
        ...(concurrency === undefined ? {} : { concurrency }),
        ...(request_rate === undefined ? {} : { requestRate: request_rate }),
      },
      ratePerSecond: parseFigure(rate.avg ?? undefined, rateTag, file),
      latencyMs: parseFigure(
        requireFound(latency[name] ?? undefined, `${name} of ${tags[0]}`, file, percentiles),
        name,
        file,
      ),
      ...(typeof model === 'string' && { model }),
      ...toErrorRate(
        Number(metrics.error_request_count?.avg ?? 0),
        Number(metrics.request_count?.avg ?? 0),
      ),
    },
  ]
}

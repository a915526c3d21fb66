/**
 * GuideLLM: benchmarks.csv (three rows of headings; one row before 0.4) and benchmarks.json, an
 * entry for each load on one server.
 */

import type { LatencyMetric } from '../../profiler/model/latency-metrics.ts'
import { percentileName } from '../../profiler/model/slo.ts'
import { readHeaderLine, readRows, type Source, TableError } from '../../trials/table-text.ts'
import {
  type ImportOptions,
  mapCollectingErrors,
  parseFigure,
  parseJson,
  requireFound,
  requireObject,
  type ToolPoint,
  type ToolReader,
  toErrorRate,
} from './tool-point.ts'

interface LatencyNames {
  readonly heading: readonly [string, string]
  readonly plain: string
  readonly key: string
  readonly unitMs: number
}

/**
 * Names of each latency: heading of the CSV, heading before 0.4, metric of the JSON; and its unit in
 * ms. The inter-token latency excludes the first token, like our `tpot`.
 */
const latencies: Partial<Record<LatencyMetric, LatencyNames>> = {
  e2e: {
    heading: ['Request Latency', 'Successful Sec'],
    plain: 'Request latency',
    key: 'request_latency',
    unitMs: 1000,
  },
  ttft: {
    heading: ['Time to First Token', 'Successful ms'],
    plain: 'Time to first token ms',
    key: 'time_to_first_token_ms',
    unitMs: 1,
  },
  tpot: {
    heading: ['Inter Token Latency', 'Successful ms'],
    plain: 'Inter token latency ms',
    key: 'inter_token_latency_ms',
    unitMs: 1,
  },
}
const findLatencyNames = (metric: LatencyMetric, file: string) =>
  requireFound(
    latencies[metric],
    `${metric} among what GuideLLM reports`,
    file,
    Object.keys(latencies),
  )

/** Percentiles in the CSV's lists, in order; the median has its own column. */
const listedPercentiles = [
  'min',
  'p0.1',
  'p1',
  'p5',
  'p10',
  'p25',
  'p75',
  'p90',
  'p95',
  'p99',
  'max',
]
/** The list as it is written in headings: '[min, 0.1, 1, ..., max]'. */
const listHeading = `[${listedPercentiles.map((name) => name.replace(/^p/, '')).join(', ')}]`

export const guidellm: ToolReader = {
  tool: 'GuideLLM',
  language: true,
  read(source, options) {
    if (/^\s*\{/.test(source.text)) return readJson(source, options)
    if (/^"?Run Info"?[,;\t|]/.test(readHeaderLine(source))) return readCsv(source, options, 3)
    if (readHeaderLine(source).includes('Successful Requests per second mean'))
      return readCsv(source, options, 1)
    return undefined
  },
}

function readCsv(
  source: Source,
  { metric, percentile }: ImportOptions,
  headings: 1 | 3,
): ToolPoint[] {
  const records = readRows(source).rows
  const columns = records[0]!.cells.map((_, i) =>
    records.slice(0, headings).map((row) => row.cells[i] ?? ''),
  )
  const { heading, plain, unitMs } = findLatencyNames(metric, source.file)
  const at = (three: readonly string[], one: string) =>
    columns.findIndex((names) => names.join('|') === (headings === 3 ? three.join('|') : one))
  const column = (three: readonly string[], one: string) => {
    const found = at(three, one)
    return requireFound(
      found < 0 ? undefined : found,
      `column '${headings === 3 ? three.join(' / ') : one}'`,
      source.file,
      [],
    )
  }
  const name = percentileName(percentile)
  const latency =
    name === 'p50'
      ? column([...heading, 'Median'], `Successful ${plain} median`)
      : column([...heading, 'Percentiles'], `Successful ${plain} ${listHeading}`)
  const rate = column(
    ['Server Throughput', 'Successful Requests/Sec', 'Mean'],
    'Successful Requests per second mean',
  )
  const concurrency = column(
    ['Server Throughput', 'Successful Concurrency', 'Mean'],
    'Successful Request concurrency mean',
  )
  const errored = at(['Request Counts', 'Errored', ''], 'Errored Requests')
  const served = at(['Request Counts', 'Successful', ''], 'Successful Requests')
  return mapCollectingErrors(records.slice(headings), ({ line, cells }) => {
    const where = `${source.file}:${line}`
    if (cells.length !== columns.length)
      throw new TableError([
        {
          where,
          what: `${cells.length} cells under ${columns.length} columns: GuideLLM omits figures that a load does not have`,
          hint: 'give its benchmarks.json instead',
        },
      ])
    const of = name === 'p50' ? cells[latency] : readListedPercentile(cells[latency]!, name, where)
    const [failed, good] = [errored, served].map((i) =>
      i < 0 ? 0 : parseFigure(cells[i], 'a count of requests', where),
    )
    return buildPoint(
      where,
      parseFigure(cells[concurrency], 'concurrency', where),
      parseFigure(cells[rate], 'requests per second', where),
      {
        latencyMs: parseFigure(of, `${name} of ${plain}`, where) * unitMs,
        failed: failed!,
        good: good!,
      },
    )
  })
}

function readListedPercentile(cell: string, name: string, where: string): string | undefined {
  const at = listedPercentiles.indexOf(name)
  if (at < 0)
    throw new TableError([
      { where, what: `no ${name}`, hint: `it has p50, ${listedPercentiles.join(', ')}` },
    ])
  return cell.replace(/^\[|\]$/g, '').split(',')[at]
}

/** The part of the JSON that is read. */
interface Distribution {
  readonly successful?: {
    readonly mean?: number
    readonly median?: number
    readonly percentiles?: Readonly<Record<string, number>>
  }
}
interface Report {
  readonly benchmarks?: readonly {
    readonly metrics?: Readonly<Record<string, Distribution>> & {
      readonly request_totals?: Readonly<Record<string, number>>
    }
    readonly request_totals?: Readonly<Record<string, number>>
  }[]
}

function readJson(source: Source, { metric, percentile }: ImportOptions): ToolPoint[] | undefined {
  const { file } = source
  const { benchmarks } = parseJson(source) as Report
  if (
    !Array.isArray(benchmarks) ||
    !benchmarks.some(
      (b: NonNullable<Report['benchmarks']>[number]) => b?.metrics?.requests_per_second,
    )
  )
    return undefined
  const { key, unitMs } = findLatencyNames(metric, file)
  const name = percentileName(percentile)
  return mapCollectingErrors(benchmarks as NonNullable<Report['benchmarks']>, (benchmark, i) => {
    const where = `${file}: benchmarks[${i}]`
    const { metrics = {}, request_totals } = requireObject(benchmark, where)
    const { successful } = requireFound<Distribution>(
      metrics[key],
      `metric ${key}`,
      where,
      Object.keys(metrics),
    )
    const known: Readonly<Record<string, number | undefined>> = {
      p50: successful?.median,
      ...successful?.percentiles,
    }
    // p0.1 and p99.9 are p001 and p999 there.
    const asKey = name === 'p99.9' ? 'p999' : name
    const totals = metrics.request_totals ?? request_totals ?? {}
    return buildPoint(
      where,
      parseFigure(metrics.request_concurrency?.successful?.mean, 'request_concurrency', where),
      parseFigure(metrics.requests_per_second?.successful?.mean, 'requests_per_second', where),
      {
        latencyMs:
          parseFigure(
            requireFound(known[asKey], `${asKey} of ${key}`, where, Object.keys(known)),
            asKey,
            where,
          ) * unitMs,
        failed: Number(totals.errored ?? 0),
        good: Number(totals.successful ?? 0),
      },
    )
  })
}

/** Loads are named by their mean concurrency, which every strategy reports. */
function buildPoint(
  where: string,
  concurrency: number,
  ratePerSecond: number,
  {
    latencyMs,
    failed,
    good,
  }: { readonly latencyMs: number; readonly failed: number; readonly good: number },
): ToolPoint {
  const load = { concurrency: Number(concurrency.toPrecision(4)) }
  return { where, configuration: {}, load, ratePerSecond, latencyMs, ...toErrorRate(failed, good) }
}

/**
 * k6: what `--summary-export` writes, what `handleSummary` is given, and the structured summary
 * (`--new-machine-readable-summary` from 1.5 on, the default of 2.x). One run, one load; its
 * metrics are of HTTP requests.
 */
import { percentileName } from '../../profiler/model/slo.ts'
import { type Source, TableError } from '../../trials/table-text.ts'
import {
  type ImportOptions,
  parseFigure,
  parseJson,
  requireFound,
  type ToolPoint,
  type ToolReader,
} from './tool-point.ts'

type MetricValues = Readonly<Record<string, number | undefined>>

/** A summary in one form, whatever version of k6 wrote it. */
interface Summary {
  readonly metrics: Readonly<Record<string, MetricValues>>
  readonly durationS?: number
}

/** The part of the JSON that is read, in any of its three forms. */
interface SummaryDocument {
  /**
   * Figures of a metric under `values` (`handleSummary`), or at once (`--summary-export`).
   */
  readonly metrics?: Readonly<
    Record<
      string,
      (MetricValues & { readonly values?: undefined }) | { readonly values: MetricValues }
    >
  >
  readonly state?: { readonly testRunDurationMs?: number }
  /** The structured summary: a list of metrics with their names. */
  readonly results?: {
    readonly metrics?: readonly { readonly name?: string; readonly values?: MetricValues }[]
  }
  readonly config?: { readonly duration?: number }
}

const latencyName = 'http_req_duration'
const requestsName = 'http_reqs'

export const k6: ToolReader = {
  tool: 'k6',
  read(source, options) {
    if (!/^\s*\{/.test(source.text)) return undefined
    const summary = normaliseSummary(parseJson(source) as SummaryDocument)
    if (!summary?.metrics[requestsName] || !summary.metrics[latencyName]) return undefined
    return [readSummary(source, summary, options)]
  },
}

function normaliseSummary({
  metrics,
  state,
  results,
  config,
}: SummaryDocument): Summary | undefined {
  if (Array.isArray(results?.metrics))
    return {
      metrics: Object.fromEntries(
        results.metrics.map(({ name, values }) => [name ?? '', values ?? {}]),
      ),
      durationS: typeof config?.duration === 'number' ? config.duration : undefined,
    }
  if (typeof metrics !== 'object') return undefined
  const duration = state?.testRunDurationMs
  return {
    metrics: Object.fromEntries(
      Object.entries(metrics).map(([name, found]) => [
        name,
        found?.values ?? (found as MetricValues | undefined) ?? {},
      ]),
    ),
    durationS: duration === undefined ? undefined : duration / 1000,
  }
}

function readSummary(
  { file }: Source,
  { metrics, durationS }: Summary,
  { metric, percentile }: ImportOptions,
): ToolPoint {
  if (metric !== 'e2e')
    throw new TableError([
      { where: file, what: `k6 reports no ${metric}, only whole answers`, hint: 'it has e2e' },
    ])
  const latency = metrics[latencyName]!
  const name = percentileName(percentile)
  const key = name === 'p50' ? 'med' : `p(${name.slice(1)})`
  const there = Object.keys(latency).filter((one) => /^(med|p\()/.test(one))
  const percentileMs = requireFound(
    latency[key] ?? latency[`p(${name.slice(1)})`],
    `${key} of ${latencyName} (k6 run --summary-trend-stats 'med,${key}' reports it)`,
    file,
    there,
  )
  const { count, rate: written } = metrics[requestsName]!
  const requests = parseFigure(count, `${requestsName}.count`, file)
  const rate = parseFigure(
    written ?? (durationS === undefined ? undefined : requests / durationS),
    `${requestsName}.rate`,
    file,
  )
  const errorRate = computeFailedShare(metrics.http_req_failed)
  const vus = metrics.vus_max?.max ?? metrics.vus_max?.value
  return {
    where: file,
    configuration: {},
    load: vus === undefined ? {} : { vus },
    ratePerSecond: rate * (1 - (errorRate ?? 0)),
    latencyMs: parseFigure(percentileMs, key, file),
    ...(errorRate === undefined ? describeChecks(metrics.checks) : { errorRate }),
    requests,
    seconds: durationS ?? requests / rate,
  }
}

/** Share of requests that failed; undefined for k6 before 0.31, which does not count them. */
function computeFailedShare(failed: MetricValues | undefined): number | undefined {
  if (failed === undefined) return undefined
  // --summary-export calls the rate its value.
  const { rate = failed.value, matches, total } = failed
  return rate ?? (matches !== undefined && total ? matches / total : undefined)
}

function describeChecks(checks: MetricValues | undefined): Pick<ToolPoint, 'failureHint'> {
  const { passes, fails } = checks ?? {}
  return passes === undefined || fails === undefined
    ? {}
    : { failureHint: `of its checks ${fails} of ${passes + fails} failed` }
}

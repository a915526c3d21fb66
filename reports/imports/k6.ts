/**
 * k6: what `--summary-export` writes, and what `handleSummary` is given. One run, one load; its
 * metrics are of HTTP requests.
 */
import { percentileName } from '../../profiler/slo.ts'
import { TableError } from './table-error.ts'
import type { Source } from './table-text.ts'
import {
  figure,
  type ImportOptions,
  jsonOf,
  type ToolPoint,
  type ToolReader,
  wanted,
} from './tool-point.ts'

type Figures = Readonly<Record<string, number | undefined>>
/**
 * Only what is read of it. `handleSummary` has the figures of a metric under `values`,
 * `--summary-export` has them at once.
 */
interface Summary {
  readonly metrics?: Readonly<
    Record<string, (Figures & { readonly values?: undefined }) | { readonly values: Figures }>
  >
  readonly state?: { readonly testRunDurationMs?: number }
}

const latencyName = 'http_req_duration'
const requestsName = 'http_reqs'

export const k6: ToolReader = {
  tool: 'k6',
  read(source, options) {
    if (!/^\s*\{/.test(source.text)) return undefined
    const summary = jsonOf(source) as Summary
    const { metrics } = summary
    if (typeof metrics !== 'object' || !metrics[requestsName] || !metrics[latencyName])
      return undefined
    return [readSummary(source, summary, options)]
  },
}

function readSummary(
  { file }: Source,
  { metrics = {}, state }: Summary,
  { metric, percentile }: ImportOptions,
): ToolPoint {
  if (metric !== 'e2e')
    throw new TableError([
      { where: file, what: `k6 reports no ${metric}, only whole answers`, hint: 'it has e2e' },
    ])
  const of = (name: string): Figures => {
    const found = metrics[name]
    return found?.values ?? (found as Figures | undefined) ?? {}
  }
  const latency = of(latencyName)
  const name = percentileName(percentile)
  const key = name === 'p50' ? 'med' : `p(${name.slice(1)})`
  const there = Object.keys(latency).filter((one) => /^(med|p\()/.test(one))
  const told = wanted(
    latency[key] ?? latency[`p(${name.slice(1)})`],
    `${key} of ${latencyName} (k6 run --summary-trend-stats 'med,${key}' reports it)`,
    file,
    there,
  )
  const requests = figure(of(requestsName).count, `${requestsName}.count`, file)
  const failed = of('http_req_failed')
  // The rate of requests that failed; --summary-export calls it value.
  const errorRate = failed.rate ?? failed.value ?? 0
  const vus = of('vus_max').max ?? of('vus_max').value
  const rate = figure(of(requestsName).rate, `${requestsName}.rate`, file)
  return {
    where: file,
    configuration: {},
    load: vus === undefined ? {} : { vus },
    ratePerSecond: rate * (1 - errorRate),
    latencyMs: figure(told, key, file),
    errorRate,
    requests,
    seconds:
      state?.testRunDurationMs === undefined ? requests / rate : state.testRunDurationMs / 1000,
  }
}

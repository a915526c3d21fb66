/** Numbers as people read them: rates, latencies, money, SLOs. */
import type { LatencyMetric, Slo } from '../profiler/types.ts'

/** Three significant digits, no exponent: 0.114, 21.3, 212, 1,830. */
export function significant(value: number): string {
  if (!Number.isFinite(value)) return value > 0 ? 'infinite' : String(value)
  if (value === 0) return '0'
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))))
  return value.toLocaleString('en-US', { maximumFractionDigits: Math.min(digits, 8), useGrouping: true })
}

export const rate = (rps: number): string => `${significant(rps)} req/s`

/** '95 to 105'; 'at least 95' where no load missed the SLO, so that nothing bounds the rate from above. */
export const rateInterval = ([low, high]: readonly [number, number]): string =>
  Number.isFinite(high) ? `${significant(low)} to ${significant(high)}` : `at least ${significant(low)}`

export const latency = (ms: number): string => (Number.isFinite(ms) ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms` : 'no answer')

/** $0.11, $1.85, $110,160: cents, or two significant digits below a dime. */
export function money(dollars: number): string {
  if (!Number.isFinite(dollars)) return '$infinite'
  const small = Math.abs(dollars) < 0.1 && dollars !== 0
  const digits = small ? Math.min(8, 1 - Math.floor(Math.log10(Math.abs(dollars)))) : Math.abs(dollars) >= 1000 ? 0 : 2
  return `$${dollars.toLocaleString('en-US', { minimumFractionDigits: small ? 0 : digits, maximumFractionDigits: digits })}`
}

/** p99, p99.9. */
export const percentileName = (percentile: number): string => `p${Number((percentile * 100).toFixed(4))}`

const metricNames: Readonly<Record<LatencyMetric, string>> = { ttft: 'TTFT', tpot: 'TPOT', e2e: 'E2E' }

/** What an SLO bounds: 'p99', 'TTFT p99'; of a joint one 'p99 of TTFT and TPOT'. */
export function sloName({ percentile, metric, limits }: Slo): string {
  const p = percentileName(percentile)
  if (limits !== undefined) return `${p} of ${limits.map((limit) => metricNames[limit.metric]).join(' and ')}`
  return metric === undefined ? p : `${metricNames[metric]} ${p}`
}

/**
 * 'p99 <= 50 ms', 'TTFT p99 <= 200 ms'; of a joint one 'TTFT <= 200 ms and TPOT <= 30 ms for 99 % of requests'. Under another
 * `limitMs` all limits of a joint SLO stand in the proportion of the first (DistServe's "SLO scale").
 */
export function sloText(slo: Slo): string {
  const { limits, limitMs } = slo
  if (limits === undefined) return `${sloName(slo)} <= ${latency(limitMs)}`
  const scale = limitMs / limits[0]!.limitMs
  const each = limits.map((limit) => `${metricNames[limit.metric]} <= ${latency(limit.limitMs * scale)}`)
  return `${each.join(' and ')} for ${Number((slo.percentile * 100).toFixed(4))} % of requests`
}

/** A latency at the SLO percentile: '43 ms'; of a joint SLO '82 % of the limits'. */
export const sloValue = ({ limits, limitMs }: Slo, ms: number): string =>
  limits === undefined || !Number.isFinite(ms) ? latency(ms) : `${Math.round((100 * ms) / limitMs)} % of the limits`

/** 'TTFT p99 180 ms', 'p99 of TTFT and TPOT at 82 % of the limits'. */
export const sloFigure = (slo: Slo, ms: number): string => `${sloName(slo)}${slo.limits ? ' at' : ''} ${sloValue(slo, ms)}`

/** What an SLO counts, at whatever percentile: 'latency, ms', 'TTFT, ms'; of a joint one the greatest part of a limit, in units of the first. */
export const latencyName = ({ metric, limits }: Slo): string =>
  limits ? `worst limit, as ms of ${metricNames[limits[0]!.metric]}` : metric ? `${metricNames[metric]}, ms` : 'latency, ms'

/** What an axis of SLO latencies shows; of a joint SLO the greatest part of a limit, in units of the first. */
export const sloAxisName = (slo: Slo): string =>
  slo.limits === undefined ? `${sloName(slo)} latency, ms` : `${sloName(slo)}, as ms of ${metricNames[slo.limits[0]!.metric]}`

/** 12 %, 3.4 %. */
export const percent = (share: number): string => `${Number((share * 100).toFixed(Math.abs(share) < 0.095 ? 1 : 0))} %`

/** 2.3x, 12x. */
export const times = (ratio: number): string => `${ratio >= 10 ? Math.round(ratio) : Number(ratio.toFixed(ratio < 1.095 ? 2 : 1))}x`

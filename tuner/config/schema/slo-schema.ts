/** Schema of `slo`: a short form, an object, or a list of limits. */
import { z } from 'zod'
import {
  latencyMetricNames,
  latencyMetrics,
  mapMetrics,
} from '../../../profiler/model/latency-metrics.ts'
import {
  joinLimits,
  parseClassSlo,
  parseSlo,
  parseSloLimit,
  parseSloPercentile,
  type SloEntry,
} from '../values/parse-slo.ts'
import { formatDuration, formatPercentile } from '../values/units.ts'
import { choice, createCodec, createQuantity, optional, share } from './schema-parts.ts'

const percentile = createQuantity(parseSloPercentile, 'a percentile such as p99', formatPercentile)
const latencyLimit = createQuantity(parseSloLimit, 'a duration such as 50ms, 2s', formatDuration)

const sloKeys = z.strictObject({
  percentile: optional(
    percentile,
    'percentile of the latencies that must meet the limit, or share of requests that must meet every limit; default: p99',
  ),
  limit: optional(latencyLimit, 'latency limit, e.g. 50ms'),
  errorRate: optional(share, 'maximum share of failed requests; default: 0.1%'),
  metric: optional(
    choice(latencyMetricNames, 'a latency'),
    `latency metric, for streamed answers: ${latencyMetricNames.map((metric) => `${metric} (${latencyMetrics[metric].what})`).join(', ')}; default: e2e`,
  ),
  ...mapMetrics((metric) =>
    optional(
      latencyLimit,
      `for streamed answers: limit of ${latencyMetrics[metric].what}; a request must meet all limits`,
    ),
  ),
})
const sloListItem = z.strictObject({
  metric: choice(latencyMetricNames, 'a latency').describe('latency that the limit is about'),
  limit: latencyLimit.describe('its limit'),
  percentile: optional(percentile, 'share of requests that must meet all limits'),
  errorRate: optional(share, 'maximum share of failed requests'),
})
const sloList = createCodec(
  z
    .array(
      z.union([createQuantity(parseSlo, 'an SLO such as ttft<200ms'), sloListItem], {
        error: 'expected {metric, limit} or ttft<200ms',
      }),
    )
    .min(1, { error: 'expected at least one limit' }),
  (listed): SloEntry => joinLimits(listed),
).describe('limits of a joint SLO: a request must meet every one')
export const slo = z.union(
  [createQuantity(parseSlo, 'an SLO such as 50ms (p99) or p95<80ms'), sloKeys, sloList],
  {
    error:
      'expected an SLO such as 50ms, p95<80ms, or {percentile, limit, errorRate}, or a list of {metric, limit}',
  },
)

/** Limits of a class of requests. */
export const classSlo = z.union(
  [
    createQuantity(parseClassSlo, 'limits such as ttft<300ms tpot<30ms'),
    z.strictObject(
      mapMetrics((metric) => optional(latencyLimit, `limit of ${latencyMetrics[metric].what}`)),
    ),
  ],
  { error: 'expected limits such as ttft<300ms tpot<30ms, or {ttft, tpot, e2e}' },
)

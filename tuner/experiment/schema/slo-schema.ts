/** The `slo` of the experiment file: a short form, an object, or a list of limits. */
import { z } from 'zod'
import {
  byMetric,
  latencyMetricNames,
  latencyMetrics,
} from '../../../profiler/model/latency-metrics.ts'
import {
  joinedSlo,
  parseClassSlo,
  parseSlo,
  parseSloLimit,
  parseSloPercentile,
  type SloEntry,
} from '../parse-slo.ts'
import { UnitError } from '../units.ts'
import { choice, quantity, share } from './schema-parts.ts'

const percentile = quantity(parseSloPercentile, 'a percentile such as p99')
const latencyLimit = quantity(parseSloLimit, 'a duration such as 50ms, 2s')

const sloKeys = z.strictObject({
  percentile: percentile
    .optional()
    .describe(
      'which percentile of the latencies must keep the limit, or share of requests every limit; default p99',
    ),
  limit: latencyLimit.optional().describe('the latency it must stay at or below, e.g. 50ms'),
  errorRate: share.optional().describe('highest tolerated share of failed requests, default 0.1%'),
  metric: choice(latencyMetricNames, 'a latency')
    .optional()
    .describe(
      `of streamed answers: ${latencyMetricNames.map((metric) => `${metric} (${latencyMetrics[metric].what})`).join(', ')}; default e2e`,
    ),
  ...byMetric((metric) =>
    latencyLimit
      .optional()
      .describe(
        `of streamed answers: limit of ${latencyMetrics[metric].what}; a request must keep all limits`,
      ),
  ),
})
const sloListed = z.strictObject({
  metric: choice(latencyMetricNames, 'a latency'),
  limit: latencyLimit,
  percentile: percentile.optional(),
  errorRate: share.optional(),
})
const sloList = z
  .array(
    z.union([quantity(parseSlo, 'an SLO such as ttft<200ms'), sloListed], {
      error: 'expected {metric, limit} or ttft<200ms',
    }),
  )
  .min(1, { error: 'expected at least one limit' })
  .transform((listed, context): SloEntry => {
    try {
      return joinedSlo(listed)
    } catch (error) {
      if (!(error instanceof UnitError)) throw error
      context.addIssue({ code: 'custom', message: error.message, params: { hint: error.hint } })
      return z.NEVER
    }
  })
  .describe('limits of a joint SLO: a request must keep every one')
export const slo = z.union(
  [quantity(parseSlo, 'an SLO such as 50ms (p99) or p95<80ms'), sloKeys, sloList],
  {
    error:
      'expected an SLO such as 50ms, p95<80ms, or {percentile, limit, errorRate}, or a list of {metric, limit}',
  },
)

/** Of a class of requests. */
export const classSlo = z.union(
  [
    quantity(parseClassSlo, 'limits such as ttft<300ms tpot<30ms'),
    z.strictObject(
      byMetric((metric) =>
        latencyLimit.optional().describe(`limit of ${latencyMetrics[metric].what}`),
      ),
    ),
  ],
  { error: 'expected limits such as ttft<300ms tpot<30ms, or {ttft, tpot, e2e}' },
)

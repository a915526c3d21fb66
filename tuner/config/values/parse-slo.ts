/** Parses every written form of an SLO into one entry, and builds the SLO from it. */
import { type LatencyMetric, latencyMetricNames } from '../../../profiler/model/latency-metrics.ts'
import type { Slo, SloLimit } from '../../../profiler/model/slo.ts'
import { defaults } from '../names.ts'
import { parseSloParts, splitSloText } from './slo-text.ts'
import { parseDurationMs, parsePercentile, UnitError } from './units.ts'

/**
 * `limit` applies to `metric` (default: the whole answer). Each metric may have its own limit. All
 * limits must be met together.
 */
export interface SloEntry extends Readonly<Partial<Record<LatencyMetric, number>>> {
  readonly percentile?: number
  readonly limit?: number
  readonly errorRate?: number
  readonly metric?: LatencyMetric
}

const singlePercentileHint =
  'a request is good when it meets every limit, so there is one share of good requests: write the percentile once'

/**
 * 'p99'.
 * @throws UnitError, also for several percentiles
 */
export function parseSloPercentile(input: string | number): number {
  if (typeof input === 'string' && input.includes(','))
    throw new UnitError(`several percentiles: ${input}`, singlePercentileHint)
  return parsePercentile(input)
}

/**
 * '200ms'.
 * @throws UnitError, also for two limits of one metric
 */
export function parseSloLimit(input: string | number): number {
  if (typeof input === 'string' && input.includes(','))
    throw new UnitError(`several limits for one latency: ${input}`, 'use only the stricter one')
  return parseDurationMs(input)
}

/**
 * '50ms' → p99 ≤ 50 ms; 'p95<80ms', 'p99.9 <= 1s'; 'ttft p95<300ms'; 'p90 ttft<200ms tpot<30ms'.
 * @throws UnitError
 */
export function parseSlo(input: string | number): SloEntry {
  const parts = parseSloParts(String(input))
  return { percentile: parseSloPercentile(parts.percentile), ...parseLimits(parts) }
}

function parseLimits(parts: ReturnType<typeof splitSloText>): SloEntry {
  if (parts.limit !== undefined)
    return { ...(parts.metric && { metric: parts.metric }), limit: parseSloLimit(parts.limit) }
  return Object.fromEntries(
    latencyMetricNames.flatMap((name) =>
      parts[name] === undefined ? [] : [[name, parseSloLimit(parts[name])] as const],
    ),
  )
}

/**
 * Parses the limits of a class of requests: 'ttft<300ms tpot<30ms'.
 * @throws UnitError; for a percentile too
 */
export function parseClassSlo(input: string | number): SloEntry {
  const parts = splitSloText(String(input))
  if (parts.percentile !== undefined)
    throw new UnitError(
      `a class with a percentile: ${input}`,
      'each class must meet the percentile of `slo`: write only the limits',
    )
  return groupByMetric(listLimits(parseLimits(parts)))
}

/**
 * A list of limits, one a metric, as one entry.
 * @throws UnitError
 */
export function joinLimits(listed: readonly SloEntry[]): SloEntry {
  const limits = listed.flatMap(listLimits)
  const twice = limits.find(({ metric }, i) =>
    limits.slice(0, i).some((before) => before.metric === metric),
  )
  if (twice) throw new UnitError(`two limits for ${twice.metric}`, 'use only the stricter one')
  const requireSingle = (name: 'percentile' | 'errorRate'): number | undefined => {
    const distinct = [...new Set(listed.flatMap((each) => each[name] ?? []))]
    if (distinct.length > 1 && name === 'percentile')
      throw new UnitError(
        `several percentiles: ${distinct.map((p) => `p${Number((100 * p).toPrecision(12))}`).join(', ')}`,
        singlePercentileHint,
      )
    if (distinct.length > 1)
      throw new UnitError('several error rates', 'all limits share one error rate: write it once')
    return distinct[0]
  }
  const [percentile, errorRate] = [requireSingle('percentile'), requireSingle('errorRate')]
  return {
    ...(percentile !== undefined && { percentile }),
    ...(errorRate !== undefined && { errorRate }),
    ...groupByMetric(limits),
  }
}

const groupByMetric = (limits: readonly SloLimit[]): SloEntry =>
  Object.fromEntries(limits.map(({ metric, limitMs }) => [metric, limitMs]))

/** Lists all limits of an entry; a metric's own limit takes precedence over `limit`. */
export function listLimits(entry: SloEntry): SloLimit[] {
  const { limit, metric = 'e2e' } = entry
  return latencyMetricNames.flatMap((name) => {
    const limitMs = entry[name] ?? (name === metric ? limit : undefined)
    return limitMs === undefined ? [] : [{ metric: name, limitMs }]
  })
}

/**
 * One limit is an SLO on its metric; several, or the limit of a class, are a joint SLO. `limits`
 * must not be empty.
 */
export function createSlo(
  limits: readonly SloLimit[],
  percentile: number,
  maxErrorRate: number,
): Slo {
  const [{ metric, limitMs, requestClass }] = limits as readonly [SloLimit, ...SloLimit[]]
  if (limits.length > 1 || requestClass !== undefined)
    return { percentile, limitMs, maxErrorRate, limits }
  return { percentile, limitMs, maxErrorRate, ...(metric !== 'e2e' && { metric }) }
}

/**
 * Parses the SLO of a text, p99 by default.
 * @param maxErrorRate 0-1
 * @throws UnitError
 */
export function parseSloText(text: string, maxErrorRate: number): Slo {
  const entry = parseSlo(text)
  return createSlo(
    listLimits(entry),
    entry.percentile ?? parsePercentile(defaults.percentile),
    maxErrorRate,
  )
}

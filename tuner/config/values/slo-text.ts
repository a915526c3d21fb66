/**
 * Splits the short form of an SLO into its parts. Used by the schema and by the flags, which load
 * no schema.
 */
import {
  type LatencyMetric,
  latencyMetricNames,
  latencyMetrics,
} from '../../../profiler/model/latency-metrics.ts'
import { defaults } from '../names.ts'

/**
 * One limit, of a metric or of the whole answer; or limits by metric, all of which a good request
 * meets.
 */
type SloParts = { readonly percentile: string } & LimitParts
type OptionalSloParts = { readonly percentile?: string } & LimitParts
type LimitParts =
  | { readonly metric?: LatencyMetric; readonly limit: string }
  /** The explicit `limit` lets these replace an SLO with one limit. */
  | (Readonly<Partial<Record<LatencyMetric, string>>> & { readonly limit: undefined })

/**
 * Names of metrics, including those of `--goodput` in vLLM and GenAI-Perf: e2el, request_latency,
 * ...
 */
const metricNames: Readonly<Record<string, LatencyMetric>> = Object.fromEntries(
  latencyMetricNames.flatMap((metricPattern) =>
    [metricPattern, ...latencyMetrics[metricPattern].aliases].map((name) => [name, metricPattern]),
  ),
)
const metricPattern = new RegExp(String.raw`\b(${Object.keys(metricNames).join('|')})\b`, 'gi')

/**
 * '50ms' → p99 and 50ms; 'p95<80ms', 'p99.9 <= 1s', 'p99=50ms'; 'ttft p95<300ms', 'tpot<40ms'.
 * Several limits are a joint SLO: 'p90 ttft<200ms tpot<30ms', or as vLLM's --goodput takes them, in
 * ms: 'ttft:200 tpot:30'. The parts are not validated.
 */
export function parseSloParts(text: string): SloParts {
  const { percentile = defaults.percentile, ...parts } = splitSloText(text)
  return { percentile, ...parts }
}

/** The parts of a text; the percentile is absent if the text has none. */
export function splitSloText(text: string): OptionalSloParts {
  const named = [...text.matchAll(metricPattern)]
  if (named.length > 1 || (named.length > 0 && text.includes(':')))
    return splitJointSlo(text, named)
  const [found] = named
  const comparison = found === undefined ? text : text.replace(found[0], ' ')
  const { percentile, limit } = splitComparison(comparison)
  const metric = found && metricNames[found[0].toLowerCase()]
  return {
    ...(metric && { metric }),
    ...(percentile !== undefined && { percentile }),
    limit,
  }
}

/**
 * A percentile may precede all limits or one of them. Different ones are kept, and the schema
 * rejects them.
 */
function splitJointSlo(text: string, named: readonly RegExpMatchArray[]): OptionalSloParts {
  const limits: Partial<Record<LatencyMetric, string>> = {}
  const percentiles = new Set<string>()
  const before = text
    .slice(0, named[0]?.index ?? text.length)
    .replaceAll(/[,;\s]+/g, ' ')
    .trim()
  if (before !== '') percentiles.add(before.replace(/\s+of$/, ''))
  for (const [i, found] of named.entries()) {
    const part = text
      .slice(found.index! + found[0].length, named[i + 1]?.index)
      .replaceAll(/[,;]/g, ' ')
      .replace(/\s+and\s*$/, '')
      .trim()
    const limitAfterColon = /^:\s*(.*)$/s.exec(part)?.[1]
    const { percentile, limit } =
      limitAfterColon === undefined
        ? splitComparison(part)
        : {
            percentile: undefined,
            limit: /^[\d.]+$/.test(limitAfterColon) ? `${limitAfterColon}ms` : limitAfterColon,
          }
    const name = metricNames[found[0].toLowerCase()]!
    limits[name] = limits[name] === undefined ? limit : `${limits[name]}, ${limit}`
    if (percentile !== undefined) percentiles.add(percentile)
  }
  return {
    limit: undefined,
    ...limits,
    ...(percentiles.size > 0 && { percentile: [...percentiles].join(', ') }),
  }
}

/** 'p99<50ms', 'p99 = 50ms', 'p99: 50ms', 'p99 latency <= 50ms', 'p99 50ms', '50ms p99'. */
function splitComparison(text: string): { percentile?: string; limit: string } {
  const [, before = '', after] = /^([^<=≤:]*)(?:<=|<|≤|=|:)(.*)$/s.exec(text) ?? []
  if (after !== undefined)
    return {
      percentile: before.replace(/\blatency\b/i, '').trim() || undefined,
      limit: after.trim(),
    }
  const trimmed = text.trim()
  const { first, limitAfter, limitBefore, last } =
    /^(?<first>p[\d.]+)\s+(?:of\s+)?(?<limitAfter>\d.*)$|^(?<limitBefore>\d.*?)\s+(?<last>p[\d.]+)$/i.exec(
      trimmed,
    )?.groups ?? {}
  return { percentile: first ?? last, limit: limitAfter ?? limitBefore ?? trimmed }
}

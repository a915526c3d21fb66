/** The short form of an SLO, in its parts: for the schema, and for flags, which load no schema. */
import {
  type LatencyMetric,
  latencyMetricNames,
  latencyMetrics,
} from '../../profiler/model/latency-metrics.ts'
import { defaults } from './names.ts'

/**
 * One limit, of the metric or of the whole answer; or limits by metric, all of which a good request
 * keeps.
 */
type SloParts = { readonly percentile: string } & LimitParts
type WrittenParts = { readonly percentile?: string } & LimitParts
type LimitParts =
  | { readonly metric?: LatencyMetric; readonly limit: string }
  /** `limit` is there, so that these replace an SLO of one limit. */
  | (Readonly<Partial<Record<LatencyMetric, string>>> & { readonly limit: undefined })

/** As vLLM's and GenAI-Perf's `--goodput` call them too: e2el, request_latency, ... */
const metricNames: Readonly<Record<string, LatencyMetric>> = Object.fromEntries(
  latencyMetricNames.flatMap((metric) =>
    [metric, ...latencyMetrics[metric].aliases].map((name) => [name, metric]),
  ),
)
const metric = new RegExp(String.raw`\b(${Object.keys(metricNames).join('|')})\b`, 'gi')

/**
 * '50ms' → p99 and 50ms; 'p95<80ms', 'p99.9 <= 1s', 'p99=50ms'; 'ttft p95<300ms', 'tpot<40ms'.
 * Several limits are a joint SLO: 'p90 ttft<200ms tpot<30ms', or as vLLM's --goodput takes them, in
 * ms: 'ttft:200 tpot:30'. Nothing is checked.
 */
export function sloParts(text: string): SloParts {
  const { percentile = defaults.percentile, ...parts } = writtenParts(text)
  return { percentile, ...parts }
}

/** Without a percentile where the text says none. */
export function writtenParts(text: string): WrittenParts {
  const named = [...text.matchAll(metric)]
  if (named.length > 1 || (named.length > 0 && text.includes(':'))) return jointParts(text, named)
  const [found] = named
  const rest = found === undefined ? text : text.replace(found[0], ' ')
  const { percentile, limit } = compared(rest)
  const of = found && metricNames[found[0].toLowerCase()]
  return { ...(of && { metric: of }), ...(percentile !== undefined && { percentile }), limit }
}

/**
 * A percentile may stand before all limits or in one; different ones stay side by side, for the
 * schema to refuse.
 */
function jointParts(text: string, named: readonly RegExpMatchArray[]): WrittenParts {
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
    const bare = /^:\s*(.*)$/s.exec(part)?.[1]
    const { percentile, limit } =
      bare === undefined
        ? compared(part)
        : { percentile: undefined, limit: /^[\d.]+$/.test(bare) ? `${bare}ms` : bare }
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
function compared(text: string): { percentile?: string; limit: string } {
  const [, before = '', after] = /^([^<=≤:]*)(?:<=|<|≤|=|:)(.*)$/s.exec(text) ?? []
  if (after !== undefined)
    return {
      percentile: before.replace(/\blatency\b/i, '').trim() || undefined,
      limit: after.trim(),
    }
  const bare = text.trim()
  const { first, limitAfter, limitBefore, last } =
    /^(?<first>p[\d.]+)\s+(?:of\s+)?(?<limitAfter>\d.*)$|^(?<limitBefore>\d.*?)\s+(?<last>p[\d.]+)$/i.exec(
      bare,
    )?.groups ?? {}
  return { percentile: first ?? last, limit: limitAfter ?? limitBefore ?? bare }
}

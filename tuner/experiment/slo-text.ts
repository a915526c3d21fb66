/** The short form of an SLO, in its parts: for the schema, and for flags, which load no schema. */
import { defaults } from './names.ts'

export interface SloParts {
  readonly metric?: 'e2e' | 'ttft' | 'tpot'
  readonly percentile: string
  readonly limit: string
}

/** '50ms' → p99 and 50ms; 'p95<80ms', 'p99.9 <= 1s'; 'ttft p95<300ms', 'tpot<40ms'. Nothing is checked. */
export function sloParts(text: string): SloParts {
  const found = /\b(e2e|ttft|tpot)\b/i.exec(text)
  const rest = found === null ? text : text.replace(found[0], ' ')
  const metric = found?.[1]?.toLowerCase() as SloParts['metric']
  const [, percentile = '', limit = rest] = /^([^<=≤]*)(?:<=|<|≤)(.*)$/s.exec(rest) ?? []
  return { ...(metric && { metric }), percentile: percentile.trim() || defaults.percentile, limit: limit.trim() }
}

/** Rates of a demand trace as monitoring exports them: units in cells or headings, and JSON. */
import { readNumber } from '../../trials/table-text.ts'

const spanSeconds = { s: 1, m: 60, h: 3600, d: 86_400 } as const

/** Seconds over which a unit counts requests: 'req/s' → 1, 'rpm' → 60. Undefined: not a rate. */
function parseUnitSeconds(unit: string): number | undefined {
  const words = unit.toLowerCase().replaceAll(/[\s_]+/g, ' ')
  // Short: 'rps', 'qpm'. Long: 'requests/s', 'per minute'.
  const [, shortUnit] = /\b[rq]p([smhd])\b/.exec(words) ?? []
  const [, longUnit] =
    /(?:\/|\bper) ?(s|sec|second|m|min|minute|h|hour|d|day)s?\b/.exec(words) ?? []
  const span = shortUnit ?? longUnit?.[0]
  return span === undefined ? undefined : spanSeconds[span as keyof typeof spanSeconds]
}

/**
 * Seconds over which the numbers of a column count requests, by its heading: 'rpm' → 60. 'unknown
 * span' if the heading names a count without a time ('RequestCount', 'requests'). Any other heading
 * is taken for a rate per second, which a trace should have.
 */
export function readRateHeading(heading: string): number | 'unknown span' {
  const words = heading.replaceAll(/([a-z])([A-Z])/g, '$1 $2').replaceAll('_', ' ')
  return (
    parseUnitSeconds(words) ??
    (/^ *(http )?(requests?|reqs?|hits|calls|invocations|queries)? *(count|total|sum)?s? *$/i.test(
      words,
    ) && words.trim() !== ''
      ? 'unknown span'
      : 1)
  )
}

/**
 * Requests per second of a cell: '120', '120 req/s', '1.2 K req/s', '600 rpm'. NaN: not a rate.
 * @param perSeconds seconds over which a number without a unit counts requests
 */
export function readRate(cell: string, perSeconds = 1): number {
  const plainNumber = readNumber(cell)
  if (!Number.isNaN(plainNumber)) return plainNumber / perSeconds
  const [, number, thousands = '', unit = ''] =
    /^\s*([\d.]+)\s*([kKM]?)(?![a-z])\s*(.*?)\s*$/.exec(cell) ?? []
  const seconds =
    unit === ''
      ? perSeconds
      : /^(req|reqs|requests?)?\s*(\/|per)|^[rq]p[smhd]$/i.test(unit)
        ? parseUnitSeconds(unit)
        : undefined
  if (seconds === undefined) return Number.NaN
  return (
    (readNumber(number) * { '': 1, k: 1e3, K: 1e3, M: 1e6 }[thousands as '' | 'k' | 'K' | 'M']) /
    seconds
  )
}

/**
 * Reads the series of an answer of Prometheus to query_range, each a list of time and value;
 * undefined for other JSON.
 */
export function readPrometheusSeries(
  text: string,
): (readonly (readonly [number, string])[])[] | undefined {
  let answer: unknown
  try {
    answer = JSON.parse(text)
  } catch {
    return undefined
  }
  const { data } = (answer ?? {}) as {
    data?: { resultType?: string; result?: { values: [number, string][] }[] }
  }
  if (data?.resultType !== 'matrix' || !Array.isArray(data.result)) return undefined
  return data.result.map(({ values }) => values)
}

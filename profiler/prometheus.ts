/**
 * A server's own metrics in Prometheus text format (version 0.0.4), and what they say of a stretch
 * of time.
 */

import type { AskedMetric, MetricReading } from './model/server-metric.ts'

/** ':8002/metrics', ':8002' */
export const ownPort = /^:(\d{1,5})(\/.*)?$/

/** One look at a server's metrics. */
export interface Scrape {
  readonly atS: number
  readonly text: string
}

interface Series {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/**
 * A name with its labels, and what stands after them. Read in one pass: a page may be a mistake of
 * megabytes, or meant to keep its reader busy.
 */
function namedSeries(
  text: string,
):
  | { readonly name: string; readonly labels: Record<string, string>; readonly rest: string }
  | undefined {
  const [name] = /^[a-zA-Z_:][\w:]*/.exec(text) ?? []
  if (name === undefined) return undefined
  const after = text.slice(name.length)
  const braces = after.trimStart()
  if (!braces.startsWith('{')) return { name, labels: {}, rest: after }
  const end = closingBrace(braces)
  return end < 0
    ? undefined
    : { name, labels: labelsOf(braces.slice(1, end)), rest: ` ${braces.slice(end + 1)}` }
}

function closingBrace(text: string): number {
  let quoted = false
  for (let i = 1; i < text.length; i++) {
    if (quoted && text[i] === '\\') i++
    else if (text[i] === '"') quoted = !quoted
    else if (text[i] === '}' && !quoted) return i
  }
  return -1
}

/** 'model="bert",gpu="0"'; what is none ends them. */
function labelsOf(text: string): Record<string, string> {
  const pairs: (readonly [string, string])[] = []
  const key = /[\s,]*([a-zA-Z_]\w*)\s*=\s*"/y
  for (let found = key.exec(text); found; found = key.exec(text)) {
    let value = ''
    let at = key.lastIndex
    for (; at < text.length && text[at] !== '"'; at++) {
      if (text[at] !== '\\') value += text[at]
      else value += text[++at] === 'n' ? '\n' : (text[at] ?? '')
    }
    pairs.push([found[1]!, value])
    key.lastIndex = at + 1
  }
  return Object.fromEntries(pairs)
}

/** One line of a page: a value, perhaps the time of it, perhaps an example of what was observed. */
function seriesIn(line: string): Series[] {
  const series = namedSeries(line)
  if (series === undefined || !/^\s/.test(series.rest)) return []
  const { name, labels, rest } = series
  const [value = '', time = '0', ...more] = rest.split(' # ', 1)[0]!.trim().split(/\s+/)
  if (value === '' || more.length > 0 || Number.isNaN(Number(time))) return []
  return [{ name, labels, value: numberOf(value) }]
}

/** '+Inf', '-Inf', 'NaN' or a number as Prometheus writes them. */
const numberOf = (text: string): number => Number(text.replace(/^([+-]?)Inf$/i, '$1Infinity'))

const seriesOf = (text: string): Series[] => text.split('\n').flatMap(seriesIn)

const typeOf = (text: string, name: string): string | undefined =>
  text
    .split('\n')
    .map((line) => /^#\s*TYPE\s+(\S+)\s+(\S+)/.exec(line))
    .find((found) => found?.[1] === name)?.[2]

/** Of as many as a page has: more than may be arguments. */
const largest = (values: readonly number[]): number =>
  values.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY)

/**
 * Of one look: the largest of a metric's series (ranks of a server tell the same each); undefined
 * where there is none.
 */
export function seriesValue(text: string, name: string): number | undefined {
  const values = seriesOf(text).flatMap((one) =>
    one.name === name && Number.isFinite(one.value) ? [one.value] : [],
  )
  return values.length === 0 ? undefined : largest(values)
}

/**
 * The series that a text names, 'queue_depth{model="bert"}', as `metricText` writes it; undefined
 * where it is none.
 */
export function metricOfText(text: string): Pick<AskedMetric, 'name' | 'labels'> | undefined {
  const series = namedSeries(text)
  if (series === undefined || series.rest.trim() !== '') return undefined
  const { name, labels } = series
  return { name, ...(Object.keys(labels).length > 0 && { labels }) }
}

/**
 * Whether a page has a metric, be it without a number yet: a series of that name and labels, what a
 * histogram or summary observed, or a declared type of which there is no series yet.
 */
export function hasMetric(
  { name, labels = {} }: Pick<AskedMetric, 'name' | 'labels'>,
  text: string,
): boolean {
  const { quantile, ...others } = labels
  const parts = quantile === undefined ? [`${name}_sum`, `${name}_count`] : [`${name}_bucket`]
  const series = seriesOf(text)
  const named = series.filter((one) => one.name === name || parts.includes(one.name))
  if (named.length === 0) return typeOf(text, name) !== undefined
  return named.some((one) => labelsMatch(one, one.name === name ? labels : others))
}

/** Names that can be asked for. */
export const metricNames = (text: string): string[] => [
  ...new Set(seriesOf(text).map(({ name }) => name)),
]

/** The looks at one server, in order of time, at least two. */
export type Looks = readonly Scrape[]

/**
 * What a metric was between the first and the last look, of one server or of several that share a
 * load.
 *
 * - gauge: mean over the looks of the largest series (and server);
 * - counter: increase per second, all series and servers together;
 * - histogram, summary: mean of what was observed in between, from `_sum` and `_count`;
 * - with a label `quantile`: of a summary the mean of that series, of a histogram the quantile of
 *   what was observed in between, interpolated in its bucket as Prometheus does.
 *
 * @returns undefined where the pages do not say: no such metric or labels, nothing observed, no
 *   number (NaN), or one of several servers lacks the gauge
 */
export function readingOf(
  asked: Pick<AskedMetric, 'name' | 'labels'>,
  servers: readonly Looks[],
): number | undefined {
  const { name, labels = {} } = asked
  const hasSeries = (of: string, looks: Looks) =>
    valuesOf({ name: of, labels }, looks.at(-1)!.text).length > 0
  const having = servers.filter((looks) => hasSeries(name, looks))
  if (labels.quantile !== undefined && having.length === 0) return observedQuantile(asked, servers)
  if (labels.quantile === undefined && servers.some((looks) => isObserved(name, looks)))
    return observedMean(asked, servers)
  const [there] = having
  if (there === undefined) return undefined
  if (labels.quantile === undefined && typeOf(there.at(-1)!.text, name) === 'summary')
    return undefined
  if (counts(name, there.at(-1)!.text))
    return sum(servers.map((looks) => grownOf(asked, looks) / (looks.at(-1)!.atS - looks[0]!.atS)))
  if (having.length < servers.length) return undefined
  const means = servers.map((looks) => meanOf(asked, looks))
  return means.some(Number.isNaN) ? undefined : Math.max(...means)
}

const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0)

/** Whether pages have a sum and a count of what a histogram or summary observed. */
const isObserved = (name: string, looks: Looks): boolean =>
  [`${name}_sum`, `${name}_count`].every((part) =>
    seriesOf(looks.at(-1)!.text).some((one) => one.name === part),
  )

function observedMean(
  { name, labels }: Pick<AskedMetric, 'name' | 'labels'>,
  servers: readonly Looks[],
): number | undefined {
  const [total, observed] = [`${name}_sum`, `${name}_count`].map((part) =>
    sum(servers.map((looks) => grownOf({ name: part, labels }, looks))),
  ) as [number, number]
  return observed > 0 && Number.isFinite(total) ? total / observed : undefined
}

/** Of a histogram's buckets. @returns undefined without buckets, observations or a quantile 0-1 */
function observedQuantile(
  { name, labels = {} }: Pick<AskedMetric, 'name' | 'labels'>,
  servers: readonly Looks[],
): number | undefined {
  const { quantile, ...others } = labels
  const bucket = `${name}_bucket`
  const bounds = new Set(
    servers.flatMap((looks) =>
      seriesOf(looks.at(-1)!.text).flatMap((one) => (one.name === bucket ? [one.labels.le!] : [])),
    ),
  )
  const cumulative = [...bounds]
    .map((le) => ({
      upper: numberOf(le),
      count: sum(
        servers.map((looks) => grownOf({ name: bucket, labels: { ...others, le } }, looks)),
      ),
    }))
    .sort((a, b) => a.upper - b.upper)
  const all = cumulative.at(-1)?.count ?? 0
  const rank = Number(quantile) * all
  if (!(all > 0 && rank >= 0 && rank <= all)) return undefined
  const at = cumulative.findIndex(({ count }) => count >= rank)
  const below = cumulative[at - 1] ?? { upper: 0, count: 0 }
  const { upper, count } = cumulative[at]!
  if (!Number.isFinite(upper)) return below.upper
  return count === below.count
    ? upper
    : below.upper + ((upper - below.upper) * (rank - below.count)) / (count - below.count)
}

const labelsMatch = ({ labels }: Series, asked: Readonly<Record<string, string>>): boolean =>
  Object.entries(asked).every(([key, value]) => labels[key] === value)

const valuesOf = (
  { name, labels = {} }: Pick<AskedMetric, 'name' | 'labels'>,
  text: string,
): number[] =>
  seriesOf(text)
    .filter((one) => one.name === name && labelsMatch(one, labels))
    .map(({ value }) => value)

/**
 * Increase of all series together. A series that fell began anew, as where one of a server's
 * processes was restarted: what it counts since then is its increase.
 */
function grownOf(
  { name, labels = {} }: Pick<AskedMetric, 'name' | 'labels'>,
  looks: Looks,
): number {
  const totals = ({ text }: Scrape) =>
    new Map(
      seriesOf(text)
        .filter((one) => one.name === name && labelsMatch(one, labels))
        .map((one) => [JSON.stringify(Object.entries(one.labels).sort()), one.value]),
    )
  const pages = looks.map(totals)
  let grown = 0
  for (const [i, page] of pages.entries())
    if (i > 0)
      for (const [series, value] of page) {
        const before = pages[i - 1]!.get(series) ?? 0
        grown += value >= before ? value - before : value
      }
  return grown
}

/** Of the largest series; NaN where a page has it without a number. */
function meanOf(asked: Pick<AskedMetric, 'name' | 'labels'>, looks: Looks): number {
  const seen = looks.map(({ text }) => valuesOf(asked, text)).filter((values) => values.length > 0)
  return sum(seen.map(largest)) / seen.length
}

/** Whether it is a counter: by its type, else by its name. */
function counts(name: string, text: string): boolean {
  const type = typeOf(text, name) ?? typeOf(text, name.replace(/_(total|sum|count|bucket)$/, ''))
  return type === 'counter' || (type !== 'gauge' && /_(total|sum|count|bucket)$/.test(name))
}

/**
 * By name, labels and all; a figure that is none (NaN, or null of a store) is left out. Undefined
 * where nothing was read.
 */
export function metricValues(
  readings: readonly MetricReading[] = [],
): Readonly<Record<string, number>> | undefined {
  const known = readings.filter(({ value }) => typeof value === 'number' && !Number.isNaN(value))
  return known.length === 0
    ? undefined
    : Object.fromEntries(known.map((reading) => [metricText(reading), reading.value]))
}

/** 'queue_depth{model="bert"}' */
export const metricText = ({ name, labels }: Pick<AskedMetric, 'name' | 'labels'>): string =>
  labels === undefined || Object.keys(labels).length === 0
    ? name
    : `${name}{${Object.entries(labels)
        .map(
          ([key, value]) => `${key}="${value.replace(/[\\"]/g, '\\$&').replaceAll('\n', '\\n')}"`,
        )
        .join(',')}}`

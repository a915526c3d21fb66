/**
 * Parses a server's own metrics in the Prometheus text format (version 0.0.4) and evaluates them
 * over a window, from several scrapes.
 */

import type { MetricReading, ServerMetric } from './model/server-metric.ts'

/** Another port of the server, with an optional path: ':8002/metrics', ':8002'. */
export const portPattern = /^:(\d{1,5})(\/.*)?$/

/** A metric's name, and the labels that its series must have. */
type MetricSelector = Pick<ServerMetric, 'name' | 'labels'>

/** A server's metrics page at one time. */
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
 * Splits a text into a metric's name, its labels and the rest; undefined where it does not begin
 * with a name. It takes linear time, because a server may send megabytes of anything.
 */
function splitSeries(
  text: string,
):
  | { readonly name: string; readonly labels: Record<string, string>; readonly rest: string }
  | undefined {
  const [name] = /^[a-zA-Z_:][\w:]*/.exec(text) ?? []
  if (name === undefined) return undefined
  const afterName = text.slice(name.length)
  const braces = afterName.trimStart()
  if (!braces.startsWith('{')) return { name, labels: {}, rest: afterName }
  const end = findClosingBrace(braces)
  return end < 0
    ? undefined
    : { name, labels: parseLabels(braces.slice(1, end)), rest: ` ${braces.slice(end + 1)}` }
}

function findClosingBrace(text: string): number {
  let isQuoted = false
  for (let i = 1; i < text.length; i++) {
    if (isQuoted && text[i] === '\\') i++
    else if (text[i] === '"') isQuoted = !isQuoted
    else if (text[i] === '}' && !isQuoted) return i
  }
  return -1
}

/** Parses labels, 'model="bert",gpu="0"', up to the first syntax error. */
function parseLabels(text: string): Record<string, string> {
  const pairs: (readonly [string, string])[] = []
  const key = /[\s,]*([a-zA-Z_]\w*)\s*=\s*"/y
  for (let match = key.exec(text); match; match = key.exec(text)) {
    let value = ''
    let i = key.lastIndex
    for (; i < text.length && text[i] !== '"'; i++) {
      if (text[i] !== '\\') value += text[i]
      else value += text[++i] === 'n' ? '\n' : (text[i] ?? '')
    }
    pairs.push([match[1]!, value])
    key.lastIndex = i + 1
  }
  return Object.fromEntries(pairs)
}

/**
 * Parses a line: a series, its value, and an optional timestamp and exemplar. Other lines give
 * none.
 */
function parseLine(line: string): Series[] {
  const series = splitSeries(line)
  if (series === undefined || !/^\s/.test(series.rest)) return []
  const { name, labels, rest } = series
  const [value = '', time = '0', ...more] = rest.split(' # ', 1)[0]!.trim().split(/\s+/)
  if (value === '' || more.length > 0 || Number.isNaN(Number(time))) return []
  return [{ name, labels, value: parseNumber(value) }]
}

/** Parses '+Inf', '-Inf', 'NaN' or a number, as Prometheus writes them. */
const parseNumber = (text: string): number => Number(text.replace(/^([+-]?)Inf$/i, '$1Infinity'))

const parseSeries = (text: string): Series[] => text.split('\n').flatMap(parseLine)

/** Finds the declared type of a metric: 'counter', 'gauge', 'histogram', 'summary'. */
const findType = (text: string, name: string): string | undefined =>
  text
    .split('\n')
    .map((line) => /^#\s*TYPE\s+(\S+)\s+(\S+)/.exec(line))
    .find((match) => match?.[1] === name)?.[2]

/** Finds the largest value. A page may have more values than Math.max takes arguments. */
const findMax = (values: readonly number[]): number =>
  values.reduce((max, value) => Math.max(max, value), Number.NEGATIVE_INFINITY)

/**
 * Finds the largest finite value of a metric's series on one page; undefined without one. Servers
 * of several ranks report the same metric once per rank.
 */
export function findMaxSeriesValue(text: string, name: string): number | undefined {
  const values = parseSeries(text).flatMap((series) =>
    series.name === name && Number.isFinite(series.value) ? [series.value] : [],
  )
  return values.length === 0 ? undefined : findMax(values)
}

/**
 * Parses a metric's name and labels, 'queue_depth{model="bert"}': the inverse of `formatMetric`.
 * Undefined for a text of another form.
 */
export function parseMetric(text: string): MetricSelector | undefined {
  const series = splitSeries(text)
  if (series === undefined || series.rest.trim() !== '') return undefined
  const { name, labels } = series
  return { name, ...(Object.keys(labels).length > 0 && { labels }) }
}

/**
 * Whether a page has a metric, even one without a value yet: a series with that name and these
 * labels, the sum and count of a histogram or summary, or a declared type without series.
 */
export function hasMetric({ name, labels = {} }: MetricSelector, text: string): boolean {
  const { quantile, ...otherLabels } = labels
  const parts = quantile === undefined ? [`${name}_sum`, `${name}_count`] : [`${name}_bucket`]
  const metricSeries = parseSeries(text).filter(
    (series) => series.name === name || parts.includes(series.name),
  )
  if (metricSeries.length === 0) return findType(text, name) !== undefined
  return metricSeries.some((series) =>
    hasLabels(series, series.name === name ? labels : otherLabels),
  )
}

/** Lists the names of all metrics on a page. */
export const listMetricNames = (text: string): string[] => [
  ...new Set(parseSeries(text).map(({ name }) => name)),
]

/** At least two scrapes of one server, in order of time. */
export type Scrapes = readonly Scrape[]

/**
 * Evaluates a metric over the window between the first and the last scrape, for one server or for
 * several that share a load.
 *
 * - Gauge: mean over the scrapes of the largest series, and of the server where that is largest.
 * - Counter: increase per second, summed over all series and servers.
 * - Histogram or summary: mean of the observations in the window, from `_sum` and `_count`.
 * - With a label `quantile`: the mean of that series of a summary. Of a histogram, the quantile of the
 *   observations in the window, interpolated within its bucket as Prometheus does.
 *
 * @returns undefined without a value: no such metric or labels, no observation, NaN, or a gauge that
 *   one of several servers lacks
 */
export function evaluateMetric(
  metric: MetricSelector,
  servers: readonly Scrapes[],
): number | undefined {
  const { name, labels = {} } = metric
  const reporting = servers.filter(
    (scrapes) => selectValues({ name, labels }, scrapes.at(-1)!.text).length > 0,
  )
  if (labels.quantile !== undefined && reporting.length === 0)
    return computeQuantile(metric, servers)
  if (labels.quantile === undefined && servers.some((scrapes) => hasObservations(name, scrapes)))
    return computeObservedMean(metric, servers)
  const [firstServer] = reporting
  if (firstServer === undefined) return undefined
  if (labels.quantile === undefined && findType(firstServer.at(-1)!.text, name) === 'summary')
    return undefined
  if (isCounter(name, firstServer.at(-1)!.text))
    return sum(
      servers.map(
        (scrapes) => computeIncrease(metric, scrapes) / (scrapes.at(-1)!.atS - scrapes[0]!.atS),
      ),
    )
  if (reporting.length < servers.length) return undefined
  const means = servers.map((scrapes) => computeGaugeMean(metric, scrapes))
  return means.some(Number.isNaN) ? undefined : Math.max(...means)
}

const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0)

/** Whether the metric is a histogram or summary with a sum and a count. */
const hasObservations = (name: string, scrapes: Scrapes): boolean =>
  [`${name}_sum`, `${name}_count`].every((part) =>
    parseSeries(scrapes.at(-1)!.text).some((series) => series.name === part),
  )

/** Computes the mean of the observations of a histogram or summary in the window. */
function computeObservedMean(
  { name, labels }: MetricSelector,
  servers: readonly Scrapes[],
): number | undefined {
  const [total, observed] = [`${name}_sum`, `${name}_count`].map((part) =>
    sum(servers.map((scrapes) => computeIncrease({ name: part, labels }, scrapes))),
  ) as [number, number]
  return observed > 0 && Number.isFinite(total) ? total / observed : undefined
}

/**
 * Computes the quantile of the observations in the window, from a histogram's buckets.
 * @returns undefined without buckets, without observations, or for a quantile outside 0 to 1
 */
function computeQuantile(
  { name, labels = {} }: MetricSelector,
  servers: readonly Scrapes[],
): number | undefined {
  const { quantile, ...otherLabels } = labels
  const bucket = `${name}_bucket`
  const bounds = new Set(
    servers.flatMap((scrapes) =>
      parseSeries(scrapes.at(-1)!.text).flatMap((series) =>
        series.name === bucket ? [series.labels.le!] : [],
      ),
    ),
  )
  const cumulative = [...bounds]
    .map((le) => ({
      upper: parseNumber(le),
      count: sum(
        servers.map((scrapes) =>
          computeIncrease({ name: bucket, labels: { ...otherLabels, le } }, scrapes),
        ),
      ),
    }))
    .sort((a, b) => a.upper - b.upper)
  const total = cumulative.at(-1)?.count ?? 0
  const rank = Number(quantile) * total
  // Negated, so that a count of NaN has no quantile.
  if (!(total > 0 && rank >= 0 && rank <= total)) return undefined
  const bucketIndex = cumulative.findIndex(({ count }) => count >= rank)
  const below = cumulative[bucketIndex - 1] ?? { upper: 0, count: 0 }
  const { upper, count } = cumulative[bucketIndex]!
  if (!Number.isFinite(upper)) return below.upper
  return count === below.count
    ? upper
    : below.upper + ((upper - below.upper) * (rank - below.count)) / (count - below.count)
}

const hasLabels = ({ labels }: Series, required: Readonly<Record<string, string>>): boolean =>
  Object.entries(required).every(([key, value]) => labels[key] === value)

/** Selects the values of the series with this name and these labels. */
const selectValues = ({ name, labels = {} }: MetricSelector, text: string): number[] =>
  parseSeries(text)
    .filter((series) => series.name === name && hasLabels(series, labels))
    .map(({ value }) => value)

/**
 * Computes the sum of the increases of all matching series. A counter that decreased was reset, for
 * example because a process of the server restarted: then its whole new value is the increase.
 */
function computeIncrease({ name, labels = {} }: MetricSelector, scrapes: Scrapes): number {
  const tabulateSeries = ({ text }: Scrape) =>
    new Map(
      parseSeries(text)
        .filter((series) => series.name === name && hasLabels(series, labels))
        .map((series) => [JSON.stringify(Object.entries(series.labels).sort()), series.value]),
    )
  const pages = scrapes.map(tabulateSeries)
  let increase = 0
  for (const [i, page] of pages.entries())
    if (i > 0)
      for (const [series, value] of page) {
        const before = pages[i - 1]!.get(series) ?? 0
        increase += value >= before ? value - before : value
      }
  return increase
}

/** Computes the mean over scrapes of the largest series of a gauge; NaN where a scrape has the value NaN. */
function computeGaugeMean(metric: MetricSelector, scrapes: Scrapes): number {
  const perScrape = scrapes
    .map(({ text }) => selectValues(metric, text))
    .filter((values) => values.length > 0)
  return sum(perScrape.map(findMax)) / perScrape.length
}

/** Whether a metric is a counter: by its declared type, else by the suffix of its name. */
function isCounter(name: string, text: string): boolean {
  const type =
    findType(text, name) ?? findType(text, name.replace(/_(total|sum|count|bucket)$/, ''))
  return type === 'counter' || (type !== 'gauge' && /_(total|sum|count|bucket)$/.test(name))
}

/**
 * Readings by name with labels. NaN, and null from a store, are left out. Undefined without any
 * value.
 */
export function tabulateReadings(
  readings: readonly MetricReading[] = [],
): Readonly<Record<string, number>> | undefined {
  const numeric = readings.filter(({ value }) => typeof value === 'number' && !Number.isNaN(value))
  return numeric.length === 0
    ? undefined
    : Object.fromEntries(numeric.map((reading) => [formatMetric(reading), reading.value]))
}

/** Formats a metric's name and labels: 'queue_depth{model="bert"}'. */
export const formatMetric = ({ name, labels }: MetricSelector): string =>
  labels === undefined || Object.keys(labels).length === 0
    ? name
    : `${name}{${Object.entries(labels)
        .map(
          ([key, value]) => `${key}="${value.replace(/[\\"]/g, '\\$&').replaceAll('\n', '\\n')}"`,
        )
        .join(',')}}`

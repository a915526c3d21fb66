/**
 * A server's own metrics in Prometheus text format (version 0.0.4), and what they say of a stretch
 * of time.
 */

/** A metric that is asked for. */
export interface AskedMetric {
  readonly name: string
  /** Series that have all of these. */
  readonly labels?: Readonly<Record<string, string>>
  /** Above this the configuration is no use. */
  readonly max?: number
  /** Path on the server, another of its ports with a path (`ownPort`), or a URL of its own. */
  readonly from: string
}

export interface MetricReading extends Pick<AskedMetric, 'name' | 'labels' | 'max'> {
  /**
   * A gauge's mean over the window, a counter's increase per second, a histogram's or summary's
   * mean of what was observed in it.
   */
  readonly value: number
}

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
  return [{ name, labels, value: Number(value.replace(/^([+-]?)Inf$/i, '$1Infinity')) }]
}

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

/** Names that can be asked for. */
export const metricNames = (text: string): string[] => [
  ...new Set(seriesOf(text).map(({ name }) => name)),
]

/** The looks at one server, in order of time, at least two. */
export type Looks = readonly Scrape[]

/**
 * What a metric was between the first and the last look, of one server or of several that share a
 * load. Several series of a gauge: the largest; of a counter, histogram or summary: all together;
 * and so of several servers. Undefined where there is no such metric, or nothing was observed in
 * that time, or one of the servers lacks a gauge: what it would say is not known, where what a
 * server has not counted is nothing.
 */
export function readingOf(
  asked: Pick<AskedMetric, 'name' | 'labels'>,
  servers: readonly Looks[],
): number | undefined {
  const { name } = asked
  const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0)
  const grown = (of: string) => sum(servers.map((looks) => grownOf({ ...asked, name: of }, looks)))
  const having = (of: string) =>
    servers.filter((looks) => valuesOf({ ...asked, name: of }, looks.at(-1)!.text).length > 0)
  const [there] = having(name)
  if (there === undefined) {
    const observed = having(`${name}_count`).length > 0 ? grown(`${name}_count`) : 0
    return observed > 0 ? grown(`${name}_sum`) / observed : undefined
  }
  if (counts(name, there.at(-1)!.text))
    return sum(servers.map((looks) => grownOf(asked, looks) / (looks.at(-1)!.atS - looks[0]!.atS)))
  return having(name).length < servers.length
    ? undefined
    : Math.max(...servers.map((looks) => meanOf(asked, looks)))
}

const valuesOf = (
  { name, labels = {} }: Pick<AskedMetric, 'name' | 'labels'>,
  text: string,
): number[] =>
  seriesOf(text)
    .filter(
      (one) =>
        one.name === name &&
        Object.entries(labels).every(([key, value]) => one.labels[key] === value),
    )
    .map(({ value }) => value)

/** Of all series together. */
function grownOf(asked: Pick<AskedMetric, 'name' | 'labels'>, looks: Looks): number {
  const total = ({ text }: Scrape) => valuesOf(asked, text).reduce((sum, value) => sum + value, 0)
  return total(looks.at(-1)!) - total(looks[0]!)
}

/** Of the largest series. */
function meanOf(asked: Pick<AskedMetric, 'name' | 'labels'>, looks: Looks): number {
  const seen = looks.map(({ text }) => valuesOf(asked, text)).filter((values) => values.length > 0)
  return seen.reduce((sum, values) => sum + largest(values), 0) / seen.length
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

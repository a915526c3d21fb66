/** A server's own metrics in Prometheus text format (version 0.0.4), and what they say of a stretch of time. */

/** A metric that is asked for. */
export interface AskedMetric {
  readonly name: string
  /** Series that have all of these. */
  readonly labels?: Readonly<Record<string, string>>
  /** Above this the configuration is no use. */
  readonly max?: number
  /** Path on the server, or a URL of its own. */
  readonly from: string
}

export interface MetricReading extends Pick<AskedMetric, 'name' | 'labels' | 'max'> {
  /** A gauge's mean over the window, a counter's increase per second, a histogram's or summary's mean of what was observed in it. */
  readonly value: number
}

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

const sampleLine = /^([a-zA-Z_:][\w:]*)\s*(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*$/
const label = /([a-zA-Z_]\w*)\s*=\s*"((?:\\.|[^"\\])*)"/g

function seriesOf(text: string): Series[] {
  return text.split('\n').flatMap((line) => {
    const [, name, labels = '', value] = sampleLine.exec(line) ?? []
    if (name === undefined || value === undefined) return []
    const pairs = [...labels.matchAll(label)].map(([, key, text]) => [
      key!,
      text!.replace(/\\(.)/g, (_, c: string) => (c === 'n' ? '\n' : c)),
    ])
    return [{ name, labels: Object.fromEntries(pairs), value: Number(value.replace(/^([+-]?)Inf$/i, '$1Infinity')) }]
  })
}

const typeOf = (text: string, name: string): string | undefined =>
  text
    .split('\n')
    .map((line) => /^#\s*TYPE\s+(\S+)\s+(\S+)/.exec(line))
    .find((found) => found?.[1] === name)?.[2]

/** Of one look: the largest of a metric's series (ranks of a server tell the same each); undefined where there is none. */
export function seriesValue(text: string, name: string): number | undefined {
  const values = seriesOf(text).flatMap((one) => (one.name === name && Number.isFinite(one.value) ? [one.value] : []))
  return values.length === 0 ? undefined : Math.max(...values)
}

/** Names that can be asked for. */
export const metricNames = (text: string): string[] => [...new Set(seriesOf(text).map(({ name }) => name))]

/**
 * What a metric was between the first and the last of at least two looks. Several series of a gauge: the largest; of a counter, histogram or summary: all together.
 * Undefined where there is no such metric, or nothing was observed in that time.
 */
export function readingOf({ name, labels = {} }: Pick<AskedMetric, 'name' | 'labels'>, scrapes: readonly Scrape[]): number | undefined {
  const [first, last] = [scrapes[0]!, scrapes.at(-1)!]
  const matching = (text: string, of: string) =>
    seriesOf(text)
      .filter((one) => one.name === of && Object.entries(labels).every(([key, value]) => one.labels[key] === value))
      .map(({ value }) => value)
  const total = (text: string, of: string) => matching(text, of).reduce((sum, value) => sum + value, 0)
  const grown = (of: string) => total(last.text, of) - total(first.text, of)
  const isThere = matching(last.text, name).length > 0
  if (!isThere && matching(last.text, `${name}_count`).length > 0) {
    const observed = grown(`${name}_count`)
    return observed > 0 ? grown(`${name}_sum`) / observed : undefined
  }
  if (!isThere) return undefined
  const type = typeOf(last.text, name) ?? typeOf(last.text, name.replace(/_(total|sum|count|bucket)$/, ''))
  const counts = type === 'counter' || (type !== 'gauge' && /_(total|sum|count|bucket)$/.test(name))
  if (counts) return grown(name) / (last.atS - first.atS)
  const looks = scrapes.map(({ text }) => matching(text, name)).filter((values) => values.length > 0)
  return looks.reduce((sum, values) => sum + Math.max(...values), 0) / looks.length
}

/** 'queue_depth{model="bert"}' */
export const metricText = ({ name, labels }: Pick<AskedMetric, 'name' | 'labels'>): string =>
  labels === undefined || Object.keys(labels).length === 0
    ? name
    : `${name}{${Object.entries(labels)
        .map(([key, value]) => `${key}="${value}"`)
        .join(',')}}`

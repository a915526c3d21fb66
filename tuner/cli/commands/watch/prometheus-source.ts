/** Reads windows of production from the HTTP API of Prometheus, with one query per figure. */
import { BoundError, parseUntrustedJson, readAnswer } from '../../../../profiler/bounded-reader.ts'
import type { ProductionWindow } from '../../../../reports/watch/production-window.ts'
import { grouped } from '../../../../trials/grouped.ts'
import { redactSecrets } from '../../../../trials/secrets.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { type FigureName, fillQuery, type Queries } from './default-queries.ts'
import type { ProductionSource } from './production-source.ts'

interface PrometheusOptions {
  readonly url: URL
  readonly queries: Queries & { readonly rate: string; readonly latency: string }
  readonly windowS: number
  /** Labels that default queries select by: 'namespace="shop"'. */
  readonly selector: string
  readonly percentile: number
  /** How far back the first read goes. */
  readonly initialLookbackS: number
  /** Sent as a bearer token. */
  readonly token?: string
}

/** End of the window → value; NaN samples are left out. */
type Values = ReadonlyMap<number, number>
type Series = { readonly labels: Readonly<Record<string, string>>; readonly values: Values }

/** Maximum time of a query. */
const timeoutMs = 30_000
/** Maximum delay of scrapes. */
const scrapeDelayS = 30
/** Points per query: Prometheus rejects more than 11,000. */
const maxPoints = 10_000

export class PrometheusSource implements ProductionSource {
  readonly #options: PrometheusOptions

  constructor(options: PrometheusOptions) {
    this.#options = options
  }

  async read(nowS: number, sinceS: number | undefined, _place: unknown, signal: AbortSignal) {
    const { windowS, initialLookbackS } = this.#options
    const last = Math.floor((nowS - scrapeDelayS) / windowS) * windowS
    const first = Math.ceil((sinceS ?? nowS - initialLookbackS) / windowS) * windowS + windowS
    if (first > last) return { windows: [], notes: [] }
    const figures = new Map<FigureName, readonly Series[]>()
    for (const [name, query] of Object.entries(this.#options.queries) as [FigureName, string][])
      figures.set(name, await this.#queryRange(name, query, first, last, signal))
    const windows = this.#createWindows(figures, first, last)
    return { windows, notes: describeMissing(figures, windows), silent: windows.length === 0 }
  }

  #createWindows(
    figures: ReadonlyMap<FigureName, readonly Series[]>,
    first: number,
    last: number,
  ): ProductionWindow[] {
    const { windowS } = this.#options
    const getFigure = (name: FigureName, end: number) => figures.get(name)?.[0]?.values.get(end)
    const windows: ProductionWindow[] = []
    for (let end = first; end <= last; end += windowS) {
      const rateRps = getFigure('rate', end)
      if (rateRps === undefined) continue
      const optional = {
        sloMs: getFigure('latency', end),
        errorShare: getFigure('errors', end),
        replicas: getFigure('replicas', end),
        gpuShare: getFigure('gpu', end),
        pricePerHour: getFigure('price', end),
        versions: figures
          .get('version')
          ?.flatMap(({ labels, values }) => (values.has(end) ? [formatVersion(labels)] : [])),
      }
      const knownFigures = Object.fromEntries(
        Object.entries(optional).filter(([, value]) => value !== undefined),
      )
      windows.push({ fromS: end - windowS, seconds: windowS, rateRps, ...knownFigures })
    }
    return windows
  }

  async #queryRange(
    name: FigureName,
    query: string,
    start: number,
    end: number,
    signal: AbortSignal,
  ): Promise<readonly Series[]> {
    const { url, token, ...rest } = this.#options
    const address = new URL(`${url.pathname.replace(/\/$/, '')}/api/v1/query_range`, url)
    const filled = fillQuery(query, rest)
    const parts: Series[] = []
    for (let from = start; from <= end; from += maxPoints * rest.windowS) {
      const to = Math.min(end, from + (maxPoints - 1) * rest.windowS)
      const body = new URLSearchParams({
        query: filled,
        start: String(from),
        end: String(to),
        step: String(rest.windowS),
      })
      parts.push(
        ...parseSeries(
          await queryPrometheus(address, body, token, signal),
          `--query ${name}=${filled}`,
        ),
      )
    }
    const series = [
      ...grouped(parts, ({ labels }) => JSON.stringify(Object.entries(labels).sort())).values(),
    ].map((same) => ({
      labels: same[0]!.labels,
      values: new Map(same.flatMap(({ values }) => [...values])),
    }))
    if (name !== 'version' && series.length > 1)
      throw new UserError(
        `the query for ${name} returns ${series.length} series instead of one: ${filled}`,
        `wrap it in sum(...), avg(...) or max(...): --query '${name}=sum(...)'`,
        exitCodes.usage,
      )
    const odd =
      name === 'version'
        ? undefined
        : series
            .flatMap(({ values }) => [...values.values()])
            .find((value) => !isValidFigure(name, value))
    if (odd !== undefined)
      throw new UserError(
        `the query for ${name} returns ${odd} instead of ${isShare(name) ? 'a share from 0 to 1' : 'a number of at least 0'}: ${filled}`,
        isShare(name)
          ? `for percentages, divide: --query '${name}=(...) / 100'`
          : `write a query of your own: --query '${name}=...'`,
        exitCodes.usage,
      )
    return series
  }
}

const isShare = (name: FigureName): boolean => name === 'errors' || name === 'gpu'
/** Shares from counters may slightly exceed 1. */
const isValidFigure = (name: FigureName, value: number): boolean =>
  value >= 0 && (!isShare(name) || value <= 1.05)

/** Notice on figures without data. NaN is expected without requests. */
function describeMissing(
  figures: ReadonlyMap<FigureName, readonly Series[]>,
  windows: readonly ProductionWindow[],
): string[] {
  const hasTraffic = windows.length === 0 || windows.some(({ rateRps }) => rateRps > 0)
  const empty = [...figures]
    .filter(
      ([name, series]) =>
        !(name === 'gpu' || name === 'price') &&
        hasTraffic &&
        series.every(({ values }) => values.size === 0),
    )
    .map(([name]) => name)
  return empty.length === 0
    ? []
    : [
        `Prometheus has no data for ${empty.join(', ')}: change the query with --query NAME=..., --selector or --server`,
      ]
}

const formatVersion = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .filter(([key]) => key !== '__name__')
    .map(([, value]) => value)
    .join(' ')

async function queryPrometheus(
  address: URL,
  body: URLSearchParams,
  token: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  const where = redactSecrets(address.href)
  const timeout = AbortSignal.timeout(timeoutMs)
  try {
    const answer = await fetch(address, {
      method: 'POST',
      body,
      signal: AbortSignal.any([signal, timeout]),
      ...(token && { headers: { authorization: `Bearer ${token}` } }),
    })
    const text = await readAnswer(answer.body)
    if (answer.ok || answer.status === 400 || answer.status === 422) return text
    const hint =
      answer.status === 401 || answer.status === 403
        ? 'set a bearer token in TUNE_PROMETHEUS_TOKEN'
        : 'check that this is the address of Prometheus itself'
    throw new UserError(`Prometheus at ${where} answered with status ${answer.status}`, hint)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof UserError) throw error
    const why = timeout.aborted
      ? `no answer within ${timeoutMs / 1000} s`
      : error instanceof BoundError
        ? error.message
        : findCause(error)
    throw new UserError(
      `cannot query Prometheus at ${where}: ${why}`,
      'check --prometheus, e.g. http://prometheus.monitoring:9090',
    )
  }
}

const findCause = (error: unknown): string => {
  const { message, cause } = error as Error & { readonly cause?: { readonly message?: string } }
  return cause?.message || message
}

/**
 * Parses the series of a query_range answer.
 * @throws UserError for rejected queries and other answers
 */
function parseSeries(text: string, what: string): Series[] {
  const createRejection = (why: string) =>
    new UserError(
      `Prometheus rejects ${what}: ${why}`,
      'replace the query with --query NAME=PROMQL (docs/how-to/watch-production.md)',
      exitCodes.usage,
    )
  let answer: {
    status?: unknown
    error?: unknown
    data?: { resultType?: unknown; result?: unknown }
  }
  try {
    answer = (parseUntrustedJson(text) ?? {}) as typeof answer
  } catch {
    throw new UserError(
      `the answer to ${what} is not JSON`,
      'check that this is the address of Prometheus itself',
    )
  }
  if (answer.status !== 'success') throw createRejection(String(answer.error ?? 'no reason'))
  const { resultType, result } = answer.data ?? {}
  if (resultType !== 'matrix' || !Array.isArray(result))
    throw createRejection(`its answer is a ${String(resultType)}, not a matrix`)
  return result.map((series: { metric?: Record<string, string>; values?: unknown } | null) => {
    const pairs = Array.isArray(series?.values) ? (series.values as unknown[]) : []
    if (!Array.isArray(series?.values) || !pairs.every(Array.isArray))
      throw createRejection('a series of its answer has no values')
    const numbers = (pairs as [number, string][]).map(
      ([at, value]) => [Math.round(at), Number(value)] as const,
    )
    return {
      labels: series.metric ?? {},
      values: new Map(numbers.filter(([, value]) => Number.isFinite(value))),
    }
  })
}

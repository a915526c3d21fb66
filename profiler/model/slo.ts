/**
 * SLOs: which latency of a request they count, when a window meets them, and how they are written.
 * No other module interprets an SLO.
 */

import { computeBinomialCdf } from '../statistics/percentile.ts'
import { type LatencyMetric, latencyMetrics, mapMetrics } from './latency-metrics.ts'
import type { LatencySummary, LoadPoint } from './load-point.ts'
import type { LoadRun } from './load-run.ts'

/** A percentile of requests within a latency limit, and the tolerated error rate. */
export interface Slo {
  /** 0.99 for p99. */
  readonly percentile: number
  readonly limitMs: number
  /**
   * Highest tolerated share of failed requests, e.g. 0.001. Failed requests also count as over the
   * limit.
   */
  readonly maxErrorRate: number
  /** Latency of a streamed answer that the SLO constrains; default 'e2e'. */
  readonly metric?: LatencyMetric
  /**
   * Limits of a joint SLO on streamed answers, two or more. A request is good when it is within all
   * of them, and `percentile` is the required share of good requests (goodput: Zhong et al.,
   * DistServe, OSDI 2024, section 2). The latency of a request is then its largest fraction of a
   * limit, in units of the first limit: at most `limitMs` exactly where all limits are met.
   * `limitMs` equals the first limit unless the SLO is scaled: another `limitMs` scales all limits.
   * `metric` is absent. A single limit is allowed where it belongs to a class.
   */
  readonly limits?: readonly SloLimit[]
  /** Names of request classes; each class has to meet the percentile on its own. */
  readonly classes?: readonly string[]
}

/** One limit of a joint SLO. */
export interface SloLimit {
  readonly metric: LatencyMetric
  readonly limitMs: number
  /**
   * Class of requests to which the limit applies. Absent: all classes without limits of their own.
   */
  readonly requestClass?: string
}

/** Latencies of one streamed answer, ms. */
type StreamLatencies = Readonly<Record<LatencyMetric, number>>

/** Part of an SLO that determines which latency counts. */
type CountedLatency = Pick<Slo, 'metric' | 'limits' | 'classes'>

/**
 * Computes the latency that an SLO constrains: that of its metric, or under a joint SLO the largest
 * fraction of a limit, in units of the first limit.
 */
export function computeSloLatency(
  latenciesMs: StreamLatencies,
  { metric = 'e2e', limits }: CountedLatency,
  requestClass?: string,
): number {
  if (limits === undefined) return latenciesMs[metric]
  return (
    limits[0]!.limitMs *
    Math.max(
      ...selectLimits(limits, requestClass).map(
        (limit) => latenciesMs[limit.metric] / limit.limitMs,
      ),
    )
  )
}

/**
 * Selects the limits for requests of a class: its own, else those without a class. All limits for a
 * request of unknown class.
 */
export function selectLimits(
  limits: readonly SloLimit[],
  requestClass: string | undefined,
): readonly SloLimit[] {
  if (requestClass === undefined) return limits
  const classLimits = limits.filter((limit) => limit.requestClass === requestClass)
  return classLimits.length > 0
    ? classLimits
    : limits.filter((limit) => limit.requestClass === undefined)
}

/** Requests that have to meet the percentile on their own. */
interface RequestGroup {
  /** Absent: all requests. */
  readonly requestClass?: string
  readonly sentMs: Float64Array
  /** Latencies that the SLO constrains. */
  readonly latencyMs: Float64Array
}

/**
 * Splits a run into the requests of each class under an SLO with classes, else returns all
 * requests. Requests that were never sent have no class and count in each.
 */
export function splitByClass(
  { sentMs, latencyMs, stream }: Pick<LoadRun, 'sentMs' | 'latencyMs' | 'stream'>,
  { classes = [] }: Pick<Slo, 'classes'>,
): RequestGroup[] {
  const requestClasses = stream?.classes
  const presentClasses = classes.filter((name) => requestClasses?.includes(name))
  if (requestClasses === undefined || presentClasses.length === 0) return [{ sentMs, latencyMs }]
  return presentClasses.map((requestClass) => {
    const selectClass = (ms: Float64Array) =>
      ms.filter((_, i) => requestClasses[i] === undefined || requestClasses[i] === requestClass)
    return { requestClass, sentMs: selectClass(sentMs), latencyMs: selectClass(latencyMs) }
  })
}

/** Error class of a good answer without an observable latency that the SLO constrains. */
const notObservable = 'TPOT not observable: the answer came in one piece'

/**
 * Replaces the latencies of streamed answers by those that the SLO constrains. An answer without a
 * counted latency has failed, as it meets no limit.
 */
export function selectSloLatencies<
  T extends Pick<LoadRun, 'latencyMs' | 'stream'> & { readonly errorKinds?: LoadRun['errorKinds'] },
>(run: T, slo: CountedLatency): T {
  const { stream } = run
  if (stream === undefined) return run
  const { latenciesMs, classes } = stream
  // A request without an end-to-end latency failed (NaN), or was cut off and counts with its age.
  const latencyMs = run.latencyMs.map((ms, i) =>
    Number.isNaN(latenciesMs.e2e[i]!)
      ? ms
      : computeSloLatency(
          mapMetrics((metric) => latenciesMs[metric][i]!),
          slo,
          classes?.[i],
        ),
  )
  const unobservable = latencyMs.filter(
    (ms, i) => Number.isNaN(ms) && !Number.isNaN(latenciesMs.e2e[i]!),
  ).length
  return {
    ...run,
    latencyMs,
    ...(unobservable > 0 && { errorKinds: { ...run.errorKinds, [notObservable]: unobservable } }),
  }
}

/** Counts failed requests of a window, whatever latency the SLO constrains. */
export const countFailed = ({
  errors,
  errorKinds,
}: Pick<LoadPoint, 'errors' | 'errorKinds'>): number => errors - (errorKinds[notObservable] ?? 0)

/** Counts good answers without an observable latency that is limited; 0 where nothing shows it. */
export const countNotObservable = (
  { e2e, ...parts }: Readonly<Partial<Record<LatencyMetric, Pick<LatencySummary, 'requests'>>>>,
  limits: readonly Pick<SloLimit, 'metric'>[],
): number =>
  Math.max(
    ...limits.map(({ metric }) => {
      const observed = metric === 'e2e' ? e2e : parts[metric]
      return e2e && observed ? e2e.requests - observed.requests : 0
    }),
  )

/**
 * Creates a key that is equal for SLOs that constrain the same latency, in units of the first
 * limit, for the same groups of requests.
 */
const createLatencyKey = ({ metric = 'e2e', limits, classes = [] }: CountedLatency): string =>
  JSON.stringify([
    limits === undefined
      ? metric
      : limits.map((limit) => [
          limit.metric,
          limit.requestClass,
          limit.limitMs / limits[0]!.limitMs,
        ]),
    ...classes,
  ])

/** Whether two SLOs count the same latency for the same groups of requests. */
export const haveSameLatency = (a: CountedLatency, b: CountedLatency): boolean =>
  createLatencyKey(a) === createLatencyKey(b)

/** Whether two SLOs are met by the same windows. */
export const areSameSlo = (a: Slo, b: Slo): boolean =>
  a.percentile === b.percentile &&
  a.limitMs === b.limitMs &&
  a.maxErrorRate === b.maxErrorRate &&
  haveSameLatency(a, b)

/**
 * Resolves the limits of an SLO, each with its metric. Those of a joint SLO are scaled with
 * `limitMs`.
 */
export function resolveLimits({
  metric = 'e2e',
  limits,
  limitMs,
}: Pick<Slo, 'metric' | 'limits' | 'limitMs'>): readonly SloLimit[] {
  if (limits === undefined) return [{ metric, limitMs }]
  const scale = limitMs / limits[0]!.limitMs
  return limits.map((limit) => ({ ...limit, limitMs: limit.limitMs * scale }))
}

/** Finds the largest of the resolved limits. */
export const findMaxLimitMs = (slo: Slo): number =>
  Math.max(...resolveLimits(slo).map(({ limitMs }) => limitMs))

/** Replaces one of the resolved limits; the others of a joint SLO stay. */
export function replaceLimit(slo: Slo, index: number, limitMs: number): Slo {
  if (slo.limits === undefined) return { ...slo, limitMs }
  const limits = resolveLimits(slo).map((limit, i) => (i === index ? { ...limit, limitMs } : limit))
  return { ...slo, limits, limitMs: limits[0]!.limitMs }
}

/** Counts latencies within a limit. A failed request has none and is not within. */
export const countWithin = (latencyMs: Float64Array, limitMs: number): number =>
  latencyMs.reduce((count, ms) => (ms <= limitMs ? count + 1 : count), 0)

/** Counts how many requests may exceed the limit with the percentile still within it. */
export const countMaxViolations = (
  { percentile }: Pick<Slo, 'percentile'>,
  requests: number,
): number => requests - Math.min(requests, Math.max(1, Math.ceil(percentile * requests - 1e-9)))

/**
 * Result of a window: its requests, its failures, and its percentile, that of the worst class with
 * failures as infinitely slow.
 */
export interface Window {
  readonly requests: number
  readonly errors: number
  readonly sloMs: number
}

/** Probability below which failures are not explained by the tolerated error rate. Assumed. */
const maxChanceOfFailures = 0.01

/**
 * Whether significantly more requests failed than the SLO tolerates: at the tolerated rate, as many
 * would fail in one of a hundred windows. A single failure among thirty requests is not
 * significant. True without any request.
 */
export function exceedsErrorRate(
  { requests, errors }: Omit<Window, 'sloMs'>,
  { maxErrorRate }: Pick<Slo, 'maxErrorRate'>,
): boolean {
  if (requests === 0) return true
  return 1 - computeBinomialCdf(errors - 1, requests, maxErrorRate) < maxChanceOfFailures
}

/** Whether a window meets the SLO, by its percentile and its error rate. */
export const meetsSlo = (window: Window, slo: Slo): boolean =>
  window.sloMs <= slo.limitMs && !exceedsErrorRate(window, slo)

/**
 * Excludes timeouts from the errors: they are slow requests, and only other errors show a server
 * that refuses.
 */
export const excludeTimeouts = (point: LoadPoint): LoadPoint => ({
  ...point,
  errors: point.errors - (point.errorKinds.timeout ?? 0),
})

/**
 * Whether late sends alone explain that a window violated the SLO. Errors are not explained by
 * them.
 */
export const isViolatedByLateSends = (point: LoadPoint, slo: Slo): boolean =>
  point.generatorSaturated &&
  point.sloMs - point.latenessP99Ms <= slo.limitMs &&
  !exceedsErrorRate(point, slo)

/**
 * Whether a window that violated the SLO is invalid: disturbed by host interference, or with a
 * saturated generator. Such a generator sends and reads late, so neither latencies nor timeouts
 * refute the rate; refusals do.
 */
export const isInvalidWindow = (point: LoadPoint, slo: Slo): boolean =>
  point.invalid === true ||
  (point.generatorSaturated && !exceedsErrorRate(excludeTimeouts(point), slo))

/**
 * As `meetsSlo`, for a window of which only counts are known: `violations` is the number of
 * requests that failed or exceeded the limit.
 */
export const countsMeetSlo = (
  { violations, ...window }: Omit<Window, 'sloMs'> & { readonly violations: number },
  slo: Slo,
): boolean =>
  violations <= countMaxViolations(slo, window.requests) && !exceedsErrorRate(window, slo)

/**
 * Whether a window surely meets the SLO by its interval (true), surely violates it (false), or
 * neither (undefined). The interval assumes independent requests; those in a queue are correlated
 * and show less.
 */
export function judgeSloByInterval(
  window: Window & { readonly sloCi95Ms: readonly [number, number] },
  slo: Slo,
): boolean | undefined {
  if (exceedsErrorRate(window, slo) || window.sloCi95Ms[0] > slo.limitMs) return false
  return window.sloCi95Ms[1] <= slo.limitMs ? true : undefined
}

/**
 * Plans when a window may end early: after this many requests over the limit. Never for limits on
 * parts of a stream, which the age of a request does not show.
 */
export const planEarlyCut = (
  slo: Slo,
  requests: number,
): { readonly overMs: number; readonly requests: number } | undefined =>
  haveSameLatency(slo, {}) ? { overMs: slo.limitMs, requests } : undefined

/** Formats a latency: 43 ms, 4.3 ms; 'no answer' without one. */
export const latency = (ms: number): string =>
  Number.isFinite(ms) ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms` : 'no answer'

/** Formats a limit as configured: 12.5 ms. */
const limitText = (ms: number): string => `${Number(ms.toPrecision(6))} ms`

/** Formats a percentile: p99, p99.9. */
export const percentileName = (percentile: number): string =>
  `p${Number((percentile * 100).toFixed(4))}`

/**
 * Formats the bounded percentile: 'p99', 'TTFT p99'; of a joint SLO 'p99 of TTFT and TPOT'; with
 * classes 'p99 of each class'.
 */
export function sloName({ percentile, metric, limits, classes }: Slo): string {
  const p = percentileName(percentile)
  const each = classes ? ' of each class' : ''
  if (limits !== undefined) return `${p}${each || ` of ${joinTitles(limits)}`}`
  return metric === undefined ? `${p}${each}` : `${latencyMetrics[metric].title} ${p}${each}`
}

const joinTitles = (limits: readonly SloLimit[]): string =>
  [...new Set(limits.map(({ metric }) => latencyMetrics[metric].title))].join(' and ')

/** Formats the name of one limit among others: 'TTFT', 'chat TTFT'. */
export const limitTitle = ({
  metric,
  requestClass,
}: Pick<SloLimit, 'metric' | 'requestClass'>): string =>
  [requestClass, latencyMetrics[metric].title].filter((word) => word !== undefined).join(' ')

/** Formats the limits alone: '50 ms'; of a joint SLO as `sloText`. */
export const sloLimit = (slo: Slo): string =>
  slo.limits === undefined ? limitText(slo.limitMs) : sloText(slo)

/**
 * Formats the whole SLO: 'p99 <= 50 ms', 'TTFT p99 <= 200 ms'; of a joint SLO 'TTFT <= 200 ms and
 * TPOT <= 30 ms for 99 % of requests'; with limits of classes 'chat: TTFT <= 200 ms, other: E2E <=
 * 9000 ms, each for 99 % of its requests'. Another `limitMs` scales all limits of a joint SLO
 * (DistServe's "SLO scale").
 */
export function sloText(slo: Slo): string {
  if (slo.limits === undefined) return `${sloName(slo)} <= ${limitText(slo.limitMs)}`
  const all = resolveLimits(slo)
  const text = (limits: readonly SloLimit[]) =>
    limits
      .map(({ metric, limitMs }) => `${latencyMetrics[metric].title} <= ${limitText(limitMs)}`)
      .join(' and ')
  const share = `${Number((slo.percentile * 100).toFixed(4))} %`
  if (all.every(({ requestClass }) => requestClass === undefined))
    return `${text(all)} for ${share} of requests${slo.classes ? ' of each class' : ''}`
  const each = slo.classes?.map((name) => `${name}: ${text(selectLimits(all, name))}`) ?? []
  return `${each.join(', ')}, each for ${share} of its requests`
}

const flagMs = (ms: number): string => `${Number(ms.toPrecision(12))}ms`

/**
 * Formats the SLO as a flag of the command line: 'p99<50ms', 'ttft p90<500ms', 'p90 ttft<200ms
 * tpot<30ms'. Flags have no classes, so it has the strictest limit of each latency.
 */
export function sloFlag(slo: Slo): string {
  const p = percentileName(slo.percentile)
  if (slo.limits === undefined)
    return `${slo.metric === undefined ? '' : `${slo.metric} `}${p}<${flagMs(slo.limitMs)}`
  const all = resolveLimits(slo)
  const metrics = [...new Set(all.map(({ metric }) => metric))]
  const strictest = (of: LatencyMetric) =>
    Math.min(...all.flatMap(({ metric, limitMs }) => (metric === of ? [limitMs] : [])))
  return `${p} ${metrics.map((metric) => `${metric}<${flagMs(strictest(metric))}`).join(' ')}`
}

/**
 * Counts the decimals, at least `min` and at most three, that show on which side of a limit a value
 * is: 50.3 over 50 is not '50'.
 */
function countDecimals(value: number, limit: number, min: number): number {
  const isOver = value > limit
  let decimals = min
  while (decimals < 3 && Number(value.toFixed(decimals)) > limit !== isOver) decimals++
  return decimals
}

/**
 * Formats a latency at the SLO percentile: '43 ms'; for a joint SLO '82 % of the limits'. A value
 * over the limit is shown as such.
 */
export function sloValue({ limits, limitMs }: Slo, ms: number): string {
  if (!Number.isFinite(ms)) return latency(ms)
  if (limits === undefined) return `${ms.toFixed(countDecimals(ms, limitMs, ms < 10 ? 1 : 0))} ms`
  const percent = (100 * ms) / limitMs
  return `${percent.toFixed(countDecimals(percent, 100, 0))} % of the limits`
}

/**
 * Formats a latency with its SLO percentile: 'TTFT p99 180 ms', 'p99 of TTFT and TPOT at 82 % of
 * the limits'.
 */
export const sloFigure = (slo: Slo, ms: number): string =>
  `${sloName(slo)}${slo.limits ? ' at' : ''} ${sloValue(slo, ms)}`

/**
 * Axis of latencies under an SLO: titles, displayed value of a latency, and position of the limit.
 * For a joint SLO in percent of the limits.
 */
export interface SloAxis {
  /** For the SLO percentile: 'TTFT p99 latency, ms', 'p99 of TTFT and TPOT, % of the limits'. */
  readonly name: string
  /** For any percentile: 'TTFT, ms', 'TTFT and TPOT, % of the limits'. */
  readonly latencyName: string
  readonly unit: 'ms' | '%'
  readonly limit: number
  readonly of: (ms: number) => number
}

export function sloAxis(slo: Slo): SloAxis {
  const { metric, limits, limitMs } = slo
  if (limits === undefined) {
    const latencyName = metric ? `${latencyMetrics[metric].title}, ms` : 'latency, ms'
    return {
      name: `${sloName(slo)} latency, ms`,
      latencyName,
      unit: 'ms',
      limit: limitMs,
      of: (ms) => ms,
    }
  }
  const of = (ms: number) => (100 * ms) / limitMs
  return {
    name: `${sloName(slo)}, % of the limits`,
    latencyName: `${joinTitles(limits)}, % of the limits`,
    unit: '%',
    limit: 100,
    of,
  }
}

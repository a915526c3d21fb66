/**
 * What an SLO is about, what keeping it means for a window of requests, and what it is called. The
 * one place that knows.
 */
import { byMetric, type LatencyMetric, latencyMetrics } from './latency-metrics.ts'
import { binomialCdf } from '../statistics/percentile.ts'
import type { LatencySummary, LoadPoint } from './load-point.ts'
import type { LoadRun } from './load-run.ts'

/** The latency a percentile of requests must keep, and the share of requests that may fail. */
export interface Slo {
  /** 0.99 for p99. */
  readonly percentile: number
  readonly limitMs: number
  /**
   * Highest tolerated share of failed requests, e.g. 0.001. Failed requests also count as over the
   * SLO.
   */
  readonly maxErrorRate: number
  /** Which latency of a streamed answer: default 'e2e'. */
  readonly metric?: LatencyMetric
  /**
   * A joint SLO on streamed answers, two limits or more: a request is good when it keeps every one
   * of them, and `percentile` is the share of all requests that must be good (goodput: Zhong et
   * al., DistServe, OSDI 2024, section 2). A request's latency is then its greatest part of a
   * limit, in units of the first one, whose limit `limitMs` is: at most `limitMs` exactly where
   * every limit is kept. `metric` is absent. One limit may be all where it is of a class.
   */
  readonly limits?: readonly SloLimit[]
  /**
   * Names of the classes of requests, where there are some: each of them must keep the percentile
   * by itself.
   */
  readonly classes?: readonly string[]
}

/** One of a joint SLO's limits. */
export interface SloLimit {
  readonly metric: LatencyMetric
  readonly limitMs: number
  /** Of requests of this class alone. Absent: of all classes that have no limits of their own. */
  readonly requestClass?: string
}

/** Latencies of one streamed answer, ms. */
type StreamLatencies = Readonly<Record<LatencyMetric, number>>

/** What an SLO counts of a request. */
export type Counted = Pick<Slo, 'metric' | 'limits' | 'classes'>

/**
 * The latency that counts: of one metric, or under a joint SLO the greatest part of a limit that
 * the request has, in units of the first of all.
 */
export function countedMs(
  of: StreamLatencies,
  { metric = 'e2e', limits }: Counted,
  requestClass?: string,
): number {
  if (limits === undefined) return of[metric]
  return (
    limits[0]!.limitMs *
    Math.max(...limitsFor(limits, requestClass).map((limit) => of[limit.metric] / limit.limitMs))
  )
}

/**
 * The limits that hold for requests of a class: its own, else those of no class. All of them for
 * one whose class is not known.
 */
export function limitsFor(
  limits: readonly SloLimit[],
  requestClass: string | undefined,
): readonly SloLimit[] {
  if (requestClass === undefined) return limits
  const own = limits.filter((limit) => limit.requestClass === requestClass)
  return own.length > 0 ? own : limits.filter((limit) => limit.requestClass === undefined)
}

/** Requests that have to keep the percentile by themselves. */
export interface Apart {
  /** Absent: they are all requests. */
  readonly requestClass?: string
  readonly sentMs: Float64Array
  /** As the SLO counts them. */
  readonly latencyMs: Float64Array
}

/**
 * The requests of a run that have to keep the percentile by themselves: under an SLO with classes
 * those of each class that was sent any, else all of them. One that was never sent is of no class,
 * and counts to each.
 */
export function apart(
  { sentMs, latencyMs, stream }: Pick<LoadRun, 'sentMs' | 'latencyMs' | 'stream'>,
  { classes = [] }: Pick<Slo, 'classes'>,
): Apart[] {
  const of = stream?.classes
  const found = classes.filter((name) => of?.includes(name))
  if (of === undefined || found.length === 0) return [{ sentMs, latencyMs }]
  return found.map((requestClass) => {
    const own = (ms: Float64Array) =>
      ms.filter((_, i) => of[i] === undefined || of[i] === requestClass)
    return { requestClass, sentMs: own(sentMs), latencyMs: own(latencyMs) }
  })
}

/** Error class of a good answer of which a latency that the SLO counts was not to be seen. */
const notObservable = 'TPOT not observable: the answer came in one piece'

/**
 * The run with the latencies that the SLO counts, of streamed answers; others have but one. An
 * answer without one of them has failed: silence keeps no limit.
 */
export function countedRun<
  T extends Pick<LoadRun, 'latencyMs' | 'stream'> & { readonly errorKinds?: LoadRun['errorKinds'] },
>(run: T, slo: Counted): T {
  const { stream } = run
  if (stream === undefined) return run
  const { latenciesMs, classes } = stream
  // A request that was cut short has no stream: the age it had reached is all that is known.
  const latencyMs = run.latencyMs.map((ms, i) =>
    Number.isNaN(latenciesMs.e2e[i]!)
      ? ms
      : countedMs(
          byMetric((metric) => latenciesMs[metric][i]!),
          slo,
          classes?.[i],
        ),
  )
  const silent = latencyMs.filter(
    (ms, i) => Number.isNaN(ms) && !Number.isNaN(latenciesMs.e2e[i]!),
  ).length
  return {
    ...run,
    latencyMs,
    ...(silent > 0 && { errorKinds: { ...run.errorKinds, [notObservable]: silent } }),
  }
}

/** Requests of a window that failed, whichever latency an SLO is about. */
export const countFailed = ({
  errors,
  errorKinds,
}: Pick<LoadPoint, 'errors' | 'errorKinds'>): number => errors - (errorKinds[notObservable] ?? 0)

/** Good answers of which a latency that is bounded was not to be seen; none where nothing tells. */
export const countNotObservable = (
  { e2e, ...of }: Readonly<Partial<Record<LatencyMetric, Pick<LatencySummary, 'requests'>>>>,
  limits: readonly Pick<SloLimit, 'metric'>[],
): number =>
  Math.max(
    ...limits.map(({ metric }) => {
      const seen = metric === 'e2e' ? e2e : of[metric]
      return e2e && seen ? e2e.requests - seen.requests : 0
    }),
  )

/**
 * In units of the first limit: one name for SLOs that count the same latency, and of the same
 * requests together.
 */
const countedBy = ({ metric = 'e2e', limits, classes = [] }: Counted): string =>
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

/**
 * Whether two SLOs count the same latency of a request, and ask for the percentile of the same
 * requests.
 */
export const countsTheSame = (a: Counted, b: Counted): boolean => countedBy(a) === countedBy(b)

/** Whether what kept the one keeps the other, and the reverse. */
export const sameSlo = (a: Slo, b: Slo): boolean =>
  a.percentile === b.percentile &&
  a.limitMs === b.limitMs &&
  a.maxErrorRate === b.maxErrorRate &&
  countsTheSame(a, b)

/**
 * The limits of an SLO, each with its metric: one, or those of a joint SLO in the proportion that
 * `limitMs` sets.
 */
export function limitsOf({
  metric = 'e2e',
  limits,
  limitMs,
}: Pick<Slo, 'metric' | 'limits' | 'limitMs'>): readonly SloLimit[] {
  if (limits === undefined) return [{ metric, limitMs }]
  const scale = limitMs / limits[0]!.limitMs
  return limits.map((limit) => ({ ...limit, limitMs: limit.limitMs * scale }))
}

/** Of all its limits, as `limitsOf` has them. */
export const longestLimitMs = (slo: Slo): number =>
  Math.max(...limitsOf(slo).map(({ limitMs }) => limitMs))

/**
 * The SLO with another limit in the place of one of its `limitsOf`; of a joint one the others stay.
 */
export function withLimit(slo: Slo, place: number, limitMs: number): Slo {
  if (slo.limits === undefined) return { ...slo, limitMs }
  const limits = limitsOf(slo).map((limit, i) => (i === place ? { ...limit, limitMs } : limit))
  return { ...slo, limits, limitMs: limits[0]!.limitMs }
}

/** How many requests took no longer than a limit; one that has no latency failed, and did not. */
export const countWithin = (latencyMs: Float64Array, limitMs: number): number =>
  latencyMs.reduce((count, ms) => (ms <= limitMs ? count + 1 : count), 0)

/**
 * How many of so many requests may be over the limit: as many as leave the percentile at or under
 * it.
 */
export const mostOver = ({ percentile }: Pick<Slo, 'percentile'>, requests: number): number =>
  requests - Math.min(requests, Math.max(1, Math.ceil(percentile * requests - 1e-9)))

/**
 * What a window comes to: requests, those of them that failed, and its percentile, that of the
 * worst class, with failed ones as infinitely slow.
 */
export interface Window {
  readonly requests: number
  readonly errors: number
  readonly sloMs: number
}

/** Failures that the tolerated share explains once in so many windows are no verdict. */
const byChance = 0.01

/**
 * Whether more requests failed than the SLO tolerates, beyond chance: were the true share the
 * tolerated one, so many would fail once in a hundred windows. One lost request of thirty is no
 * verdict. True without any request.
 */
export function failsTooOften(
  { requests, errors }: Omit<Window, 'sloMs'>,
  { maxErrorRate }: Pick<Slo, 'maxErrorRate'>,
): boolean {
  if (requests === 0) return true
  return 1 - binomialCdf(errors - 1, requests, maxErrorRate) < byChance
}

/** Whether a window keeps the SLO: its percentile and its failures. */
export const keeps = (window: Window, slo: Slo): boolean =>
  window.sloMs <= slo.limitMs && !failsTooOften(window, slo)

/**
 * A request that timed out was slow, and counts as such; only others tell of a server that refuses.
 */
export const withoutTimeouts = (point: LoadPoint): LoadPoint => ({
  ...point,
  errors: point.errors - (point.errorKinds.timeout ?? 0),
})

/**
 * Whether late sends explain all by which a search's window missed the SLO. Failures are no
 * lateness.
 */
export const missedByLateSends = (point: LoadPoint, slo: Slo): boolean =>
  point.generatorSaturated &&
  point.sloMs - point.latenessP99Ms <= slo.limitMs &&
  !failsTooOften(point, slo)

/**
 * Whether a window that missed the SLO says nothing of the server: the machine kept it waiting, or
 * its load generator was saturated. Such a generator sends and reads late, so neither its latencies
 * nor its timeouts refute a rate; what the server refused does.
 */
export const saysNothing = (point: LoadPoint, slo: Slo): boolean =>
  point.disturbed === true ||
  (point.generatorSaturated && !failsTooOften(withoutTimeouts(point), slo))

/**
 * As `keeps`, of a window of which only counts are known: `over` failed or took longer than the
 * limit.
 */
export const keepsCounts = (
  { over, ...window }: Omit<Window, 'sloMs'> & { readonly over: number },
  slo: Slo,
): boolean => over <= mostOver(slo, window.requests) && !failsTooOften(window, slo)

/**
 * What the interval of a window's percentile says beyond its figure: it keeps the SLO for certain
 * (true), misses it for certain (false), or could be either (undefined). Of independent requests:
 * neighbours in a queue are alike, and say less.
 */
export function keepsSurely(
  window: Window & { readonly sloCi95Ms: readonly [number, number] },
  slo: Slo,
): boolean | undefined {
  if (failsTooOften(window, slo) || window.sloCi95Ms[0] > slo.limitMs) return false
  return window.sloCi95Ms[1] <= slo.limitMs ? true : undefined
}

/**
 * When a window may be ended early: once so many requests are over the limit. None where the SLO is
 * about parts of a stream, of which the age of a request under way says nothing.
 */
export const cutAfter = (
  slo: Slo,
  requests: number,
): { readonly overMs: number; readonly requests: number } | undefined =>
  countsTheSame(slo, {}) ? { overMs: slo.limitMs, requests } : undefined

/** 43 ms, 4.3 ms; 'no answer' where there was none. */
export const latency = (ms: number): string =>
  Number.isFinite(ms) ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms` : 'no answer'

/** A limit as it was asked for, in full: 12.5 ms. */
const limitText = (ms: number): string => `${Number(ms.toPrecision(6))} ms`

/** p99, p99.9. */
export const percentileName = (percentile: number): string =>
  `p${Number((percentile * 100).toFixed(4))}`

/**
 * What an SLO bounds: 'p99', 'TTFT p99'; of a joint one 'p99 of TTFT and TPOT'; with classes 'p99
 * of each class'.
 */
export function sloName({ percentile, metric, limits, classes }: Slo): string {
  const p = percentileName(percentile)
  const each = classes ? ' of each class' : ''
  if (limits !== undefined) return `${p}${each || ` of ${titlesOf(limits)}`}`
  return metric === undefined ? `${p}${each}` : `${latencyMetrics[metric].title} ${p}${each}`
}

const titlesOf = (limits: readonly SloLimit[]): string =>
  [...new Set(limits.map(({ metric }) => latencyMetrics[metric].title))].join(' and ')

/** 'TTFT', 'chat TTFT': a limit among others. */
export const limitTitle = ({
  metric,
  requestClass,
}: Pick<SloLimit, 'metric' | 'requestClass'>): string =>
  [requestClass, latencyMetrics[metric].title].filter((word) => word !== undefined).join(' ')

/** The limits alone: '50 ms'; of a joint SLO as `sloText`. */
export const sloLimit = (slo: Slo): string =>
  slo.limits === undefined ? limitText(slo.limitMs) : sloText(slo)

/**
 * 'p99 <= 50 ms', 'TTFT p99 <= 200 ms'; of a joint one 'TTFT <= 200 ms and TPOT <= 30 ms for 99 %
 * of requests'; of classes with limits of their own 'chat: TTFT <= 200 ms, other: E2E <= 9000 ms,
 * each for 99 % of its requests'. Under another `limitMs` all limits of a joint SLO stand in the
 * proportion of the first (DistServe's "SLO scale").
 */
export function sloText(slo: Slo): string {
  if (slo.limits === undefined) return `${sloName(slo)} <= ${limitText(slo.limitMs)}`
  const all = limitsOf(slo)
  const text = (limits: readonly SloLimit[]) =>
    limits
      .map(({ metric, limitMs }) => `${latencyMetrics[metric].title} <= ${limitText(limitMs)}`)
      .join(' and ')
  const share = `${Number((slo.percentile * 100).toFixed(4))} %`
  if (all.every(({ requestClass }) => requestClass === undefined))
    return `${text(all)} for ${share} of requests${slo.classes ? ' of each class' : ''}`
  const each = slo.classes?.map((name) => `${name}: ${text(limitsFor(all, name))}`) ?? []
  return `${each.join(', ')}, each for ${share} of its requests`
}

const flagMs = (ms: number): string => `${Number(ms.toPrecision(12))}ms`

/**
 * As the command line takes it: 'p99<50ms', 'ttft p90<500ms', 'p90 ttft<200ms tpot<30ms'. It knows
 * no classes: of limits of theirs the strictest of each latency.
 */
export function sloFlag(slo: Slo): string {
  const p = percentileName(slo.percentile)
  if (slo.limits === undefined)
    return `${slo.metric === undefined ? '' : `${slo.metric} `}${p}<${flagMs(slo.limitMs)}`
  const all = limitsOf(slo)
  const metrics = [...new Set(all.map(({ metric }) => metric))]
  const strictest = (of: LatencyMetric) =>
    Math.min(...all.flatMap(({ metric, limitMs }) => (metric === of ? [limitMs] : [])))
  return `${p} ${metrics.map((metric) => `${metric}<${flagMs(strictest(metric))}`).join(' ')}`
}

/**
 * Decimals, from `least` on, with which a value reads on the side of a limit that it is on: 50.3
 * over 50 is not '50'. Three at most.
 */
function decimalsThatTell(value: number, limit: number, least: number): number {
  const over = value > limit
  let decimals = least
  while (decimals < 3 && Number(value.toFixed(decimals)) > limit !== over) decimals++
  return decimals
}

/**
 * A latency at the SLO percentile: '43 ms'; of a joint SLO '82 % of the limits'. What is over the
 * limit reads so.
 */
export function sloValue({ limits, limitMs }: Slo, ms: number): string {
  if (!Number.isFinite(ms)) return latency(ms)
  if (limits === undefined)
    return `${ms.toFixed(decimalsThatTell(ms, limitMs, ms < 10 ? 1 : 0))} ms`
  const percent = (100 * ms) / limitMs
  return `${percent.toFixed(decimalsThatTell(percent, 100, 0))} % of the limits`
}

/** 'TTFT p99 180 ms', 'p99 of TTFT and TPOT at 82 % of the limits'. */
export const sloFigure = (slo: Slo, ms: number): string =>
  `${sloName(slo)}${slo.limits ? ' at' : ''} ${sloValue(slo, ms)}`

/**
 * An axis of latencies under an SLO: its titles, what it shows of a latency, and where the limit
 * stands. Of a joint SLO parts of the limits.
 */
export interface SloAxis {
  /** Of the SLO percentile: 'TTFT p99 latency, ms', 'p99 of TTFT and TPOT, % of the limits'. */
  readonly name: string
  /** Of whatever percentile: 'TTFT, ms', 'TTFT and TPOT, % of the limits'. */
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
    latencyName: `${titlesOf(limits)}, % of the limits`,
    unit: '%',
    limit: 100,
    of,
  }
}

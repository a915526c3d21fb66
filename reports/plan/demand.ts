/** Demand over time: one period (a day, or a trace) that repeats. */

import { rate } from '../format.ts'

/** A rate in requests per second, and how long it lasts. */
export interface DemandSpan {
  readonly rps: number
  readonly seconds: number
}

export interface Demand {
  /** In time order, each as long as in its source: no peak is averaged away or left out. */
  readonly spans: readonly DemandSpan[]
  /** For people: 'a steady 100 req/s'. */
  readonly what: string
  /** Beginning of the period, seconds since 1970; absent: midnight of any day. */
  readonly beginsAtS?: number
  /** The trace names no time zone: `beginsAtS` is local time, read as if it were UTC. */
  readonly isLocalTime?: true
}

/** The demand cannot be read or planned for; `hint` says what to write. */
export class DemandError extends Error {
  constructor(
    message: string,
    readonly hint: string,
  ) {
    super(message)
    this.name = 'DemandError'
  }
  readonly exitCode = 2
}

export const daySeconds = 86_400

/** Creates a demand with the same rate around the clock. */
export function createSteadyDemand(rps: number): Demand {
  if (!(rps > 0 && Number.isFinite(rps)))
    throw new DemandError(
      `cannot plan for a demand of ${rps} requests per second`,
      'use a number above 0',
    )
  return { spans: [{ rps, seconds: daySeconds }], what: `a steady ${rate(rps)}` }
}

/**
 * Parses a day in hours: '0-8:20, 8-20:200, 20-24:60'. Every hour must occur once. Half hours are
 * written 8.5; a quarter of an hour (8.25) is the shortest step.
 */
export function parseDayTable(text: string): Demand {
  const hint = "write a day as '0-8:20, 8-20:200, 20-24:60' (hours: requests per second)"
  const stepSeconds = 900
  const rps = new Array<number>(daySeconds / stepSeconds).fill(Number.NaN)
  for (const part of text.split(',')) {
    const match = /^\s*(\d+(?:\.\d+)?)\s*-\s*(\d+(?:\.\d+)?)\s*:\s*(\d+(?:\.\d+)?)\s*$/.exec(part)
    const [from, to, value] = (match ?? []).slice(1).map(Number)
    if (from === undefined || to === undefined || value === undefined)
      throw new DemandError(`'${part.trim()}' is not a part of a day`, hint)
    if (to > 24 || from >= to) throw new DemandError(`${from}-${to} is not a span of hours`, hint)
    if (!Number.isFinite(value)) throw new DemandError(`'${part.trim()}' has no usable rate`, hint)
    const uneven = [from, to].find((hour) => hour % 0.25 !== 0)
    if (uneven !== undefined)
      throw new DemandError(
        `hour ${uneven} is not a multiple of a quarter of an hour`,
        'write 8, 8.25, 8.5 or 8.75, or use a trace for other lengths',
      )
    for (let i = from * 4; i < to * 4; i++) {
      if (!Number.isNaN(rps[i])) throw new DemandError(`hour ${i / 4} appears twice`, hint)
      rps[i] = value
    }
  }
  const missing = rps.findIndex(Number.isNaN)
  if (missing >= 0) throw new DemandError(`hour ${missing / 4} is missing`, hint)
  return requireDemand({ spans: toSpans(rps, stepSeconds), what: `a day of ${text.trim()}` })
}

/**
 * Common daily patterns, as shares of the peak, in steps of five minutes.
 * daily: a smooth valley at night (a fifth of the peak at 4 am) and a peak at 3 pm. evening-bursts:
 * a low day, then half-hour bursts between 7 and 11 pm. periodic-jobs: a batch of ten minutes at
 * the peak every hour over a low base. low-mean: nearly idle, with two short daily peaks.
 */
export const demandPatterns = ['daily', 'evening-bursts', 'periodic-jobs', 'low-mean'] as const
type DemandPattern = (typeof demandPatterns)[number]

const patternShapes: Readonly<Record<DemandPattern, (hour: number) => number>> = {
  daily: (hour) => 0.6 - 0.4 * Math.cos((2 * Math.PI * (hour - 3)) / 24),
  'evening-bursts': (hour) =>
    hour >= 19 && hour < 23 && hour % 1 < 0.5 ? 1 : hour >= 7 && hour < 23 ? 0.3 : 0.1,
  'periodic-jobs': (hour) => (hour % 1 < 1 / 6 ? 1 : 0.08),
  'low-mean': (hour) =>
    Math.max(
      0.05,
      Math.exp(-(((hour - 10) / 0.7) ** 2)),
      0.8 * Math.exp(-(((hour - 17) / 0.7) ** 2)),
    ),
}

/** Creates a day of a pattern whose highest rate is `peakRps`. */
export function createPatternDemand(pattern: DemandPattern, peakRps: number): Demand {
  if (!(peakRps > 0 && Number.isFinite(peakRps)))
    throw new DemandError(
      `cannot plan for a peak of ${peakRps} requests per second`,
      'set --peak to a number above 0',
    )
  const stepSeconds = 300
  const shares = Array.from({ length: daySeconds / stepSeconds }, (_, i) =>
    patternShapes[pattern]((i * stepSeconds) / 3600),
  )
  const highest = Math.max(...shares)
  return {
    spans: toSpans(
      shares.map((share) => (peakRps * share) / highest),
      stepSeconds,
    ),
    what: `pattern ${pattern} with a peak of ${rate(peakRps)}`,
  }
}

/** @throws DemandError if no request ever arrives */
export function requireDemand(demand: Demand): Demand {
  if (!(findPeakRps(demand) > 0))
    throw new DemandError('the demand is 0 all the time', 'there is nothing to plan')
  return demand
}

const toSpans = (rps: readonly number[], seconds: number): DemandSpan[] =>
  rps.map((r) => ({ rps: r, seconds }))

export const sumPeriodSeconds = ({ spans }: Pick<Demand, 'spans'>): number =>
  spans.reduce((sum, { seconds }) => sum + seconds, 0)
/** Second of the day at which the period begins: UTC, or local time where the trace has no zone. */
export const getSecondOfDay = ({ beginsAtS = 0 }: Pick<Demand, 'beginsAtS'>): number =>
  beginsAtS % daySeconds
/** Repeats the period of a demand until it takes at least `minSeconds`. */
export function repeatPeriod(demand: Demand, minSeconds: number): Demand {
  const times = Math.max(1, Math.ceil(minSeconds / sumPeriodSeconds(demand) - 1e-9))
  return times === 1
    ? demand
    : { ...demand, spans: Array.from({ length: times }, () => demand.spans).flat() }
}
export const findPeakRps = ({ spans }: Demand): number =>
  spans.reduce((max, { rps }) => Math.max(max, rps), 0)
export const findMinRps = ({ spans }: Demand): number =>
  spans.reduce((min, { rps }) => Math.min(min, rps), Number.POSITIVE_INFINITY)
/** Mean rate over the period. */
export const computeMeanRps = (demand: Demand): number =>
  demand.spans.reduce((sum, { rps, seconds }) => sum + rps * seconds, 0) / sumPeriodSeconds(demand)
export const scaleDemand = (demand: Demand, factor: number): Demand => ({
  ...demand,
  spans: demand.spans.map(({ rps, seconds }) => ({ rps: rps * factor, seconds })),
})

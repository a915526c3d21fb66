/** Demand over time: one period (a day, or a trace) that repeats. */

import { rate } from '../format.ts'
import { parseCsv } from '../report/csv.ts'

export interface Demand {
  /** Samples of requests per second, each held for `stepSeconds`. */
  readonly rps: readonly number[]
  readonly stepSeconds: number
  /** For people: 'a steady 100 req/s'. */
  readonly what: string
}

/** The demand cannot be read; `hint` says what form it has. */
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

const daySeconds = 86_400

/** The same rate around the clock. */
export function steadyDemand(rps: number): Demand {
  if (!(rps > 0 && Number.isFinite(rps)))
    throw new DemandError(`a demand of ${rps} requests per second cannot be planned for`, 'give a number above 0')
  return { rps: [rps], stepSeconds: daySeconds, what: `a steady ${rate(rps)}` }
}

/** A day in hours: '0-8:20, 8-20:200, 20-24:60'. Every hour must be there once; half hours are written 8.5. */
export function tableDemand(text: string): Demand {
  const hint = "write a day as '0-8:20, 8-20:200, 20-24:60' (hours: requests per second)"
  const stepSeconds = 900
  const rps = new Array<number>(daySeconds / stepSeconds).fill(Number.NaN)
  for (const part of text.split(',')) {
    const match = /^\s*(\d+(?:\.\d+)?)\s*-\s*(\d+(?:\.\d+)?)\s*:\s*(\d+(?:\.\d+)?)\s*$/.exec(part)
    const [from, to, value] = (match ?? []).slice(1).map(Number)
    if (from === undefined || to === undefined || value === undefined) throw new DemandError(`'${part.trim()}' is no part of a day`, hint)
    if (to > 24 || from >= to) throw new DemandError(`${from}-${to} is no span of hours`, hint)
    for (let i = Math.round(from * 4); i < Math.round(to * 4); i++) {
      if (!Number.isNaN(rps[i])) throw new DemandError(`hour ${i / 4} is given twice`, hint)
      rps[i] = value
    }
  }
  const missing = rps.findIndex(Number.isNaN)
  if (missing >= 0) throw new DemandError(`hour ${missing / 4} is not given`, hint)
  return checked({ rps, stepSeconds, what: `a day of ${text.trim()}` })
}

/**
 * A trace: two columns, timestamp (seconds, milliseconds or ISO 8601) and rate, with or without a header. Each rate holds until the next timestamp;
 * the last one as long as the one before it. Resampled to the median step.
 */
export function traceDemand(text: string, file: string): Demand {
  const hint = 'give two columns: timestamp (seconds or ISO 8601), requests per second'
  const rows = parseCsv(text)
  const body = rows.length > 0 && Number.isNaN(timeOf(rows[0]![0] ?? '')) ? rows.slice(1) : rows
  const header = body.length < rows.length ? 1 : 0
  const samples = body.map(([time, value], i) => {
    const sample = { at: timeOf(time ?? ''), rps: Number(value) }
    if (Number.isNaN(sample.at) || value?.trim() === '' || !(sample.rps >= 0 && Number.isFinite(sample.rps))) {
      throw new DemandError(`${file}, row ${i + 1 + header}: '${time},${value}' is no timestamp and rate`, hint)
    }
    return sample
  })
  if (samples.length < 2) throw new DemandError(`${file} has ${samples.length} rows`, `${hint}, at least two rows`)
  const gaps = samples.slice(1).map((s, i) => s.at - samples[i]!.at)
  const backwards = gaps.findIndex((gap) => gap <= 0)
  if (backwards >= 0)
    throw new DemandError(`${file}, row ${backwards + 2 + header}: the time does not go on`, 'sort the trace by time, each time once')
  const stepSeconds = [...gaps].sort((a, b) => a - b)[Math.floor(gaps.length / 2)]!
  const start = samples[0]!.at
  const total = samples.at(-1)!.at - start + gaps.at(-1)!
  const steps = Math.max(1, Math.round(total / stepSeconds))
  let at = 0
  const rps = Array.from({ length: steps }, (_, i) => {
    while (at + 1 < samples.length && samples[at + 1]!.at - start <= (i + 1e-9) * stepSeconds) at++
    return samples[at]!.rps
  })
  return checked({ rps, stepSeconds, what: `the trace ${file} (${steps} steps of ${stepSeconds} s)` })
}

/** Seconds. Numbers beyond the year 5138 in seconds are taken for milliseconds. */
function timeOf(text: string): number {
  const number = Number(text)
  if (text.trim() !== '' && !Number.isNaN(number)) return number > 1e11 ? number / 1000 : number
  return Date.parse(text) / 1000
}

/**
 * Shapes of practice, as shares of the peak over a day, in steps of five minutes.
 * daily: a smooth valley at night (a fifth of the peak at 4 am) and a peak at 3 pm. evening-bursts: a low day, then half-hour bursts between 7 and 11 pm.
 * periodic-jobs: a batch of ten minutes at the peak every hour over a low base. low-mean: nearly idle, with two short daily peaks.
 */
export const demandPatterns = ['daily', 'evening-bursts', 'periodic-jobs', 'low-mean'] as const
type DemandPattern = (typeof demandPatterns)[number]

const shapes: Readonly<Record<DemandPattern, (hour: number) => number>> = {
  daily: (hour) => 0.6 - 0.4 * Math.cos((2 * Math.PI * (hour - 3)) / 24),
  'evening-bursts': (hour) => (hour >= 19 && hour < 23 && hour % 1 < 0.5 ? 1 : hour >= 7 && hour < 23 ? 0.3 : 0.1),
  'periodic-jobs': (hour) => (hour % 1 < 1 / 6 ? 1 : 0.08),
  'low-mean': (hour) => Math.max(0.05, Math.exp(-(((hour - 10) / 0.7) ** 2)), 0.8 * Math.exp(-(((hour - 17) / 0.7) ** 2))),
}

/** A day of a pattern whose highest sample is `peakRps`. */
export function patternDemand(pattern: DemandPattern, peakRps: number): Demand {
  if (!(peakRps > 0 && Number.isFinite(peakRps)))
    throw new DemandError(`a peak of ${peakRps} requests per second cannot be planned for`, 'give --peak a number above 0')
  const stepSeconds = 300
  const shares = Array.from({ length: daySeconds / stepSeconds }, (_, i) => shapes[pattern]((i * stepSeconds) / 3600))
  const highest = Math.max(...shares)
  return {
    rps: shares.map((share) => (peakRps * share) / highest),
    stepSeconds,
    what: `pattern ${pattern} with a peak of ${rate(peakRps)}`,
  }
}

function checked(demand: Demand): Demand {
  if (!(peakOf(demand) > 0)) throw new DemandError('the demand is 0 all the time', 'there is nothing to plan')
  return demand
}

export const peakOf = (demand: Demand): number => demand.rps.reduce((peak, rps) => Math.max(peak, rps), 0)
export const meanOf = (demand: Demand): number => demand.rps.reduce((sum, rps) => sum + rps, 0) / demand.rps.length
export const scaled = (demand: Demand, factor: number): Demand => ({ ...demand, rps: demand.rps.map((rps) => rps * factor) })

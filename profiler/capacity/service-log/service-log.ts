/** The steps of a server from one departure to the next, as a run of load shows them. */
import type { LoadRun } from '../../model/load-run.ts'
import { meets, type Spans, type WatchedRun } from '../host-interference.ts'

/** Observed steps, one element each. */
export interface Steps {
  /** Requests present when the step began, from 1. */
  readonly present: number[]
  readonly tookMs: number[]
  readonly departed: number[]
  /** Place of the first departing request among those present, by arrival: 0 is the oldest. */
  readonly rank: number[]
  /** When it ended, ms from the start of its run. */
  readonly endedMs: number[]
  /**
   * How long the answers of its batch took from the first to the last, ms; 0 where they came at
   * once or singly.
   */
  readonly spreadMs: number[]
}

/**
 * A run of open load as its server served it, when the machine disturbed it, and the steps it
 * shows.
 */
export interface ObservedRun extends WatchedRun {
  readonly steps: Steps
}

export const noSteps: Steps = {
  present: [],
  tookMs: [],
  departed: [],
  rank: [],
  endedMs: [],
  spreadMs: [],
}

/**
 * What each request of a run needed, as steps of one request each, were its server of some kind.
 */
export interface Services {
  readonly steps: Steps
  /** Requests that were there when each arrived, beside itself. */
  readonly found: readonly number[]
}

/** Steps of one request each. */
export function stepsOfOne(tookMs: number[], endedMs: number[]): Steps {
  const each = (value: number) => new Array<number>(tookMs.length).fill(value)
  return { present: each(1), tookMs, departed: each(1), rank: each(0), endedMs, spreadMs: each(0) }
}

/**
 * Squared coefficient of variation of the gaps between departures beyond which a server answers in
 * bursts; 1 where they come at random.
 */
const bursty = 3
/**
 * How long the writing of a batch may pause, in times of `togetherMs`: either side may have to wait
 * for a core.
 */
const pause = 3.3

/** As a share of the unloaded latency. */
const togetherShare = 0.15

/** Departures this close, ms, are one batch. */
export const departuresTogetherMs = (unloadedMs: number): number => togetherShare * unloadedMs

/**
 * Steps of a run. Departures within `togetherMs` of the first are one batch; of a server that
 * answers in bursts, so long as one follows the other almost that closely and was there when the
 * step began: a large batch's answers are written one by one. Failed requests, those cut short and
 * steps that met a disturbance are left out.
 */
export function stepsOf(run: LoadRun, togetherMs: number, disturbed: Spans = []): Steps {
  const steps: Steps = {
    present: [],
    tookMs: [],
    departed: [],
    rank: [],
    endedMs: [],
    spreadMs: [],
  }
  const lastMs = (run.cutMs ?? Number.POSITIVE_INFINITY) - 1e-6
  const answered: number[] = []
  for (let i = 0; i < run.sentMs.length; i++) if (!Number.isNaN(run.latencyMs[i]!)) answered.push(i)
  const endMs = (i: number) => run.sentMs[i]! + run.latencyMs[i]!
  const leaving = answered.filter((i) => endMs(i) < lastMs).sort((a, b) => endMs(a) - endMs(b))
  const present: number[] = []
  let arrived = 0
  let beganMs = 0
  let began = 0
  const chained = burstiness(run.sentMs, leaving, endMs) > bursty
  // What arrives at the very time of an answer comes after the server has begun its next step.
  const arrivesBefore = (ms: number) =>
    arrived < answered.length && run.sentMs[answered[arrived]!]! < ms - 1e-6
  const admit = (untilMs: number) => {
    while (arrivesBefore(untilMs)) present.push(answered[arrived++]!)
  }
  for (let next = 0; next < leaving.length; ) {
    const atMs = endMs(leaving[next]!)
    // An idle server begins its next step with the arrival that ends its rest.
    if (began === 0 && arrivesBefore(atMs)) {
      beganMs = run.sentMs[answered[arrived]!]!
      began = 1
    }
    admit(atMs)
    let rank = Number.POSITIVE_INFINITY
    let departed = 0
    let endedMs = atMs
    const together = (request: number) =>
      endMs(request) <= atMs + togetherMs ||
      (chained && endMs(request) <= endedMs + pause * togetherMs && run.sentMs[request]! <= beganMs)
    while (next < leaving.length && together(leaving[next]!)) {
      if (chained) endedMs = endMs(leaving[next]!)
      const place = present.indexOf(leaving[next]!)
      if (place >= 0) {
        rank = Math.min(rank, place)
        departed++
        present.splice(place, 1)
      } else arrived = skipArrival(answered, arrived, leaving[next]!)
      next++
    }
    admit(endedMs)
    if (departed === 0) continue
    if (!meets(disturbed, beganMs, endedMs)) {
      steps.present.push(began)
      steps.tookMs.push(endedMs - beganMs)
      steps.departed.push(departed)
      steps.rank.push(rank)
      steps.endedMs.push(endedMs)
      steps.spreadMs.push(endedMs - atMs)
    }
    beganMs = endedMs
    began = present.length
  }
  return steps
}

const fewestRefused = 5
/**
 * A full queue refuses at about as many as it ever takes in: nine in ten of its refusals at so much
 * of that at least. Clients that lose patience leave it a little emptier.
 */
const nearlyFull = 0.6

/**
 * How many requests a server takes in before it refuses more, by how many were there at each
 * refusal: undefined where refusals do not tell of a full queue (they come at any number, as those
 * of a rate limit do), or are few.
 */
export function placesOf(runs: readonly LoadRun[]): number | undefined {
  const { counts, most } = refusedAt(runs)
  if (
    counts.length < fewestRefused ||
    most < 2 ||
    counts[Math.floor(counts.length / 10)]! < nearlyFull * most
  )
    return undefined
  return counts[Math.floor(counts.length / 2)]
}

/**
 * Requests that were there at refusals: at the tenth of them with the fewest, and with the most.
 * Undefined where few were refused.
 */
export function placesBetween(
  runs: readonly LoadRun[],
): readonly [least: number, most: number] | undefined {
  const { counts } = refusedAt(runs)
  const tenth = Math.floor(counts.length / 10)
  return counts.length < fewestRefused
    ? undefined
    : [counts[tenth]!, counts[counts.length - 1 - tenth]!]
}

/** Requests that were there at each refusal, ascending, and the most that ever were. */
function refusedAt(runs: readonly LoadRun[]): {
  readonly counts: readonly number[]
  readonly most: number
} {
  const counts: number[] = []
  let most = 0
  for (const { sentMs, latencyMs } of runs) {
    // Failed ones (NaN) stand last.
    const endsMs = sentMs.map((at, i) => at + latencyMs[i]!).sort()
    let [taken, left] = [0, 0]
    for (const [i, at] of sentMs.entries()) {
      while (endsMs[left]! <= at) left++
      if (Number.isNaN(latencyMs[i]!)) counts.push(taken - left)
      else most = Math.max(most, ++taken - left)
    }
  }
  return { counts: counts.sort((a, b) => a - b), most }
}

/**
 * Squared coefficient of variation of the gaps between departures of a server with something to do.
 */
function burstiness(
  sentMs: Float64Array,
  leaving: readonly number[],
  endMs: (request: number) => number,
): number {
  const gaps: number[] = []
  for (let i = 1; i < leaving.length; i++) {
    const beforeMs = endMs(leaving[i - 1]!)
    if (sentMs[leaving[i]!]! < beforeMs) gaps.push(endMs(leaving[i]!) - beforeMs)
  }
  const { mean, variance } = moments(gaps, [...gaps.keys()])
  return mean > 0 ? variance / mean ** 2 : 0
}

/** Takes a request that arrived and left within one batch out of those still to arrive. */
function skipArrival(answered: number[], from: number, request: number): number {
  const place = answered.indexOf(request, from)
  if (place >= 0) answered.splice(place, 1)
  return from
}

export function joinSteps(all: readonly Steps[]): Steps {
  const joined = (of: keyof Steps) => ([] as number[]).concat(...all.map((steps) => steps[of]))
  return {
    present: joined('present'),
    tookMs: joined('tookMs'),
    departed: joined('departed'),
    rank: joined('rank'),
    endedMs: joined('endedMs'),
    spreadMs: joined('spreadMs'),
  }
}

/** Those from one place up to another, as of an array. */
export function sliceSteps(steps: Steps, from: number, to?: number): Steps {
  return {
    present: steps.present.slice(from, to),
    tookMs: steps.tookMs.slice(from, to),
    departed: steps.departed.slice(from, to),
    rank: steps.rank.slice(from, to),
    endedMs: steps.endedMs.slice(from, to),
    spreadMs: steps.spreadMs.slice(from, to),
  }
}

/** Those of which something holds, by their place. */
export function stepsWhere(steps: Steps, holds: (i: number) => boolean): Steps {
  const those = (values: readonly number[]) => values.filter((_, i) => holds(i))
  return {
    present: those(steps.present),
    tookMs: those(steps.tookMs),
    departed: those(steps.departed),
    rank: those(steps.rank),
    endedMs: those(steps.endedMs),
    spreadMs: those(steps.spreadMs),
  }
}

/** Mean and variance of the values at some indices. */
export function moments(
  values: readonly number[],
  of: readonly number[],
): { mean: number; variance: number } {
  let sum = 0
  let squares = 0
  for (const i of of) {
    sum += values[i]!
    squares += values[i]! ** 2
  }
  const mean = sum / of.length
  return { mean, variance: Math.max(0, squares / of.length - mean ** 2) }
}

/** The service log of a server: its departures, extracted from a run of load. */
import type { LoadRun } from '../../model/load-run.ts'
import { computeMoments } from '../../statistics/moments.ts'
import { overlapsAny, type RunWithInterference, type TimeSpans } from '../host-interference.ts'

/**
 * A log of service steps, one array element each. A step leads from one departure, of a request or
 * a batch, to the next. At an idle server it begins with the next arrival.
 */
export interface ServiceLog {
  /** Requests in the system when the step began, from 1. */
  readonly present: number[]
  /** Duration of the step. */
  readonly tookMs: number[]
  /** Requests that departed at the end of the step: the batch size. */
  readonly departed: number[]
  /** Arrival rank of the first departing request among those present; 0 is the oldest. */
  readonly rank: number[]
  /** End of the step, ms from the start of its run. */
  readonly endedMs: number[]
  /**
   * Time from the first to the last answer of the departing batch, ms; 0 for simultaneous or single
   * answers.
   */
  readonly spreadMs: number[]
}

/**
 * A run of open load with actual send times, the spans of host interference, and its service log.
 */
export interface ObservedRun extends RunWithInterference {
  readonly log: ServiceLog
}

export const emptyServiceLog: ServiceLog = {
  present: [],
  tookMs: [],
  departed: [],
  rank: [],
  endedMs: [],
  spreadMs: [],
}

/**
 * Squared coefficient of variation (SCV) of the gaps between departures from which a server counts
 * as answering in bursts. Random departures have 1. Assumed.
 */
const minBurstyScv = 3
/**
 * Longest gap between answers of a batch that is written answer by answer, in units of
 * `coalescingMs`: the writer or the reader may have to wait for a core. Half of the unloaded
 * latency. Assumed.
 */
const maxWritePause = 3.3

/** Departure coalescing tolerance, as a share of the unloaded latency. Assumed. */
const coalescingShare = 0.15

/** Departures within this time of each other, ms, count as one batch. */
export const computeCoalescingMs = (unloadedMs: number): number => coalescingShare * unloadedMs

/**
 * Extracts the service log of a run. Departures within `coalescingMs` of the first one form a
 * batch. Servers that answer in bursts write a large batch answer by answer. Their batch also
 * includes later answers, each soon after the one before, whose requests were present when the step
 * began. Failed requests, requests that were cut short and steps during host interference are left
 * out.
 */
export function extractServiceLog(
  run: LoadRun,
  coalescingMs: number,
  disturbed: TimeSpans = [],
): ServiceLog {
  const log: ServiceLog = {
    present: [],
    tookMs: [],
    departed: [],
    rank: [],
    endedMs: [],
    spreadMs: [],
  }
  const lastMs = (run.cutMs ?? Number.POSITIVE_INFINITY) - roundingMs
  const answered = [...run.sentMs.keys()].filter((i) => !Number.isNaN(run.latencyMs[i]!))
  const endMs = (i: number) => run.sentMs[i]! + run.latencyMs[i]!
  const leaving = answered.filter((i) => endMs(i) < lastMs).sort((a, b) => endMs(a) - endMs(b))
  const isBursty = computeGapScv(run.sentMs, leaving, endMs) > minBurstyScv
  const system = new RequestsInSystem(run.sentMs, answered)
  // Of the current step: when it began, and the requests present then.
  let beganMs = 0
  let presentAtStart = 0
  for (let next = 0; next < leaving.length; ) {
    const firstMs = endMs(leaving[next]!)
    // An idle server begins its next step with the next arrival.
    if (presentAtStart === 0 && system.arrivesBefore(firstMs)) {
      beganMs = system.nextArrivalMs
      presentAtStart = 1
    }
    system.admitUntil(firstMs)
    const ranks: number[] = []
    let endedMs = firstMs
    const isSameBatch = (request: number) =>
      endMs(request) <= firstMs + coalescingMs ||
      (isBursty &&
        endMs(request) <= endedMs + maxWritePause * coalescingMs &&
        run.sentMs[request]! <= beganMs)
    for (; next < leaving.length && isSameBatch(leaving[next]!); next++) {
      if (isBursty) endedMs = endMs(leaving[next]!)
      const rank = system.remove(leaving[next]!)
      if (rank !== undefined) ranks.push(rank)
    }
    system.admitUntil(endedMs)
    if (ranks.length === 0) continue
    if (!overlapsAny(disturbed, beganMs, endedMs)) {
      log.present.push(presentAtStart)
      log.tookMs.push(endedMs - beganMs)
      log.departed.push(ranks.length)
      log.rank.push(Math.min(...ranks))
      log.endedMs.push(endedMs)
      log.spreadMs.push(endedMs - firstMs)
    }
    beganMs = endedMs
    presentAtStart = system.count
  }
  return log
}

/** A departure this soon after an arrival is simultaneous, ms. */
const roundingMs = 1e-6

/** Requests that have arrived and not departed, in arrival order. */
class RequestsInSystem {
  private readonly present: number[] = []
  /** Index of the next arrival among the answered requests. */
  private arrived = 0

  /** @param answered indices of the answered requests, in arrival order */
  constructor(
    private readonly sentMs: Float64Array,
    private readonly answered: number[],
  ) {}

  get count(): number {
    return this.present.length
  }

  get nextArrivalMs(): number {
    return this.sentMs[this.answered[this.arrived]!]!
  }

  /** A request that arrives at the time of an answer is not present when the next step begins. */
  arrivesBefore(ms: number): boolean {
    return this.arrived < this.answered.length && this.nextArrivalMs < ms - roundingMs
  }

  admitUntil(ms: number): void {
    while (this.arrivesBefore(ms)) this.present.push(this.answered[this.arrived++]!)
  }

  /**
   * Removes a departing request.
   * @returns its arrival rank among those present; undefined where it was not admitted yet, because
   * it arrived and left within one batch
   */
  remove(request: number): number | undefined {
    const rank = this.present.indexOf(request)
    if (rank >= 0) {
      this.present.splice(rank, 1)
      return rank
    }
    const position = this.answered.indexOf(request, this.arrived)
    if (position >= 0) this.answered.splice(position, 1)
    return undefined
  }
}

/** Refusals from which a system capacity is estimated. Assumed. */
const minRefusals = 5
/**
 * Refusals are due to a full queue where, at nine in ten of them, at least this share of the
 * maximum number of requests was present. The share is below 1, as clients that give up leave the
 * queue. Assumed.
 */
const minFullShare = 0.6

/**
 * Estimates the system capacity K (workers and queue) as the median number of requests present at
 * refusals. Undefined with few refusals. Undefined also where requests are refused at any queue
 * length, as by a rate limit.
 */
export function estimateSystemCapacity(runs: readonly LoadRun[]): number | undefined {
  const { counts, max } = countPresentAtRefusals(runs)
  if (
    counts.length < minRefusals ||
    max < 2 ||
    counts[Math.floor(counts.length / 10)]! < minFullShare * max
  )
    return undefined
  return counts[Math.floor(counts.length / 2)]
}

/**
 * Bounds the system capacity by the 10 % and 90 % quantiles of the requests present at refusals.
 * Undefined with few refusals.
 */
export function boundSystemCapacity(
  runs: readonly LoadRun[],
): readonly [min: number, max: number] | undefined {
  const { counts } = countPresentAtRefusals(runs)
  const tenth = Math.floor(counts.length / 10)
  return counts.length < minRefusals
    ? undefined
    : [counts[tenth]!, counts[counts.length - 1 - tenth]!]
}

/** Counts the requests present at each refusal, ascending, and the maximum ever present. */
function countPresentAtRefusals(runs: readonly LoadRun[]): {
  readonly counts: readonly number[]
  readonly max: number
} {
  const counts: number[] = []
  let max = 0
  for (const { sentMs, latencyMs } of runs) {
    // Failed requests (NaN) sort last.
    const endsMs = sentMs.map((at, i) => at + latencyMs[i]!).sort()
    let [admitted, departed] = [0, 0]
    for (const [i, at] of sentMs.entries()) {
      while (endsMs[departed]! <= at) departed++
      if (Number.isNaN(latencyMs[i]!)) counts.push(admitted - departed)
      else max = Math.max(max, ++admitted - departed)
    }
  }
  return { counts: counts.sort((a, b) => a - b), max }
}

/** Computes the SCV of the gaps between departures while the server was busy. */
function computeGapScv(
  sentMs: Float64Array,
  leaving: readonly number[],
  endMs: (request: number) => number,
): number {
  const gaps: number[] = []
  for (let i = 1; i < leaving.length; i++) {
    const beforeMs = endMs(leaving[i - 1]!)
    if (sentMs[leaving[i]!]! < beforeMs) gaps.push(endMs(leaving[i]!) - beforeMs)
  }
  const { mean, variance } = computeMoments(gaps)
  return mean > 0 ? variance / mean ** 2 : 0
}

export function joinServiceLogs(all: readonly ServiceLog[]): ServiceLog {
  const concatenate = (column: keyof ServiceLog) =>
    ([] as number[]).concat(...all.map((log) => log[column]))
  return {
    present: concatenate('present'),
    tookMs: concatenate('tookMs'),
    departed: concatenate('departed'),
    rank: concatenate('rank'),
    endedMs: concatenate('endedMs'),
    spreadMs: concatenate('spreadMs'),
  }
}

/** Keeps the steps whose index satisfies a predicate. */
export function filterServiceLog(log: ServiceLog, predicate: (i: number) => boolean): ServiceLog {
  const select = (values: readonly number[]) => values.filter((_, i) => predicate(i))
  return {
    present: select(log.present),
    tookMs: select(log.tookMs),
    departed: select(log.departed),
    rank: select(log.rank),
    endedMs: select(log.endedMs),
    spreadMs: select(log.spreadMs),
  }
}

/**
 * Service times of a run under an assumed discipline.
 *
 * Given the discipline, the start of every service follows from the arrivals and departures alone
 * (recursion of G/G/m: Kiefer and Wolfowitz 1955): a worker is free, and the batch is full or has
 * waited for the delay.
 */
import { median } from 'simple-statistics'
import type { LoadRun } from '../../model/load-run.ts'
import { findIndexOfMin } from '../../statistics/index-of-min.ts'
import { overlapsAny, type RunWithInterference } from '../host-interference.ts'
import {
  computeCoalescingMs,
  filterServiceLog,
  joinServiceLogs,
  type ServiceLog,
} from '../service-log/service-log.ts'
import { collectSojourns } from '../service-log/sojourns.ts'
import { evaluateLine, fitLine } from './bulk-service.ts'
import { type ServiceDiscipline, startDelay } from './service-discipline.ts'

export interface ServiceTimes {
  /** One step for each service: `present` and `departed` are the size of the batch. */
  readonly log: ServiceLog
  /** Other requests in the system when the oldest request of the service arrived. */
  readonly foundPresent: readonly number[]
  /** Whether the service, or its delay, began when a worker became free. */
  readonly waited: readonly boolean[]
  /**
   * Waits, ms, of the last requests that joined a batch after a worker was free, and of the next
   * requests that did not join it although it had room.
   */
  readonly waits: { readonly joinedMs: readonly number[]; readonly missedMs: readonly number[] }
  /** Requests of the run that were answered. */
  readonly requests: number
  /**
   * Requests that contradict the discipline: their batch left room for others that had arrived, or
   * held others that arrived after its start, or they overtook more requests than can be in
   * service.
   */
  readonly contradicting: number
}

/**
 * Part of the departure coalescing tolerance within which answers belong to one batch where several
 * workers may end at about the same time.
 */
export const closeDeparturesShare = 0.2
/**
 * Part of the tolerance within which a request that arrived after the computed start belongs to the
 * batch, where several workers may end at about the same time.
 */
const lateToleranceShare = 0.02
/** Tolerance for the rounding of times, ms: requests that were cut short end at the cut. */
const roundingMs = 1e-6
/** Part of the tolerance by which requests may miss the computed start of their batch. */
const startToleranceShare = 1 / 3

/**
 * Extracts the services of a run. Failed requests, requests that were cut short and services during
 * host interference are left out.
 * @param unloadedMs median unloaded latency
 */
export function extractServiceTimes(
  { run, disturbed }: RunWithInterference,
  discipline: ServiceDiscipline,
  unloadedMs: number,
): ServiceTimes {
  const { workers, maxBatch, maxDelayMs, overheadMs } = discipline
  const { sentMs, endMs, foundPresent } = collectSojourns(run, overheadMs)
  const n = sentMs.length
  const lastMs = (run.cutMs ?? Number.POSITIVE_INFINITY) - roundingMs
  // An unloaded request waits for the delay, which says nothing of how close departures are.
  const coalescingMs = computeCoalescingMs(
    Math.max(0, unloadedMs - (maxBatch > 1 ? maxDelayMs : 0)),
  )
  const departureToleranceMs = (workers > 1 ? closeDeparturesShare : 1) * coalescingMs
  const startToleranceMs = startToleranceShare * coalescingMs
  const lateToleranceMs = workers > 1 ? lateToleranceShare * coalescingMs : departureToleranceMs
  const freeMs = new Float64Array(workers).fill(Number.NEGATIVE_INFINITY)
  const [size, tookMs, endedMs, found]: number[][] = [[], [], [], []]
  const waited: boolean[] = []
  const [joinedMs, missedMs]: [number[], number[]] = [[], []]
  let contradicting = countOvertaking(run, workers * maxBatch)
  for (let first = 0; first < n; ) {
    const worker = findIndexOfMin(freeMs)
    const openMs = startDelay(discipline, sentMs[first]!, freeMs[worker]!)
    const dueMs = Math.min(
      openMs + maxDelayMs,
      sentMs[first + maxBatch - 1] ?? Number.POSITIVE_INFINITY,
    )
    const beganMs = Math.max(freeMs[worker]!, dueMs)
    if (beganMs >= lastMs) break
    const end = Math.min(n, first + maxBatch)
    let next = first + 1
    let hasLate = false
    for (; next < end; next++) {
      const gapMs = Math.abs(endMs[next]! - endMs[next - 1]!)
      const isLate = sentMs[next]! > beganMs + startToleranceMs
      if (gapMs > (isLate ? lateToleranceMs : departureToleranceMs)) break
      hasLate ||= isLate
    }
    const leavesRoom = next < end && sentMs[next]! <= beganMs - startToleranceMs
    if (hasLate || leavesRoom) contradicting += next - first
    if (sentMs[next - 1]! > Math.max(freeMs[worker]!, openMs))
      joinedMs.push(sentMs[next - 1]! - openMs)
    if (next < end && sentMs[next]! > freeMs[worker]!) missedMs.push(sentMs[next]! - openMs)
    const departedMs = endMs[next - 1]!
    if (departedMs < lastMs && !overlapsAny(disturbed, beganMs, departedMs)) {
      size!.push(next - first)
      tookMs!.push(Math.max(0, departedMs - beganMs))
      endedMs!.push(departedMs)
      found!.push(foundPresent[first]!)
      waited.push(openMs > sentMs[first]! || freeMs[worker]! > dueMs)
    }
    freeMs[worker] = Math.max(departedMs, beganMs)
    first = next
  }
  const createZeros = () => new Array<number>(size!.length).fill(0)
  const log = {
    present: size!,
    departed: size!,
    tookMs: tookMs!,
    endedMs: endedMs!,
    rank: createZeros(),
    spreadMs: createZeros(),
  }
  return {
    log,
    foundPresent: found!,
    waited,
    waits: { joinedMs, missedMs },
    requests: n,
    contradicting,
  }
}

/**
 * Counts requests that overtook at least `maxInService` older ones. Under first come, first served
 * only requests in service can be overtaken.
 */
function countOvertaking(run: LoadRun, maxInService: number): number {
  let overtaken = overtakenByRun.get(run)
  if (overtaken === undefined) {
    overtaken = listOvertaken(run)
    overtakenByRun.set(run, overtaken)
  }
  return overtaken.filter((older) => older >= maxInService).length
}
/** Many candidate disciplines are tried on the same run. */
const overtakenByRun = new WeakMap<LoadRun, readonly number[]>()

/** Counts the older requests that each request overtook, in departure order. */
function listOvertaken(run: LoadRun): number[] {
  const { sentMs, endMs, leaving } = collectSojourns(run)
  const lastMs = (run.cutMs ?? Number.POSITIVE_INFINITY) - roundingMs
  const present: number[] = []
  let arrived = 0
  const overtaken: number[] = []
  for (const i of leaving) {
    if (endMs[i]! >= lastMs) break
    while (arrived < sentMs.length && sentMs[arrived]! <= endMs[i]!) present.push(arrived++)
    const older = present.indexOf(i)
    present.splice(older, 1)
    overtaken.push(older)
  }
  return overtaken
}

/**
 * Estimates the time that services of a free worker take longer than those that waited, at equal
 * batch sizes: the median excess, ms. Requests that wait spend an overhead, or a batching delay, in
 * the queue. 0 where either group is too small.
 * @param minServices smallest group
 */
export function estimateExcess(runs: readonly ServiceTimes[], minServices: number): number {
  const joinLogs = (didWait: boolean): ServiceLog =>
    joinServiceLogs(runs.map(({ log, waited }) => selectServices(log, waited, didWait)))
  const [free, waited] = [joinLogs(false), joinLogs(true)]
  if (Math.min(free.tookMs.length, waited.tookMs.length) < minServices) return 0
  const line = fitLine(waited)
  const computeMedianExcess = ({ tookMs, departed }: ServiceLog) =>
    median(tookMs.map((ms, i) => ms - evaluateLine(line, departed[i]!)))
  return Math.max(0, computeMedianExcess(free) - computeMedianExcess(waited))
}

/**
 * Estimates the batching delay, ms: the one that the fewest waits contradict. Requests join a batch
 * within the delay, and not after it.
 */
export function estimateDelay(runs: readonly ServiceTimes[]): number {
  const joined = runs.flatMap(({ waits }) => waits.joinedMs.map((ms) => ({ ms, joins: true })))
  const missed = runs.flatMap(({ waits }) => waits.missedMs.map((ms) => ({ ms, joins: false })))
  const waits = [...joined, ...missed].sort((a, b) => a.ms - b.ms)
  let contradicting = joined.length
  let [minContradicting, delayMs] = [contradicting, 0]
  for (const [i, { ms, joins }] of waits.entries()) {
    contradicting += joins ? -1 : 1
    if (contradicting >= minContradicting) continue
    minContradicting = contradicting
    delayMs = (ms + (waits[i + 1]?.ms ?? ms)) / 2
  }
  return delayMs
}

const selectServices = (log: ServiceLog, waited: readonly boolean[], didWait: boolean) =>
  filterServiceLog(log, (i) => waited[i] === didWait)

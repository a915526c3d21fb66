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
  readonly systemSizeAtArrival: readonly number[]
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
  const { arrivedMs, departedMs, systemSizeAtArrival } = collectSojourns(run, overheadMs)
  const n = arrivedMs.length
  const lastMs = (run.cutMs ?? Number.POSITIVE_INFINITY) - roundingMs
  // An unloaded request waits for the delay, which says nothing of how close departures are.
  const coalescingMs = computeCoalescingMs(
    Math.max(0, unloadedMs - (maxBatch > 1 ? maxDelayMs : 0)),
  )
  const departureToleranceMs = (workers > 1 ? closeDeparturesShare : 1) * coalescingMs
  const startToleranceMs = startToleranceShare * coalescingMs
  const lateToleranceMs = workers > 1 ? lateToleranceShare * coalescingMs : departureToleranceMs
  const freeMs = new Float64Array(workers).fill(Number.NEGATIVE_INFINITY)
  const size: number[] = []
  const tookMs: number[] = []
  const endedMs: number[] = []
  const systemSizeAtOldest: number[] = []
  const waited: boolean[] = []
  const joinedMs: number[] = []
  const missedMs: number[] = []
  let contradicting = countOvertaking(run, workers * maxBatch)
  for (let first = 0; first < n; ) {
    const worker = findIndexOfMin(freeMs)
    const openMs = startDelay(discipline, arrivedMs[first]!, freeMs[worker]!)
    const dueMs = Math.min(
      openMs + maxDelayMs,
      arrivedMs[first + maxBatch - 1] ?? Number.POSITIVE_INFINITY,
    )
    const beganMs = Math.max(freeMs[worker]!, dueMs)
    if (beganMs >= lastMs) break
    const end = Math.min(n, first + maxBatch)
    let next = first + 1
    let hasLate = false
    for (; next < end; next++) {
      const gapMs = Math.abs(departedMs[next]! - departedMs[next - 1]!)
      const isLate = arrivedMs[next]! > beganMs + startToleranceMs
      if (gapMs > (isLate ? lateToleranceMs : departureToleranceMs)) break
      hasLate ||= isLate
    }
    const leavesRoom = next < end && arrivedMs[next]! <= beganMs - startToleranceMs
    if (hasLate || leavesRoom) contradicting += next - first
    if (arrivedMs[next - 1]! > Math.max(freeMs[worker]!, openMs))
      joinedMs.push(arrivedMs[next - 1]! - openMs)
    if (next < end && arrivedMs[next]! > freeMs[worker]!) missedMs.push(arrivedMs[next]! - openMs)
    const batchDepartedMs = departedMs[next - 1]!
    if (batchDepartedMs < lastMs && !overlapsAny(disturbed, beganMs, batchDepartedMs)) {
      size.push(next - first)
      tookMs.push(Math.max(0, batchDepartedMs - beganMs))
      endedMs.push(batchDepartedMs)
      systemSizeAtOldest.push(systemSizeAtArrival[first]!)
      waited.push(openMs > arrivedMs[first]! || freeMs[worker]! > dueMs)
    }
    freeMs[worker] = Math.max(batchDepartedMs, beganMs)
    first = next
  }
  const createZeros = () => new Array<number>(size.length).fill(0)
  const log = {
    present: size,
    departed: size,
    tookMs,
    endedMs,
    rank: createZeros(),
    spreadMs: createZeros(),
  }
  return {
    log,
    systemSizeAtArrival: systemSizeAtOldest,
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
/** Memoised by run, because many candidate disciplines are tried on the same one. */
const overtakenByRun = new WeakMap<LoadRun, readonly number[]>()

/** Counts the older requests that each request overtook, in departure order. */
function listOvertaken(run: LoadRun): number[] {
  const { arrivedMs, departedMs, departureOrder } = collectSojourns(run)
  const lastMs = (run.cutMs ?? Number.POSITIVE_INFINITY) - roundingMs
  const present: number[] = []
  let arrivals = 0
  const overtaken: number[] = []
  for (const i of departureOrder) {
    if (departedMs[i]! >= lastMs) break
    while (arrivals < arrivedMs.length && arrivedMs[arrivals]! <= departedMs[i]!)
      present.push(arrivals++)
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
  let minContradicting = contradicting
  let delayMs = 0
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

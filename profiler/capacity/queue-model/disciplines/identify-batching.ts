/** Identifies dynamic batching (batching.ts) from open windows. */
import { sum } from 'simple-statistics'
import type { LoadRun } from '../../../model/load-run.ts'
import { indexOfMin } from '../../../statistics/index-of-min.ts'
import { overlapsAny, type RunWithInterference } from '../../host-interference.ts'
import { joinServiceLogs, type ServiceLog } from '../../service-log/service-log.ts'
import { collectSojourns } from '../../service-log/sojourns.ts'
import { typicalDurations } from '../../service-log/typical-durations.ts'
import { type Batching, computeBatchStart } from '../batching.ts'
import { areBatchesSimilar } from './batch-similarity.ts'

interface IdentifiedBatching extends Batching {
  /** Batch durations by size, for each window, in order of their start. */
  readonly windows: readonly ServiceLog[]
  /**
   * Batch durations of the closed loops with the same parameters. They include full batches, which
   * are rare in open windows of slow batches.
   */
  readonly loops: readonly ServiceLog[]
}

const maxWorkers = 8
/** Batches of two or more that an identification needs. */
const minBatches = 12
/**
 * Largest share of requests that may contradict the parameters. A batch contradicts them where it
 * lacks requests that had arrived by its start, or holds requests that had not.
 */
const maxContradictedShare = 0.08
/**
 * An explanation is better where it leaves this much less of the requests unexplained, or less by
 * the factor `minRatio`.
 */
const minGain = 0.02
const minRatio = 2
/** Unexplained share below which a further reduction is no improvement. */
const negligibleShare = 0.003
/** Spread of batch durations below which a smaller spread is no improvement. */
const minSpread = 0.02
/**
 * A batch contradicts the parameters where it takes less than this factor on its typical duration:
 * it began earlier than they imply.
 */
const minDurationFactor = 0.5
/**
 * A batch is implausible where it takes more than this factor on the duration of larger ones: part
 * of its time was a delay.
 */
const maxDurationFactor = 1.5
/**
 * A group of departures is split into two batches only where both take their typical duration,
 * within this share.
 */
const maxSplitDifference = 0.1
/**
 * Part of the departure coalescing tolerance that is used where different batches may depart soon
 * after each other: for concurrent batches, and where the delay is most of the unloaded latency.
 */
const closeDeparturesShare = 0.2
/** Candidate overheads, as shares of the unloaded latency. */
const overheadShares = [0.03, 0.06, 0.1, 0.15, 0.2, 0.3]

/**
 * Identifies batching: the simplest parameters that explain nearly all requests. Undefined for
 * servers without batches, or of another discipline.
 * @param loops closed loops in time order; read backwards until one contradicts the parameters
 * @param largest largest batch of the closed loops
 * @param coalescingMs departure coalescing tolerance
 */
export function identifyBatching(
  windows: readonly RunWithInterference[],
  loops: readonly LoadRun[],
  largest: number,
  coalescingMs: number,
  unloadedMs: number,
): IdentifiedBatching | undefined {
  const best = findBestBatching(windows, loops, largest, coalescingMs, unloadedMs)
  if (best === undefined || best.contradicted > maxContradictedShare) return undefined
  const openLog = joinServiceLogs(best.windows)
  const similarLoops: ServiceLog[] = []
  for (const run of loops.toReversed()) {
    const loop = [{ run, disturbed: [] }]
    const found = explain(
      loop,
      [groupDepartures(run, best.workers > 1 ? closeDeparturesShare * coalescingMs : coalescingMs)],
      best,
      coalescingMs,
    )
    if (found.contradicted > maxContradictedShare || !areBatchesSimilar(openLog, found.windows[0]!))
      break
    similarLoops.unshift(found.windows[0]!)
  }
  // Too few workers, or too short a delay, can explain open windows of nearly full batches, but not
  // a loop of other batches.
  return loops.length > 0 && similarLoops.length === 0
    ? undefined
    : { ...best, loops: similarLoops }
}

/** Extracts batch durations of runs under given parameters. */
export function extractBatchServices(
  windows: readonly RunWithInterference[],
  batching: Batching,
  coalescingMs: number,
): readonly ServiceLog[] {
  const groups = windows.map(({ run }) =>
    groupDepartures(run, batching.workers > 1 ? closeDeparturesShare * coalescingMs : coalescingMs),
  )
  return explain(windows, groups, batching, coalescingMs).windows
}

/** Finds the parameters that explain the batches best, from few workers to many. */
function findBestBatching(
  windows: readonly RunWithInterference[],
  loops: readonly LoadRun[],
  largest: number,
  coalescingMs: number,
  unloadedMs: number,
): Explanation | undefined {
  const groupsWithin = (ms: number) => windows.map(({ run }) => groupDepartures(run, ms))
  const [groups, close] = [
    groupsWithin(coalescingMs),
    groupsWithin(closeDeparturesShare * coalescingMs),
  ]
  if (close.flatMap(({ sizes }) => sizes).filter((size) => size > 1).length < minBatches)
    return undefined
  const maxSimultaneous = findRepeatedMax(
    loops.flatMap((run) =>
      selectSimultaneous(
        groupDepartures(run, closeDeparturesShare * coalescingMs),
        closeDeparturesShare * coalescingMs,
      ),
    ),
  )
  let best: Explanation | undefined
  const consider = (batching: Omit<Batching, 'delayMs'>, of: readonly DepartureGroups[]) => {
    const delayMs = estimateDelay(of, batching, unloadedMs)
    const at = (ms: number) => {
      const found = explain(windows, of, { ...batching, delayMs: ms }, coalescingMs)
      if (best === undefined || explainsBetter(found, best)) best = found
      return found
    }
    const undelayed = at(0)
    if (delayMs === 0) return
    at(delayMs)
    // A single request waits for the whole delay, and its service takes no longer than that of a
    // full batch. This bounds the delay from below. Where batches are nearly always full, the
    // arrivals hardly determine the delay, and the bound is the better estimate.
    const byIdleMs = unloadedMs - batching.overheadMs - undelayed.fullMs
    if (byIdleMs > delayMs) at(byIdleMs)
  }
  // No more batches depart at once than there are workers. Closed loops show the maximum, as their
  // clients start together.
  for (
    let workers = 1;
    workers <= Math.min(maxWorkers, (best?.workers ?? maxWorkers) + 2);
    workers++
  )
    for (const of of workers === 1 ? [groups, close] : [close])
      for (const maxBatch of proposeMaxBatches(of, largest).filter(
        (size) => workers * size >= maxSimultaneous,
      )) {
        for (const since of ['arrival', 'free'] as const)
          consider({ workers, maxBatch, since, overheadMs: 0 }, of)
        if (best !== undefined && best.implausible < negligibleShare) return best
      }
  if (best === undefined) return undefined
  const { workers, maxBatch, since } = best
  for (const share of overheadShares)
    consider(
      { workers, maxBatch, since, overheadMs: share * unloadedMs },
      workers === 1 ? groups : close,
    )
  return best
}

/**
 * Compares explanations by the share that they leave unexplained, then by the spread of the
 * durations of equal batches.
 */
function explainsBetter(candidate: Explanation, best: Explanation): boolean {
  if (isClearlyLess(candidate.implausible, best.implausible)) return true
  return (
    !isClearlyLess(best.implausible, candidate.implausible) &&
    best.spread > minSpread &&
    candidate.spread < best.spread / minRatio
  )
}
const isClearlyLess = (a: number, b: number): boolean =>
  a < b - minGain || (a < b / minRatio && a < b - negligibleShare)

/**
 * Proposes sizes of a full batch: the largest, the largest repeated and the most frequent one. The
 * largest alone may be two batches that departed at once.
 */
function proposeMaxBatches(groups: readonly DepartureGroups[], largest: number): number[] {
  const sizes = groups.flatMap((each) => each.sizes)
  const maxBatch = Math.max(...sizes)
  const counts = new Map<number, number>()
  for (const size of sizes) if (size > 1) counts.set(size, (counts.get(size) ?? 0) + size)
  const [frequent] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a), [1, 0])
  return [
    ...new Set([Math.max(largest, maxBatch), maxBatch, findRepeatedMax(sizes), frequent]),
  ].filter((size) => size > 1)
}

/** The largest size that occurs three times; 1 without one. */
function findRepeatedMax(sizes: readonly number[]): number {
  const descending = sizes.toSorted((a, b) => b - a)
  return descending.find((size, i) => size === descending[i + 2]) ?? 1
}

/** Consecutive arrivals that departed together. */
interface DepartureGroups {
  readonly sentMs: Float64Array
  readonly endMs: Float64Array
  /** Group sizes in arrival order: the first group begins with request 0. */
  readonly sizes: readonly number[]
}

function groupDepartures(run: LoadRun, coalescingMs: number): DepartureGroups {
  const { sentMs, endMs } = collectSojourns(run)
  const lastMs = (run.cutMs ?? Number.POSITIVE_INFINITY) - 1e-6
  const sizes: number[] = []
  let from = 0
  for (let i = 1; i <= endMs.length; i++) {
    if (i < endMs.length && Math.abs(endMs[i]! - endMs[i - 1]!) <= coalescingMs) continue
    if (endMs[from]! >= lastMs) break
    sizes.push(i - from)
    from = i
  }
  return { sentMs, endMs, sizes }
}

/** Selects the sizes of groups whose first and last request departed within this time, ms. */
function selectSimultaneous({ endMs, sizes }: DepartureGroups, withinMs: number): number[] {
  let next = 0
  return sizes.filter((size) => {
    const first = next
    next += size
    return Math.abs(endMs[next - 1]! - endMs[first]!) <= withinMs
  })
}

/**
 * Estimates the delay that the fewest batches contradict: the middle of the best interval. A batch
 * that found a free worker holds requests that arrived within the delay of its oldest one, and none
 * that arrived later.
 */
function estimateDelay(
  groups: readonly DepartureGroups[],
  { workers, maxBatch, since, overheadMs }: Omit<Batching, 'delayMs'>,
  unloadedMs: number,
): number {
  const minDelaysMs: number[] = []
  const maxDelaysMs: number[] = []
  for (const { sentMs, endMs, sizes } of groups) {
    const freeMs = new Float64Array(workers).fill(Number.NEGATIVE_INFINITY)
    let first = 0
    for (const size of sizes) {
      const [last, next] = [first + size - 1, first + size]
      const worker = indexOfMin(freeMs)
      const arrivedMs = sentMs[first]! + overheadMs
      const fromMs = since === 'arrival' ? arrivedMs : Math.max(arrivedMs, freeMs[worker]!)
      const waitedMs = sentMs[last]! + overheadMs - fromMs
      // A last request that arrived after a worker was free bounds the delay from below; the next
      // request after a batch that was not full bounds it from above.
      if (sentMs[last]! + overheadMs > freeMs[worker]! && waitedMs > 0) minDelaysMs.push(waitedMs)
      if (size < maxBatch && next < sentMs.length && sentMs[next]! + overheadMs > freeMs[worker]!)
        maxDelaysMs.push(sentMs[next]! + overheadMs - fromMs)
      freeMs[worker] = Math.max(freeMs[worker]!, endMs[last]!)
      first = next
    }
  }
  const candidates = [0, ...minDelaysMs, ...maxDelaysMs]
    .filter((ms) => ms <= unloadedMs)
    .sort((a, b) => a - b)
  minDelaysMs.sort((a, b) => a - b)
  maxDelaysMs.sort((a, b) => a - b)
  let [explainedWaits, contradictedWaits] = [0, 0]
  let [minWrong, from, to] = [Number.POSITIVE_INFINITY, 0, 0]
  for (const [i, ms] of candidates.entries()) {
    while (explainedWaits < minDelaysMs.length && minDelaysMs[explainedWaits]! <= ms)
      explainedWaits++
    while (contradictedWaits < maxDelaysMs.length && maxDelaysMs[contradictedWaits]! <= ms)
      contradictedWaits++
    const wrong = minDelaysMs.length - explainedWaits + contradictedWaits
    const next = candidates[i + 1] ?? ms
    if (wrong < minWrong) [minWrong, from, to] = [wrong, ms, next]
    else if (wrong === minWrong && to === ms) to = next
  }
  return (from + to) / 2
}

interface Explanation extends Omit<IdentifiedBatching, 'loops'> {
  /**
   * Share of requests whose batches contradict the parameters, by members or by far too short a
   * duration.
   */
  readonly contradicted: number
  /** The same, plus requests whose batches took far longer than larger ones do. */
  readonly implausible: number
  /** Mean relative deviation of batch durations from the typical duration of their size. */
  readonly spread: number
  /** Typical duration of a full batch, whose start is known for any delay; NaN without one. */
  readonly fullMs: number
}

/**
 * Extracts the batches that the parameters imply, and the share of requests that contradict them.
 */
function explain(
  windows: readonly RunWithInterference[],
  groups: readonly DepartureGroups[],
  batching: Batching,
  coalescingMs: number,
): Explanation {
  const toleranceMs = coalescingMs / 3
  let [unexplained, all] = [0, 0]
  /** Parts of groups that are taken for two batches which departed at once. */
  const splitBatches: { readonly size: number; readonly tookMs: number }[] = []
  const batches = windows.map(({ run, disturbed }, w) => {
    const log = {
      present: [],
      tookMs: [],
      departed: [],
      rank: [],
      endedMs: [],
      spreadMs: [],
    } as Record<keyof ServiceLog, number[]>
    const { sentMs, endMs, sizes } = groups[w]!
    const freeMs = new Float64Array(batching.workers).fill(Number.NEGATIVE_INFINITY)
    const lastMs = (run.cutMs ?? Number.POSITIVE_INFINITY) - 1e-6
    let first = 0
    for (const size of sizes) {
      for (const end = first + size; first < end; ) {
        const worker = indexOfMin(freeMs)
        const beganMs = computeBatchStart(batching, sentMs, first, freeMs[worker]!)
        let batchSize = 1
        const hasArrived = (by: number) =>
          first + batchSize < sentMs.length &&
          sentMs[first + batchSize]! + batching.overheadMs <= beganMs + by
        while (batchSize < batching.maxBatch && first + batchSize < end && hasArrived(toleranceMs))
          batchSize++
        const batch = batching.workers > 1 ? batchSize : end - first
        // Requests had arrived in time that are not in the batch, although it had room for them.
        const others =
          first + batchSize === end && batchSize < batching.maxBatch && hasArrived(-toleranceMs)
        all += batch
        if (others || batch > batchSize) unexplained += batch
        const endedMs = endMs[first + batch - 1]!
        freeMs[worker] = Math.max(freeMs[worker]!, endedMs)
        if (endedMs < lastMs && !overlapsAny(disturbed, beganMs, endedMs)) {
          log.present.push(batch)
          log.departed.push(batch)
          log.tookMs.push(Math.max(0, endedMs - beganMs))
          log.endedMs.push(endedMs)
          log.rank.push(0)
          log.spreadMs.push(endedMs - endMs[first]!)
          if (batch < size && size <= batching.maxBatch)
            splitBatches.push({ size: batch, tookMs: endedMs - beganMs })
        }
        first += batch
      }
    }
    return log
  })
  const typicalMs = typicalDurations(batches)
  const short = batches.flatMap(({ tookMs, departed }) =>
    departed.filter((size, i) => tookMs[i]! < minDurationFactor * typicalMs[size]!),
  )
  const unlikelySplits = splitBatches
    .filter(({ size, tookMs }) => Math.abs(tookMs / typicalMs[size]! - 1) > maxSplitDifference)
    .map(({ size }) => size)
  /** Shortest typical duration among the larger batches. */
  const largerMs = new Float64Array(typicalMs.length).fill(Number.POSITIVE_INFINITY)
  for (let size = typicalMs.length - 2; size >= 0; size--)
    largerMs[size] = Math.min(largerMs[size + 1]!, typicalMs[size + 1] ?? Number.POSITIVE_INFINITY)
  const long = batches.flatMap(({ tookMs, departed }) =>
    departed.filter((size, i) => tookMs[i]! > maxDurationFactor * largerMs[size]!),
  )
  const share = (requests: number) => requests / Math.max(1, all)
  const contradicts = share(unexplained + sum(short) + sum(unlikelySplits))
  const ratios = batches.flatMap(({ tookMs, departed }) =>
    tookMs.map((ms, i) => Math.abs(ms / typicalMs[departed[i]!]! - 1)),
  )
  return {
    ...batching,
    windows: batches,
    contradicted: contradicts,
    implausible: contradicts + share(sum(long)),
    spread: sum(ratios) / Math.max(1, ratios.length),
    fullMs: typicalMs[batching.maxBatch] ?? Number.NaN,
  }
}

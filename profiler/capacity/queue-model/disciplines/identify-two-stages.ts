/**
 * Identifies two stages (two-stages.ts) from open windows: cores, and an accelerator with batches.
 */
import { median, sum } from 'simple-statistics'
import { overlapsAny, type RunWithInterference } from '../../host-interference.ts'
import { joinServiceLogs, type ServiceLog } from '../../service-log/service-log.ts'
import { collectSojourns } from '../../service-log/sojourns.ts'
import {
  type Batching,
  computeBatchStart,
  evaluateLine,
  fitLine,
  type TwoStageCores,
} from '../batching.ts'

interface IdentifiedTwoStages extends Batching {
  /** Batch durations by size, for each window. */
  readonly windows: readonly ServiceLog[]
  /** Empty: closed loops leave a stage idle. */
  readonly loops: readonly ServiceLog[]
}

/** Numbers of cores to try. */
const candidateCores = [1, 2, 3, 4, 6, 8]
/**
 * Part of the departure coalescing tolerance within which answers of one batch follow each other.
 */
const closeDeparturesShare = 1 / 3
/** Batches of two or more, and the share of requests in them, that an identification needs. */
const minBatches = 12
const minBatchedShare = 0.5
/** Share of batches that may exceed the largest batch of the closed loops. */
const negligibleShare = 0.05
/** Decode times of the first grid, and the number of refinements around the best one. */
const initialGridSize = 8
const refinements = 3
/** Shortest core time considered, as a share of the unloaded latency. */
const minCoreTimeShare = 0.01
/** Highest credible utilization of the cores at the highest observed rate. */
const maxCoreLoad = 1.05
/**
 * Cores are considered only where batches without cores leave at least `minMismatch`. Cores must
 * reduce the mismatch to `maxRemainingShare` of that, and to `maxMismatch` at most.
 */
const minMismatch = 0.01
const maxRemainingShare = 0.6
const maxMismatch = 0.1

/**
 * Identifies two stages. For each number of cores, it fits the decode time at which each batch
 * holds exactly the requests that were decoded by its start. A batch starts when the one before it
 * ended, or when its first request was decoded and had waited for the delay. So batch durations are
 * known where batches follow one another directly. The delay is the rest of the unloaded latency.
 * Undefined where cores explain little more than batches alone, or nothing fits.
 * @param largest largest batch of the closed loops
 * @param coalescingMs departure coalescing tolerance
 */
export function identifyTwoStages(
  windows: readonly RunWithInterference[],
  largest: number,
  coalescingMs: number,
  unloadedMs: number,
): IdentifiedTwoStages | undefined {
  const groupsOfWindows = windows.map((window) =>
    groupDepartures(window, closeDeparturesShare * coalescingMs),
  )
  const sizes = groupsOfWindows.flatMap((groups) => groups.sizes)
  const several = sizes.filter((size) => size > 1)
  if (several.length < minBatches || sum(several) < minBatchedShare * sum(sizes)) return undefined
  const maxBatch = chooseMaxBatch(sizes, largest)
  const writing = median(groupsOfWindows.flatMap((groups) => groups.writingMs))
  const servedRps = groupsOfWindows.reduce((rps, groups) => Math.max(rps, groups.servedRps), 0)
  const fit = (cores: TwoStageCores): Fit => fitCores(groupsOfWindows, cores, maxBatch, unloadedMs)
  const withoutCores = fit({ cores: maxBatch, decodeMs: 0, writeMs: 0 })
  if (withoutCores.maxPrefixMismatch < minMismatch) return undefined
  let best: Fit | undefined
  for (const cores of candidateCores) {
    const writeMs = Number.isFinite(writing) ? writing * Math.min(cores, maxBatch) : 0
    const longestMs = Math.min(unloadedMs, (maxCoreLoad * 1000 * cores) / servedRps - writeMs)
    const shortestMs = minCoreTimeShare * unloadedMs
    if (longestMs <= shortestMs) continue
    const candidate = minimiseMismatch(
      (decodeMs) => fit({ cores, decodeMs, writeMs }),
      shortestMs,
      longestMs,
    )
    if (best === undefined || candidate.mismatch < best.mismatch) best = candidate
  }
  if (
    best === undefined ||
    best.mismatch > Math.min(maxMismatch, maxRemainingShare * withoutCores.mismatch)
  )
    return undefined
  const { cores, delayMs } = best
  const { writeMs } = cores
  const served = groupsOfWindows.map(
    (groups) =>
      extractBatches(groups, computeDecodeTimes(groups, cores), { writeMs, maxBatch, delayMs }).log,
  )
  // Where hardly any batch took time, the cores do all the work: they are workers.
  if (sum(served.map(({ tookMs }) => tookMs.length)) < minBatches) return undefined
  return {
    workers: 1,
    maxBatch,
    delayMs,
    since: 'arrival',
    overheadMs: 0,
    cores,
    windows: served,
    loops: [],
  }
}

/**
 * Chooses the size of a full batch: the largest batch of the closed loops, or the largest observed
 * size where more than a few batches exceed that. A few may be two batches in quick succession.
 */
function chooseMaxBatch(sizes: readonly number[], largest: number): number {
  const descending = sizes.toSorted((a, b) => b - a)
  return descending[Math.floor(negligibleShare * descending.length)]! <= largest
    ? largest
    : descending[0]!
}

/** Minimises the mismatch over a logarithmic grid, refined around its best point. */
function minimiseMismatch(fit: (ms: number) => Fit, fromMs: number, toMs: number): Fit {
  let step = Math.log(toMs / fromMs) / (initialGridSize - 1)
  const logs = Array.from({ length: initialGridSize }, (_, i) => Math.log(fromMs) + i * step)
  let best = logs
    .map((log) => ({ log, of: fit(Math.exp(log)) }))
    .reduce((a, b) => (b.of.mismatch < a.of.mismatch ? b : a))
  for (let i = 0; i < refinements; i++) {
    step /= 2
    for (const log of [best.log - step, best.log + step]) {
      const of = fit(Math.exp(log))
      if (of.mismatch < best.of.mismatch) best = { log, of }
    }
  }
  return best.of
}

/** Answered requests of a run, and the batches in which they departed. */
interface DepartureGroups {
  readonly window: RunWithInterference
  readonly sentMs: Float64Array
  readonly latencyMs: Float64Array
  /** In departure order. */
  readonly endMs: Float64Array
  readonly sizes: readonly number[]
  /** Mean gap between two answers of a batch, ms. */
  readonly writingMs: readonly number[]
  readonly servedRps: number
}

function groupDepartures(window: RunWithInterference, closeMs: number): DepartureGroups {
  const { sentMs, endMs: endsMs, leaving } = collectSojourns(window.run)
  const lastMs = (window.run.cutMs ?? Number.POSITIVE_INFINITY) - 1e-6
  const endMs = Float64Array.from(leaving, (i) => endsMs[i]!).filter((ms) => ms < lastMs)
  const sizes: number[] = []
  const writingMs: number[] = []
  for (let from = 0, i = 1; i <= endMs.length; i++) {
    if (i < endMs.length && endMs[i]! - endMs[i - 1]! <= closeMs) continue
    if (i - from > 1) writingMs.push((endMs[i - 1]! - endMs[from]!) / (i - from - 1))
    sizes.push(i - from)
    from = i
  }
  const latencyMs = endsMs.map((ms, i) => (ms < lastMs ? ms - sentMs[i]! : Number.NaN))
  const spanMs = endMs.length > 1 ? endMs.at(-1)! - endMs[0]! : Number.POSITIVE_INFINITY
  return {
    window,
    sentMs,
    latencyMs,
    endMs,
    sizes,
    writingMs,
    servedRps: (1000 * (endMs.length - 1)) / spanMs,
  }
}

interface Fit {
  readonly cores: TwoStageCores
  readonly delayMs: number
  /**
   * Difference between batch sizes and decoded requests at the batch starts, as a share of all
   * requests.
   */
  readonly mismatch: number
  /** Largest mismatch over the first windows: later windows of full batches cannot lower it. */
  readonly maxPrefixMismatch: number
}

/** Computes the mismatch of cores, without a delay and with the rest of the unloaded latency. */
function fitCores(
  groupsOfWindows: readonly DepartureGroups[],
  cores: TwoStageCores,
  maxBatch: number,
  unloadedMs: number,
): Fit {
  const decoded = groupsOfWindows.map((groups) => computeDecodeTimes(groups, cores))
  const upTo = groupsOfWindows.map((_, last) =>
    sum(groupsOfWindows.slice(0, last + 1).map(({ endMs }) => endMs.length)),
  )
  const fitAt = (delayMs: number): Fit & { readonly busy: ServiceLog } => {
    const served = groupsOfWindows.map((groups, i) =>
      extractBatches(groups, decoded[i]!, { writeMs: cores.writeMs, maxBatch, delayMs }),
    )
    const shares = upTo.map(
      (requests, last) =>
        sum(served.slice(0, last + 1).map((of) => of.mismatch)) / Math.max(1, requests),
    )
    return {
      cores,
      delayMs,
      mismatch: shares.at(-1)!,
      maxPrefixMismatch: Math.max(...shares),
      busy: joinServiceLogs(served.map((of) => of.busy)),
    }
  }
  const undelayed = fitAt(0)
  if (undelayed.busy.tookMs.length < minBatches) return undelayed
  const restMs =
    unloadedMs - cores.decodeMs - cores.writeMs - evaluateLine(fitLine(undelayed.busy), 1)
  const delayed = restMs > 0 ? fitAt(restMs) : undelayed
  return delayed.mismatch < undelayed.mismatch ? delayed : undelayed
}

/**
 * Extracts batch durations; `busy` holds those of batches that directly followed another. Only the
 * counts of departures and of decoded requests matter, not which requests these were: cores with
 * unequal task times may change the order.
 */
function extractBatches(
  { window, endMs, sizes }: DepartureGroups,
  decodedMs: Float64Array,
  { writeMs, maxBatch, delayMs }: { writeMs: number; maxBatch: number; delayMs: number },
) {
  const newLog = () =>
    ({ present: [], tookMs: [], departed: [], rank: [], endedMs: [], spreadMs: [] }) as Record<
      keyof ServiceLog,
      number[]
    >
  const [log, busy] = [newLog(), newLog()]
  const batching = { workers: 1, maxBatch, delayMs, since: 'arrival', overheadMs: 0 } as const
  let [from, freeMs, ready, mismatch] = [0, Number.NEGATIVE_INFINITY, 0, 0]
  for (const size of sizes) {
    const endedMs = endMs[from]! - writeMs
    const beganMs = computeBatchStart(batching, decodedMs, from, freeMs)
    while (ready < decodedMs.length && decodedMs[ready]! <= beganMs) ready++
    mismatch += Math.abs(size - Math.min(maxBatch, Math.max(1, ready - from)))
    if (endedMs > beganMs && !overlapsAny(window.disturbed, beganMs, endedMs)) {
      for (const of of beganMs > freeMs ? [log] : [log, busy]) {
        of.present.push(size)
        of.departed.push(size)
        of.tookMs.push(endedMs - beganMs)
        of.endedMs.push(endedMs)
        of.rank.push(0)
        of.spreadMs.push(0)
      }
    }
    freeMs = Math.max(freeMs, endedMs)
    from += size
  }
  return { log, busy, mismatch }
}

/**
 * Computes when each request is decoded, in arrival order. The decode time is constant, and the
 * cores pause while they write answers (G/D/m: each request starts after the one `cores` places
 * ahead).
 */
function computeDecodeTimes(
  { sentMs, endMs, sizes }: DepartureGroups,
  { cores, decodeMs, writeMs }: TwoStageCores,
): Float64Array {
  const doneMs = new Float64Array(sentMs.length)
  let [batch, from] = [0, 0]
  for (let i = 0; i < sentMs.length; i++) {
    let startMs = Math.max(sentMs[i]!, i >= cores ? doneMs[i - cores]! : 0)
    for (
      ;
      batch < sizes.length && endMs[from]! - writeMs < startMs + decodeMs;
      from += sizes[batch++]!
    ) {
      const writtenMs = endMs[from + sizes[batch]! - 1]!
      if (writtenMs > startMs)
        startMs += Math.min(writtenMs - startMs, writtenMs - endMs[from]! + writeMs)
    }
    doneMs[i] = startMs + decodeMs
  }
  return doneMs
}

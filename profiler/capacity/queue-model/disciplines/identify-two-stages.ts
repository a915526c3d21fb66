/** The cores that decode and write beside batches, as open windows of load tell: see stages.ts. */
import { median, sum } from 'simple-statistics'
import { meets, type WatchedRun } from '../../host-interference.ts'
import { type Batching, beginsMs, type Cores, lineAt, lineThrough } from '../batching.ts'
import { joinSteps, type Steps } from '../../service-log/service-log.ts'
import { answeredOf } from '../../service-log/sojourns.ts'

interface StagesSeen extends Batching {
  /** How long each batch was served, by how many were in it, window by window. */
  readonly windows: readonly Steps[]
  readonly loops: readonly Steps[]
}

const numbersOfCores = [1, 2, 3, 4, 6, 8]
/**
 * Answers of one batch follow one another within this share of the time within which answers left
 * together.
 */
const closely = 1 / 3
/**
 * Fewest batches of two and more, and least share of the requests in them, of a server that serves
 * batches.
 */
const fewest = 12
const inBatches = 0.5
const few = 0.05
/**
 * Times of a core that are tried first, and times that the best of them is looked at more closely.
 */
const tried = 8
const refinements = 3
/** Shortest time of a core that is looked for, as a share of the idle latency. */
const leastShare = 0.01
/**
 * What busy cores may be loaded with at the highest rate that was served, by the mean time of a
 * task.
 */
const mostLoad = 1.05
/**
 * Least that batches alone leave unexplained for cores to be looked for, the part of that which
 * cores may leave, and the most.
 */
const leastApart = 0.01
const explained = 0.6
const mostApart = 0.1

/**
 * Cores that have decoded as many requests when a batch begins as are in it, nearly always. When it
 * begins is known: when the one before it ended, or when its first was decoded and had waited; so
 * how long it takes is seen where batches followed one another, and each number of cores and time
 * to decode leaves one delay for the rest of the idle latency. Undefined of servers whose batches
 * are explained as well without, or not at all.
 * @param largest requests that were seen to leave together in closed loops
 * @param togetherMs answers within so much of one another left together
 */
export function stagesSeen(
  windows: readonly WatchedRun[],
  largest: number,
  togetherMs: number,
  idleMs: number,
): StagesSeen | undefined {
  const seen = windows.map((window) => lotsOf(window, closely * togetherMs))
  const sizes = seen.flatMap((lots) => lots.sizes)
  const several = sizes.filter((size) => size > 1)
  if (several.length < fewest || sum(several) < inBatches * sum(sizes)) return undefined
  const most = largestOf(sizes, largest)
  const writing = median(seen.flatMap((lots) => lots.writingMs))
  const servedRps = seen.reduce((rps, lots) => Math.max(rps, lots.servedRps), 0)
  const fit = (cores: Cores): Fit => fitOf(seen, cores, most, idleMs)
  const alone = fit({ cores: most, decodeMs: 0, writeMs: 0 })
  if (alone.everApart < leastApart) return undefined
  let best: Fit | undefined
  for (const cores of numbersOfCores) {
    const writeMs = Number.isFinite(writing) ? writing * Math.min(cores, most) : 0
    const longestMs = Math.min(idleMs, (mostLoad * 1000 * cores) / servedRps - writeMs)
    const shortestMs = leastShare * idleMs
    if (longestMs <= shortestMs) continue
    const of = closest((decodeMs) => fit({ cores, decodeMs, writeMs }), shortestMs, longestMs)
    if (best === undefined || of.apart < best.apart) best = of
  }
  if (best === undefined || best.apart > Math.min(mostApart, explained * alone.apart))
    return undefined
  const { cores, delayMs } = best
  const { writeMs } = cores
  const served = seen.map(
    (lots) => servedOf(lots, decodedAt(lots, cores), { writeMs, most, delayMs }).steps,
  )
  // Cores that leave nothing to the batches are workers.
  if (sum(served.map(({ tookMs }) => tookMs.length)) < fewest) return undefined
  return {
    workers: 1,
    most,
    delayMs,
    since: 'arrival',
    besideMs: 0,
    cores,
    windows: served,
    loops: [],
  }
}

/**
 * That of closed loops, unless more than a few were larger: two that follow each other closely look
 * like one.
 */
function largestOf(sizes: readonly number[], largest: number): number {
  const descending = sizes.toSorted((a, b) => b - a)
  return descending[Math.floor(few * descending.length)]! <= largest ? largest : descending[0]!
}

/** The best of times evenly apart in the logarithm, looked at ever more closely. */
function closest(fit: (ms: number) => Fit, fromMs: number, toMs: number): Fit {
  let step = Math.log(toMs / fromMs) / (tried - 1)
  const logs = Array.from({ length: tried }, (_, i) => Math.log(fromMs) + i * step)
  let best = logs
    .map((log) => ({ log, of: fit(Math.exp(log)) }))
    .reduce((a, b) => (b.of.apart < a.of.apart ? b : a))
  for (let i = 0; i < refinements; i++) {
    step /= 2
    for (const log of [best.log - step, best.log + step]) {
      const of = fit(Math.exp(log))
      if (of.apart < best.of.apart) best = { log, of }
    }
  }
  return best.of
}

/** A run's requests that were answered, and the batches in which they left. */
interface Lots {
  readonly window: WatchedRun
  readonly sentMs: Float64Array
  readonly latencyMs: Float64Array
  /** In the order in which they left. */
  readonly endMs: Float64Array
  readonly sizes: readonly number[]
  /** Between two answers of a batch, on average. */
  readonly writingMs: readonly number[]
  readonly servedRps: number
}

function lotsOf(window: WatchedRun, closeMs: number): Lots {
  const { sentMs, endMs: endsMs, leaving } = answeredOf(window.run)
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
  readonly cores: Cores
  readonly delayMs: number
  /**
   * Requests by which batches are larger or smaller than what was decoded when they began, as a
   * share of all.
   */
  readonly apart: number
  /**
   * The most that it ever was as the windows came: later ones, of full batches, take nothing back.
   */
  readonly everApart: number
}

function fitOf(seen: readonly Lots[], cores: Cores, most: number, idleMs: number): Fit {
  const decoded = seen.map((lots) => decodedAt(lots, cores))
  const upTo = seen.map((_, last) => sum(seen.slice(0, last + 1).map(({ endMs }) => endMs.length)))
  const at = (delayMs: number): Fit & { readonly busy: Steps } => {
    const served = seen.map((lots, i) =>
      servedOf(lots, decoded[i]!, { writeMs: cores.writeMs, most, delayMs }),
    )
    const shares = upTo.map(
      (requests, last) =>
        sum(served.slice(0, last + 1).map((of) => of.apart)) / Math.max(1, requests),
    )
    return {
      cores,
      delayMs,
      apart: shares.at(-1)!,
      everApart: Math.max(...shares),
      busy: joinSteps(served.map((of) => of.busy)),
    }
  }
  const atOnce = at(0)
  if (atOnce.busy.tookMs.length < fewest) return atOnce
  const restMs = idleMs - cores.decodeMs - cores.writeMs - lineAt(lineThrough(atOnce.busy), 1)
  const later = restMs > 0 ? at(restMs) : atOnce
  return later.apart < atOnce.apart ? later : atOnce
}

/**
 * How long each batch was served: it began when the one before it had been, or when its first was
 * decoded and had waited. As many as left together, and as many are decoded by a time, count: which
 * of them, cores that take unequal times may change.
 */
function servedOf(
  { window, endMs, sizes }: Lots,
  decodedMs: Float64Array,
  { writeMs, most, delayMs }: { writeMs: number; most: number; delayMs: number },
) {
  const noStep = () =>
    ({ present: [], tookMs: [], departed: [], rank: [], endedMs: [], spreadMs: [] }) as Record<
      keyof Steps,
      number[]
    >
  const [steps, busy] = [noStep(), noStep()]
  const way = { workers: 1, most, delayMs, since: 'arrival', besideMs: 0 } as const
  let [from, freeMs, ready, apart] = [0, Number.NEGATIVE_INFINITY, 0, 0]
  for (const size of sizes) {
    const endedMs = endMs[from]! - writeMs
    const beganMs = beginsMs(way, decodedMs, from, freeMs)
    while (ready < decodedMs.length && decodedMs[ready]! <= beganMs) ready++
    apart += Math.abs(size - Math.min(most, Math.max(1, ready - from)))
    if (endedMs > beganMs && !meets(window.disturbed, beganMs, endedMs)) {
      for (const of of beganMs > freeMs ? [steps] : [steps, busy]) {
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
  return { steps, busy, apart }
}

/**
 * When each request is decoded, in the order of arrival, were all to take as long and none while
 * answers are written (G/D/m: each takes over from the one that came so many before it).
 */
function decodedAt(
  { sentMs, endMs, sizes }: Lots,
  { cores, decodeMs, writeMs }: Cores,
): Float64Array {
  const doneMs = new Float64Array(sentMs.length)
  let [batch, from] = [0, 0]
  for (let i = 0; i < sentMs.length; i++) {
    let beginsMs = Math.max(sentMs[i]!, i >= cores ? doneMs[i - cores]! : 0)
    for (
      ;
      batch < sizes.length && endMs[from]! - writeMs < beginsMs + decodeMs;
      from += sizes[batch++]!
    ) {
      const writtenMs = endMs[from + sizes[batch]! - 1]!
      if (writtenMs > beginsMs)
        beginsMs += Math.min(writtenMs - beginsMs, writtenMs - endMs[from]! + writeMs)
    }
    doneMs[i] = beginsMs + decodeMs
  }
  return doneMs
}

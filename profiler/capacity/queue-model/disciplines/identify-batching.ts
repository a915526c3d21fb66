/** How a server puts batches together, as open windows of load tell: see batching.ts. */
import { sum } from 'simple-statistics'
import { leastOf } from '../../../statistics/index-of-min.ts'
import type { LoadRun } from '../../../model/load-run.ts'
import { meets, type WatchedRun } from '../../host-interference.ts'
import { type Batching, beginsMs } from '../batching.ts'
import { usualTimes } from '../../service-log/typical-durations.ts'
import { joinSteps, type Steps } from '../../service-log/service-log.ts'
import { batchesAlike } from './batch-similarity.ts'
import { answeredOf } from '../../service-log/sojourns.ts'

interface BatchesSeen extends Batching {
  /**
   * How long each batch was served, by how many were in it, window by window, in the order in which
   * they began.
   */
  readonly windows: readonly Steps[]
  /**
   * Of the closed loops that were served alike: they show full batches, which a window of slow ones
   * seldom does.
   */
  readonly loops: readonly Steps[]
}

const mostWorkers = 8
/** Fewest batches of two and more to tell anything. */
const fewest = 12
/**
 * Share of the requests that may be in batches which others should have been in, or some of them
 * not.
 */
const odd = 0.08
/**
 * More of the requests that another explanation must explain to be preferred to a simpler one; or
 * so many times as much of the rest, if that is more than a few.
 */
const more = 0.02
const times = 2
const few = 0.003
const leastSpread = 0.02
/**
 * A batch that took less than this share of what such batches usually take did not begin when it is
 * said to have.
 */
const tooShort = 0.5
/** One that took so many times as long as larger ones usually do waited for others. */
const tooLong = 1.5
/**
 * Two that are said to have left together by chance took as long as such batches usually do, but
 * for this share.
 */
const likeOthers = 0.1
/**
 * Share of the time within which answers left together, where several batches are served at once or
 * the delay is most of the idle latency: others leave soon after.
 */
const closer = 0.2
/** Times on the way that are tried, as shares of the idle latency. */
const besideShares = [0.03, 0.06, 0.1, 0.15, 0.2, 0.3]

/**
 * How the server puts batches together, where the windows show it: the simplest way that explains
 * nearly all that was seen. Undefined of one that serves no batches, or otherwise.
 * @param loops closed ones in order of time: used from the last one back to the first that was
 * served otherwise
 * @param largest requests that left together in them
 * @param togetherMs answers within so much of one another left together
 */
export function batchesSeen(
  windows: readonly WatchedRun[],
  loops: readonly LoadRun[],
  largest: number,
  togetherMs: number,
  idleMs: number,
): BatchesSeen | undefined {
  const best = bestWay(windows, loops, largest, togetherMs, idleMs)
  if (best === undefined || best.odd > odd) return undefined
  const known = joinSteps(best.windows)
  const alike: Steps[] = []
  for (const run of loops.toReversed()) {
    const loop = [{ run, disturbed: [] }]
    const found = explainedBy(
      loop,
      [lotsOf(run, best.workers > 1 ? closer * togetherMs : togetherMs)],
      best,
      togetherMs,
    )
    if (found.odd > odd || !batchesAlike(known, found.windows[0]!)) break
    alike.unshift(found.windows[0]!)
  }
  // Too few workers, or too short a delay, explain open windows of batches that are nearly always
  // full, but no loop of other batches.
  return loops.length > 0 && alike.length === 0 ? undefined : { ...best, loops: alike }
}

/** How long the batches of runs were served, were they put together so. */
export function batchServices(
  windows: readonly WatchedRun[],
  way: Batching,
  togetherMs: number,
): readonly Steps[] {
  const lots = windows.map(({ run }) =>
    lotsOf(run, way.workers > 1 ? closer * togetherMs : togetherMs),
  )
  return explainedBy(windows, lots, way, togetherMs).windows
}

function bestWay(
  windows: readonly WatchedRun[],
  loops: readonly LoadRun[],
  largest: number,
  togetherMs: number,
  idleMs: number,
): Explained | undefined {
  const lotsWithin = (ms: number) => windows.map(({ run }) => lotsOf(run, ms))
  const [lots, close] = [lotsWithin(togetherMs), lotsWithin(closer * togetherMs)]
  if (close.flatMap(({ sizes }) => sizes).filter((size) => size > 1).length < fewest)
    return undefined
  const atOnce = timeAndAgain(
    loops.flatMap((run) => leftAtOnce(lotsOf(run, closer * togetherMs), closer * togetherMs)),
  )
  let best: Explained | undefined
  const consider = (way: Omit<Batching, 'delayMs'>, of: readonly Lots[]) => {
    const delayMs = delayOf(of, way, idleMs)
    const at = (ms: number) => {
      const found = explainedBy(windows, of, { ...way, delayMs: ms }, togetherMs)
      if (best === undefined || explainsBetter(found, best)) best = found
      return found
    }
    const undelayed = at(0)
    if (delayMs === 0) return
    at(delayMs)
    // One request at a time waits for the whole delay, and is served no longer than a full batch:
    // where batches are nearly always full that tells more.
    const byIdleMs = idleMs - way.besideMs - undelayed.fullMs
    if (byIdleMs > delayMs) at(byIdleMs)
  }
  // As many batches leave at once as there are workers, at the most: closed loops, whose clients
  // begin together, show the most that do.
  for (
    let workers = 1;
    workers <= Math.min(mostWorkers, (best?.workers ?? mostWorkers) + 2);
    workers++
  )
    for (const of of workers === 1 ? [lots, close] : [close])
      for (const most of sizesOf(of, largest).filter((size) => workers * size >= atOnce)) {
        for (const since of ['arrival', 'free'] as const)
          consider({ workers, most, since, besideMs: 0 }, of)
        if (best !== undefined && best.unlikely < few) return best
      }
  if (best === undefined) return undefined
  const { workers, most, since } = best
  for (const share of besideShares)
    consider({ workers, most, since, besideMs: share * idleMs }, workers === 1 ? lots : close)
  return best
}

/**
 * Where two explain as many requests, the one counts by which batches of a size took far more
 * alike.
 */
function explainsBetter(other: Explained, known: Explained): boolean {
  if (fewer(other.unlikely, known.unlikely)) return true
  return (
    !fewer(known.unlikely, other.unlikely) &&
    known.spread > leastSpread &&
    other.spread < known.spread / times
  )
}
const fewer = (some: number, others: number): boolean =>
  some < others - more || (some < others / times && some < others - few)

/**
 * What a full batch may have: the largest that was seen, or the largest seen time and again, or the
 * most frequent: two may leave at once.
 */
function sizesOf(lots: readonly Lots[], largest: number): number[] {
  const sizes = lots.flatMap((each) => each.sizes)
  const most = Math.max(...sizes)
  const counts = new Map<number, number>()
  for (const size of sizes) if (size > 1) counts.set(size, (counts.get(size) ?? 0) + size)
  const [frequent] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a), [1, 0])
  return [...new Set([Math.max(largest, most), most, timeAndAgain(sizes), frequent])].filter(
    (size) => size > 1,
  )
}

/** The largest that was seen three times; 1 where none was. */
function timeAndAgain(sizes: readonly number[]): number {
  const descending = sizes.toSorted((a, b) => b - a)
  return descending.find((size, i) => size === descending[i + 2]) ?? 1
}

/** Runs of neighbours, by arrival, that left together. */
interface Lots {
  readonly sentMs: Float64Array
  readonly endMs: Float64Array
  /** Of each, in the order of arrival; the first request of each follows from those before. */
  readonly sizes: readonly number[]
}

function lotsOf(run: LoadRun, togetherMs: number): Lots {
  const { sentMs, endMs } = answeredOf(run)
  const lastMs = (run.cutMs ?? Number.POSITIVE_INFINITY) - 1e-6
  const sizes: number[] = []
  let from = 0
  for (let i = 1; i <= endMs.length; i++) {
    if (i < endMs.length && Math.abs(endMs[i]! - endMs[i - 1]!) <= togetherMs) continue
    if (endMs[from]! >= lastMs) break
    sizes.push(i - from)
    from = i
  }
  return { sentMs, endMs, sizes }
}

/** Sizes of those of which the last left within so much of the first. */
function leftAtOnce({ endMs, sizes }: Lots, withinMs: number): number[] {
  let next = 0
  return sizes.filter((size) => {
    const first = next
    next += size
    return Math.abs(endMs[next - 1]! - endMs[first]!) <= withinMs
  })
}

/**
 * The delay that fewest batches contradict: those that found a worker free before it was over have
 * in them who came within it of their oldest, and nobody who came later. In the middle of such as
 * do equally well.
 */
function delayOf(
  lots: readonly Lots[],
  { workers, most, since, besideMs }: Omit<Batching, 'delayMs'>,
  idleMs: number,
): number {
  const least: number[] = []
  const below: number[] = []
  for (const { sentMs, endMs, sizes } of lots) {
    const freeMs = new Float64Array(workers).fill(Number.NEGATIVE_INFINITY)
    let first = 0
    for (const size of sizes) {
      const [last, next] = [first + size - 1, first + size]
      const worker = leastOf(freeMs)
      const cameMs = sentMs[first]! + besideMs
      const fromMs = since === 'arrival' ? cameMs : Math.max(cameMs, freeMs[worker]!)
      const waitedMs = sentMs[last]! + besideMs - fromMs
      // One whose last came after a worker was free waited for it; one that is not full waited no
      // longer than until its next came.
      if (sentMs[last]! + besideMs > freeMs[worker]! && waitedMs > 0) least.push(waitedMs)
      if (size < most && next < sentMs.length && sentMs[next]! + besideMs > freeMs[worker]!)
        below.push(sentMs[next]! + besideMs - fromMs)
      freeMs[worker] = Math.max(freeMs[worker]!, endMs[last]!)
      first = next
    }
  }
  const candidates = [0, ...least, ...below].filter((ms) => ms <= idleMs).sort((a, b) => a - b)
  least.sort((a, b) => a - b)
  below.sort((a, b) => a - b)
  let [kept, ended] = [0, 0]
  let [fewestWrong, from, to] = [Number.POSITIVE_INFINITY, 0, 0]
  for (const [i, ms] of candidates.entries()) {
    while (kept < least.length && least[kept]! <= ms) kept++
    while (ended < below.length && below[ended]! <= ms) ended++
    const wrong = least.length - kept + ended
    const next = candidates[i + 1] ?? ms
    if (wrong < fewestWrong) [fewestWrong, from, to] = [wrong, ms, next]
    else if (wrong === fewestWrong && to === ms) to = next
  }
  return (from + to) / 2
}

interface Explained extends Omit<BatchesSeen, 'loops'> {
  /**
   * In batches which others should have been in, or some of them not, or that took far too short.
   */
  readonly odd: number
  /** Those, and requests whose batches took far longer than larger ones do. */
  readonly unlikely: number
  /** By which share batches of a size differ from what they usually take. */
  readonly spread: number
  /**
   * How long a full batch usually takes, of which it is known when it began whatever the delay; NaN
   * where none was seen.
   */
  readonly fullMs: number
}

/**
 * What was seen as the batches of such a server, and the share of the requests that it does not
 * explain.
 */
function explainedBy(
  windows: readonly WatchedRun[],
  lots: readonly Lots[],
  way: Batching,
  togetherMs: number,
): Explained {
  const toleranceMs = togetherMs / 3
  let [unexplained, all] = [0, 0]
  /** Parts of lots that are said to be two that left at once. */
  const parted: { readonly size: number; readonly tookMs: number }[] = []
  const seen = windows.map(({ run, disturbed }, w) => {
    const steps = {
      present: [],
      tookMs: [],
      departed: [],
      rank: [],
      endedMs: [],
      spreadMs: [],
    } as Record<keyof Steps, number[]>
    const { sentMs, endMs, sizes } = lots[w]!
    const freeMs = new Float64Array(way.workers).fill(Number.NEGATIVE_INFINITY)
    const lastMs = (run.cutMs ?? Number.POSITIVE_INFINITY) - 1e-6
    let first = 0
    for (const size of sizes) {
      for (const end = first + size; first < end; ) {
        const worker = leastOf(freeMs)
        const beganMs = beginsMs(way, sentMs, first, freeMs[worker]!)
        let there = 1
        const came = (by: number) =>
          first + there < sentMs.length && sentMs[first + there]! + way.besideMs <= beganMs + by
        while (there < way.most && first + there < end && came(toleranceMs)) there++
        const batch = way.workers > 1 ? there : end - first
        // Others had come, or some had not.
        const others = first + there === end && there < way.most && came(-toleranceMs)
        all += batch
        if (others || batch > there) unexplained += batch
        const endedMs = endMs[first + batch - 1]!
        freeMs[worker] = Math.max(freeMs[worker]!, endedMs)
        if (endedMs < lastMs && !meets(disturbed, beganMs, endedMs)) {
          steps.present.push(batch)
          steps.departed.push(batch)
          steps.tookMs.push(Math.max(0, endedMs - beganMs))
          steps.endedMs.push(endedMs)
          steps.rank.push(0)
          steps.spreadMs.push(endedMs - endMs[first]!)
          if (batch < size && size <= way.most)
            parted.push({ size: batch, tookMs: endedMs - beganMs })
        }
        first += batch
      }
    }
    return steps
  })
  const usualMs = usualTimes(seen)
  const short = seen.flatMap(({ tookMs, departed }) =>
    departed.filter((size, i) => tookMs[i]! < tooShort * usualMs[size]!),
  )
  const unlike = parted
    .filter(({ size, tookMs }) => Math.abs(tookMs / usualMs[size]! - 1) > likeOthers)
    .map(({ size }) => size)
  /** The least that larger ones than each usually take. */
  const largerMs = new Float64Array(usualMs.length).fill(Number.POSITIVE_INFINITY)
  for (let size = usualMs.length - 2; size >= 0; size--)
    largerMs[size] = Math.min(largerMs[size + 1]!, usualMs[size + 1] ?? Number.POSITIVE_INFINITY)
  const long = seen.flatMap(({ tookMs, departed }) =>
    departed.filter((size, i) => tookMs[i]! > tooLong * largerMs[size]!),
  )
  const share = (requests: number) => requests / Math.max(1, all)
  const contradicts = share(unexplained + sum(short) + sum(unlike))
  const ratios = seen.flatMap(({ tookMs, departed }) =>
    tookMs.map((ms, i) => Math.abs(ms / usualMs[departed[i]!]! - 1)),
  )
  return {
    ...way,
    windows: seen,
    odd: contradicts,
    unlikely: contradicts + share(sum(long)),
    spread: sum(ratios) / Math.max(1, ratios.length),
    fullMs: usualMs[way.most] ?? Number.NaN,
  }
}

/**
 * First come, first served by several workers: each request is served by the first free one.
 *
 * Every service time of such a server is known: a request begins at its arrival or, while all
 * workers are busy, at the first of their departures (recursion of G/G/m: Kiefer and Wolfowitz
 * 1955). The right number of workers makes service times independent of the queue length. With too
 * few workers, requests that waited seem too short; with too many, too long. Closed loops show the
 * same service times in larger numbers, which matters where slow requests are rare.
 */
import { median, sum } from 'simple-statistics'
import { computeMeanThroughput } from '../../../load/throughput.ts'
import type { LatencySummary } from '../../../model/load-point.ts'
import type { LoadRun } from '../../../model/load-run.ts'
import { indexOfMin } from '../../../statistics/index-of-min.ts'
import { computeMoments } from '../../../statistics/moments.ts'
import { overlapsAny, type RunWithInterference, type TimeSpans } from '../../host-interference.ts'
import {
  logSingleServices,
  type ServiceLog,
  type ServiceTimes,
} from '../../service-log/service-log.ts'
import { collectSojourns } from '../../service-log/sojourns.ts'
import { extractWork } from '../processor-sharing.ts'
import type { IdentifiedDiscipline } from '../service-discipline.ts'
import {
  computeMisfit,
  isIndependentOfLoad,
  minRequestsToCompare,
  selectSimilarLoops,
  splitByWaiting,
} from './independence.ts'

const maxWorkers = 64
/** Numbers of workers are tried within this factor of the estimated number of busy workers. */
const workerSearchFactor = 1.6
/**
 * Share of requests that may overtake at least as many older ones as there are workers: answers may
 * change their order on the network.
 */
const maxOvertakenShare = 0.02
/**
 * Factor in explained requests from which a larger number of workers is preferred to a smaller one,
 * and processor sharing to first come, first served.
 */
const minExplainedGain = 1.1
/**
 * An overhead is considered from the first of these shares of the median service time, and credible
 * up to the second.
 */
const minOverheadShare = 0.02
const maxOverheadShare = 0.35
/** Requests of a window that suffice to rule out most wrong numbers of workers. */
const previewRequests = 1500
/**
 * Reduction of the misfit (independence.ts) that an overhead must earn. Too few workers look like
 * the right number with a large overhead.
 */
const overheadMisfitPenalty = 4

/**
 * Extracts service times of a run for a number of workers. Failed requests, requests that were cut
 * short and those that met host interference are left out.
 * @param overheadMs network and framework time, by which requests reach the workers later
 */
export function extractServiceTimes(
  run: LoadRun,
  workers: number,
  disturbed: TimeSpans = [],
  overheadMs = 0,
): ServiceTimes {
  const found: number[] = []
  const tookMs: number[] = []
  const departedMs: number[] = []
  const lastMs = (run.cutMs ?? Number.POSITIVE_INFINITY) - 1e-6
  const { sentMs, endMs, foundPresent } = collectSojourns(run, overheadMs)
  const freeMs = new Float64Array(workers).fill(Number.NEGATIVE_INFINITY)
  for (const [i, atMs] of sentMs.entries()) {
    const endedMs = endMs[i]!
    const first = indexOfMin(freeMs)
    const beganMs = Math.max(atMs, freeMs[first]!)
    if (beganMs >= lastMs) break
    freeMs[first] = Math.max(endedMs, beganMs)
    if (endedMs >= lastMs || overlapsAny(disturbed, beganMs, endedMs)) continue
    found.push(foundPresent[i]!)
    tookMs.push(Math.max(0, endedMs - beganMs))
    departedMs.push(endedMs)
  }
  return { log: logSingleServices(tookMs, departedMs), found }
}

/**
 * Extracts service times of windows for a number of workers. Undefined where requests are not
 * served in arrival order: some overtake more requests than can be in service.
 */
export function extractFcfsServices(
  windows: readonly RunWithInterference[],
  { workers, overheadMs }: Pick<IdentifiedDiscipline, 'workers' | 'overheadMs'>,
): readonly ServiceLog[] | undefined {
  return isOvertakenBeyond(
    windows.flatMap(({ run }) => countOvertaken(run)),
    workers,
  )
    ? undefined
    : windows.map(
        ({ run, disturbed }) => extractServiceTimes(run, workers, disturbed, overheadMs).log,
      )
}

/** Under first come, first served only requests in service can be overtaken. */
function isOvertakenBeyond(overtaken: readonly number[], workers: number): boolean {
  return overtaken.filter((older) => older >= workers).length > maxOvertakenShare * overtaken.length
}

/**
 * Identifies the number of workers, and whether they serve in arrival order or share all requests:
 * the number that makes service times independent of the load. It prefers the explanation of most
 * requests, and among similar ones that with the smallest misfit. Undefined where no number fits
 * (batches, several stages), or where the server was too seldom busy.
 * @param windows open windows
 * @param loops closed loops in time order; read backwards until one has other service times
 */
export function identifyWorkers(
  windows: readonly RunWithInterference[],
  loops: readonly LoadRun[],
): IdentifiedDiscipline | undefined {
  const busyWorkers = estimateMeanBusy(windows, loops)
  const overtaken = windows.flatMap(({ run }) => countOvertaken(run))
  const previews = takePreviews(windows)
  let best: Explanation | undefined
  for (const of of [extractServiceTimes, extractWork]) {
    for (
      let workers = Math.max(1, Math.floor(busyWorkers / workerSearchFactor));
      workers <= Math.min(maxWorkers, workerSearchFactor * busyWorkers + 1);
      workers++
    ) {
      if (of === extractServiceTimes && isOvertakenBeyond(overtaken, workers)) continue
      if (previews.length > 0 && explainWindows(previews, workers, of) === undefined) continue
      const explanation = explainAll(windows, loops, workers, of)
      if (explanation === undefined) continue
      const fitsBetter =
        best !== undefined &&
        best.sharesCores === explanation.sharesCores &&
        explanation.misfit < best.misfit
      if (
        best === undefined ||
        explanation.explained >
          (fitsBetter ? 1 / minExplainedGain : minExplainedGain) * best.explained
      )
        best = explanation
    }
  }
  return best
}

/**
 * Takes the first requests of each window, which rule out wrong numbers of workers in less time.
 * Empty where all windows are short anyway.
 */
function takePreviews(windows: readonly RunWithInterference[]): readonly RunWithInterference[] {
  if (windows.every(({ run }) => run.sentMs.length <= 2 * previewRequests)) return []
  return windows.map(({ run, disturbed }) => {
    if (run.sentMs.length <= previewRequests) return { run, disturbed }
    const sentMs = run.sentMs.slice(0, previewRequests)
    const cutMs = Math.min(run.cutMs ?? Number.POSITIVE_INFINITY, run.sentMs[previewRequests]!)
    return {
      run: { ...run, sentMs, latencyMs: run.latencyMs.slice(0, previewRequests), cutMs },
      disturbed,
    }
  })
}

/** A discipline that is consistent with the runs. */
interface Explanation extends IdentifiedDiscipline {
  /** Number of requests in all consistent runs. */
  readonly explained: number
  /** Remaining difference between requests that waited and others (`computeMisfit`). */
  readonly misfit: number
}

/**
 * Extracts the service times of open windows for a number of workers, without overhead or with an
 * estimated one. Undefined where they depend on the load.
 */
function explainWindows(
  windows: readonly RunWithInterference[],
  workers: number,
  of: typeof extractServiceTimes,
  overheadMs = 0,
): { readonly open: readonly ServiceTimes[]; readonly overheadMs: number } | undefined {
  const open = windows.map(({ run, disturbed }) => of(run, workers, disturbed, overheadMs))
  if (isIndependentOfLoad(open, workers) !== false) return { open, overheadMs }
  const foundMs = overheadMs === 0 ? estimateOverhead(open, workers) : 0
  return foundMs > 0 ? explainWindows(windows, workers, of, foundMs) : undefined
}

/**
 * Explains open windows and closed loops by a number of workers. Undefined where their service
 * times depend on the load, or too few requests waited to decide.
 */
function explainAll(
  windows: readonly RunWithInterference[],
  loops: readonly LoadRun[],
  workers: number,
  of: typeof extractServiceTimes,
  triedMs = 0,
): Explanation | undefined {
  const explanation = explainWindows(windows, workers, of, triedMs)
  if (explanation === undefined) return undefined
  const { open, overheadMs } = explanation
  const history = loops.map((loop) => of(loop, workers, [], overheadMs))
  const similarLoops = selectSimilarLoops(open, history)
  const all = [...open, ...similarLoops]
  if (
    (loops.length > 0 && similarLoops.length === 0) ||
    isIndependentOfLoad(all, workers) !== true
  ) {
    const foundMs = overheadMs === 0 ? estimateOverhead([...open, ...history], workers) : 0
    return foundMs > 0 ? explainAll(windows, loops, workers, of, foundMs) : undefined
  }
  // With few more requests than cores, sharing cannot be distinguished from separate workers.
  if (
    of === extractWork &&
    all.flatMap(({ found }) => found).filter((n) => n >= 2 * workers).length < minRequestsToCompare
  )
    return undefined
  const [ofWindows, ofLoops, ofAll] = [open, similarLoops, history].map((each) =>
    each.map(({ log }) => log),
  )
  if (isRateExceeded(windows, loops, workers, all)) return undefined
  const explained = sum(all.map(({ found }) => found.length))
  const unexplained = computeMisfit(all, workers) + (overheadMs > 0 ? overheadMisfitPenalty : 0)
  return {
    workers,
    overheadMs,
    sharesCores: of === extractWork,
    windows: ofWindows!,
    loops: ofLoops!,
    history: ofAll!,
    explained,
    misfit: unexplained,
  }
}

/** Share, and standard errors, by which a run may exceed the throughput of the workers. */
const minExcessRate = 0.1
const minStandardErrors = 4

/**
 * Whether some run exceeds the throughput of the workers. The server then has more workers, some of
 * which are idle at times although requests wait.
 */
function isRateExceeded(
  windows: readonly RunWithInterference[],
  loops: readonly LoadRun[],
  workers: number,
  explanation: readonly ServiceTimes[],
): boolean {
  const tookMs = explanation.flatMap(({ log }) => log.tookMs)
  const { mean, variance } = computeMoments(tookMs)
  const maxRps = (1000 * workers) / mean
  return [...windows.map(({ run }) => run), ...loops].some(
    (run) =>
      computeMeanThroughput(run) >
      maxRps *
        (1 +
          Math.max(
            minExcessRate,
            (minStandardErrors * Math.sqrt(variance)) / mean / Math.sqrt(run.latencyMs.length),
          )),
  )
}

/**
 * Estimates the overhead: the difference of the median service times of requests that found a free
 * worker and of those that waited. The latter spend their overhead in the queue. 0 where the
 * difference is too small or too large to be an overhead.
 */
function estimateOverhead(runs: readonly ServiceTimes[], workers: number): number {
  const { free, waited } = splitByWaiting(runs, workers)
  if (Math.min(free.length, waited.length) < minRequestsToCompare) return 0
  const overheadMs = median(free) - median(waited)
  return overheadMs > minOverheadShare * median(waited) &&
    overheadMs < maxOverheadShare * median(waited)
    ? overheadMs
    : 0
}

/**
 * Service times count as constant where the p99 of the unloaded latency is below this multiple of
 * its median.
 */
const maxUnloadedTailFactor = 2
/** Largest relative distance of the number of busy workers from a whole number. */
const maxWholeNumberGap = 0.15

/**
 * Estimates the busy workers of a saturated server with constant service times. Undefined where
 * their number is not close to a whole one, or where more requests departed at once.
 * @param maxDepartures largest number of simultaneous departures
 */
export function estimateBusyWorkers(
  saturationRps: number,
  { p50Ms, p99Ms }: Pick<LatencySummary, 'p50Ms' | 'p99Ms'>,
  maxDepartures: number,
): Pick<IdentifiedDiscipline, 'workers' | 'overheadMs'> | undefined {
  const busy = (saturationRps * p50Ms) / 1000
  const workers = Math.max(1, Math.round(busy))
  return p99Ms >= maxUnloadedTailFactor * p50Ms ||
    Math.abs(busy - workers) >= maxWholeNumberGap * workers ||
    maxDepartures > workers
    ? undefined
    : { workers, overheadMs: 0 }
}

/** Counts the older requests that each request overtook, in departure order. */
function countOvertaken(run: LoadRun): number[] {
  const { sentMs, endMs, leaving } = collectSojourns(run)
  const lastMs = (run.cutMs ?? Number.POSITIVE_INFINITY) - 1e-6
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
 * Mean number of busy workers at the highest observed throughput, by Little's law. Service times
 * are those of requests that found the fewest others. NaN without answers.
 */
function estimateMeanBusy(
  windows: readonly { readonly run: LoadRun }[],
  loops: readonly LoadRun[],
): number {
  const open = windows.map(({ run }) => run)
  const maxRps = [...open, ...loops].reduce(
    (highest, run) => Math.max(highest, computeMeanThroughput(run)),
    0,
  )
  // With so many workers no request waits, so its service begins at its arrival.
  const services = open.map((run) => extractServiceTimes(run, maxWorkers))
  const found = services.flatMap((service) => service.found)
  const few = found.toSorted((a, b) => a - b)[Math.floor(found.length / 10)]!
  const unqueuedMs = services.flatMap(({ log }) => log.tookMs).filter((_, i) => found[i]! <= few)
  return (maxRps * sum(unqueuedMs)) / unqueuedMs.length / 1000
}

/**
 * Whether a single worker serves requests out of order: each step serves one request, and takes as
 * long at any queue length.
 */
export function isSingleServerOutOfOrder(log: ServiceLog): boolean {
  const overtaken = log.rank.filter((rank) => rank > 0).length
  if (
    overtaken <= maxOvertakenShare * log.rank.length ||
    log.departed.some((departed) => departed > 1)
  )
    return false
  return (
    isIndependentOfLoad([{ log, found: log.present.map((present) => present - 1) }], 1) === true
  )
}

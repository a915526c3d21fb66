/**
 * Servers that take requests in the order of their arrival, each by the first of several workers
 * that is free.
 *
 * Of such a server every service time is known, and not its distribution alone: a request begins at
 * its arrival or, where all workers are busy, at the first of their departures (Kiefer and
 * Wolfowitz 1955, the recursion of G/G/m), and ends with its own. How many workers there are shows
 * in that service times then do not depend on how many requests were there: with too few of them
 * those that waited seem too short, with too many too long. Closed loops show the same service
 * times, only more of them, which open windows of a few seconds have too few of where slow requests
 * are rare.
 */
import { median, sum } from 'simple-statistics'
import { leastOf } from '../../../statistics/index-of-min.ts'
import { untilLastRps } from '../../../load/load-point.ts'
import type { LatencySummary } from '../../../model/load-point.ts'
import type { LoadRun } from '../../../model/load-run.ts'
import { meets, type Spans, type WatchedRun } from '../../host-interference.ts'
import type { WorkersSeen } from '../service-discipline.ts'
import { worksOf } from '../processor-sharing.ts'
import { moments, type Services, type Steps, stepsOfOne } from '../../service-log/service-log.ts'
import { byWaiting, fewest, independent, misfit, servedAlike } from './independence.ts'
import { answeredOf } from '../../service-log/sojourns.ts'

const mostWorkers = 64
/** Factor that their number may differ by from what the busy ones at the highest rate tell. */
const wrong = 1.6
/**
 * Share of requests that may have left before more older ones than there are workers: answers cross
 * on their way.
 */
const outOfOrder = 0.02
/**
 * Times as many requests that another number of workers must explain to be preferred to a smaller
 * one, and sharing to an order.
 */
const more = 1.1
/**
 * Time beside the workers as a share of that with them, from which on it is looked for, and up to
 * which it is believed.
 */
const leastBeside = 0.02
const mostBeside = 0.35
/** Requests of a window at whose services most numbers of workers show that they are wrong. */
const glance = 1500
/**
 * What time beside the workers must explain (a misfit, see independence.ts) to be believed: too few
 * workers look like the right ones with much beside them.
 */
const besideCosts = 4

/**
 * Service times of a run, were there so many workers. Failed requests, those cut short and those
 * that met a disturbance are left out.
 * @param besideMs what each request takes beside them: they saw it later by so much
 */
export function servicesOf(
  run: LoadRun,
  workers: number,
  disturbed: Spans = [],
  besideMs = 0,
): Services {
  const found: number[] = []
  const tookMs: number[] = []
  const departedMs: number[] = []
  const lastMs = (run.cutMs ?? Number.POSITIVE_INFINITY) - 1e-6
  const { sentMs, endMs, foundThere } = answeredOf(run, besideMs)
  const freeMs = new Float64Array(workers).fill(Number.NEGATIVE_INFINITY)
  for (const [i, atMs] of sentMs.entries()) {
    const endedMs = endMs[i]!
    const first = leastOf(freeMs)
    const beganMs = Math.max(atMs, freeMs[first]!)
    if (beganMs >= lastMs) break
    freeMs[first] = Math.max(endedMs, beganMs)
    if (endedMs >= lastMs || meets(disturbed, beganMs, endedMs)) continue
    found.push(foundThere[i]!)
    tookMs.push(Math.max(0, endedMs - beganMs))
    departedMs.push(endedMs)
  }
  return { steps: stepsOfOne(tookMs, departedMs), found }
}

/**
 * Service times of runs by so many workers; undefined of a server that does not take requests in
 * their order: more are overtaken than are at work.
 */
export function servicesInOrder(
  windows: readonly WatchedRun[],
  { workers, besideMs }: Pick<WorkersSeen, 'workers' | 'besideMs'>,
): readonly Steps[] | undefined {
  return overtakesBeyond(
    windows.flatMap(({ run }) => overtakenBy(run)),
    workers,
  )
    ? undefined
    : windows.map(({ run, disturbed }) => servicesOf(run, workers, disturbed, besideMs).steps)
}

/** Only those at work can be overtaken where all are taken in the order of their arrival. */
function overtakesBeyond(overtaken: readonly number[], workers: number): boolean {
  return overtaken.filter((older) => older >= workers).length > outOfOrder * overtaken.length
}

/**
 * The workers that make service times independent of the load, one request after the other or all
 * at once: those that explain most of what was seen, and best. Undefined for servers that no number
 * fits (batches, several stages), or that were too seldom busy to tell.
 * @param windows open ones
 * @param loops closed ones in order of time: used from the last one back to the first that was
 * served otherwise
 */
export function workersSeen(
  windows: readonly WatchedRun[],
  loops: readonly LoadRun[],
): WorkersSeen | undefined {
  const about = meanBusy(windows, loops)
  const overtaken = windows.flatMap(({ run }) => overtakenBy(run))
  const begins = beginningsOf(windows)
  let best: Explanation | undefined
  for (const of of [servicesOf, worksOf]) {
    for (
      let workers = Math.max(1, Math.floor(about / wrong));
      workers <= Math.min(mostWorkers, wrong * about + 1);
      workers++
    ) {
      if (of === servicesOf && overtakesBeyond(overtaken, workers)) continue
      if (begins.length > 0 && openBy(begins, workers, of) === undefined) continue
      const seen = explainedBy(windows, loops, workers, of)
      if (seen === undefined) continue
      const fitsBetter =
        best !== undefined && best.shared === seen.shared && seen.misfit < best.misfit
      if (best === undefined || seen.explained > (fitsBetter ? 1 / more : more) * best.explained)
        best = seen
    }
  }
  return best
}

/**
 * Of fast servers the first requests of each window, in which numbers of workers that are far from
 * right show; empty where there are few more.
 */
function beginningsOf(windows: readonly WatchedRun[]): readonly WatchedRun[] {
  if (windows.every(({ run }) => run.sentMs.length <= 2 * glance)) return []
  return windows.map(({ run, disturbed }) => {
    if (run.sentMs.length <= glance) return { run, disturbed }
    const sentMs = run.sentMs.slice(0, glance)
    const cutMs = Math.min(run.cutMs ?? Number.POSITIVE_INFINITY, run.sentMs[glance]!)
    return { run: { ...run, sentMs, latencyMs: run.latencyMs.slice(0, glance), cutMs }, disturbed }
  })
}

/** `explained`: requests; `misfit`: what it leaves unexplained of them. */
interface Explanation extends WorkersSeen {
  readonly explained: number
  readonly misfit: number
}

/**
 * What windows showed as the work of so many workers, where it is not seen to hang on the load: by
 * itself, or without what each request takes beside them.
 */
function openBy(
  windows: readonly WatchedRun[],
  workers: number,
  of: typeof servicesOf,
  besideMs = 0,
): { readonly open: readonly Services[]; readonly besideMs: number } | undefined {
  const open = windows.map(({ run, disturbed }) => of(run, workers, disturbed, besideMs))
  if (independent(open, workers) !== false) return { open, besideMs }
  const foundMs = besideMs === 0 ? besideOf(open, workers) : 0
  return foundMs > 0 ? openBy(windows, workers, of, foundMs) : undefined
}

/**
 * What was seen, closed loops too, as the work of so many workers, where it is independent of the
 * load.
 */
function explainedBy(
  windows: readonly WatchedRun[],
  loops: readonly LoadRun[],
  workers: number,
  of: typeof servicesOf,
  triedMs = 0,
): Explanation | undefined {
  const seen = openBy(windows, workers, of, triedMs)
  if (seen === undefined) return undefined
  const { open, besideMs } = seen
  const history = loops.map((loop) => of(loop, workers, [], besideMs))
  const alike = servedAlike(open, history)
  const all = [...open, ...alike]
  if ((loops.length > 0 && alike.length === 0) || independent(all, workers) !== true) {
    const foundMs = besideMs === 0 ? besideOf([...open, ...history], workers) : 0
    return foundMs > 0 ? explainedBy(windows, loops, workers, of, foundMs) : undefined
  }
  // While there are hardly more requests than cores, those that share them are as those that do
  // not.
  if (
    of === worksOf &&
    all.flatMap(({ found }) => found).filter((n) => n >= 2 * workers).length < fewest
  )
    return undefined
  const [ofWindows, ofLoops, ofAll] = [open, alike, history].map((each) =>
    each.map(({ steps }) => steps),
  )
  if (outdone(windows, loops, workers, all)) return undefined
  const explained = sum(all.map(({ found }) => found.length))
  const unexplained = misfit(all, workers) + (besideMs > 0 ? besideCosts : 0)
  return {
    workers,
    besideMs,
    shared: of === worksOf,
    windows: ofWindows!,
    loops: ofLoops!,
    history: ofAll!,
    explained,
    misfit: unexplained,
  }
}

/**
 * Share, and standard errors, by which a run may have been answered faster than so many workers
 * can.
 */
const faster = 0.1
const certain = 4

/**
 * Whether more was answered in some run than so many workers can that take so long: there are more
 * of them, some of whom are away now and then, or have nothing in their own queues.
 */
function outdone(
  windows: readonly WatchedRun[],
  loops: readonly LoadRun[],
  workers: number,
  seen: readonly Services[],
): boolean {
  const tookMs = seen.flatMap(({ steps }) => steps.tookMs)
  const { mean, variance } = moments(tookMs, [...tookMs.keys()])
  const mostRps = (1000 * workers) / mean
  return [...windows.map(({ run }) => run), ...loops].some(
    (run) =>
      untilLastRps(run) >
      mostRps *
        (1 +
          Math.max(
            faster,
            (certain * Math.sqrt(variance)) / mean / Math.sqrt(run.latencyMs.length),
          )),
  )
}

/**
 * How much longer requests seem to be served that found a worker free: those that waited did what
 * is beside the workers meanwhile. 0 where that is no explanation.
 */
function besideOf(runs: readonly Services[], workers: number): number {
  const { free, waited } = byWaiting(runs, workers)
  if (Math.min(free.length, waited.length) < fewest) return 0
  const besideMs = median(free) - median(waited)
  return besideMs > leastBeside * median(waited) && besideMs < mostBeside * median(waited)
    ? besideMs
    : 0
}

/**
 * Slowest of idle latencies, as a multiple of the middle one, of requests that all take about as
 * long; and how far from a whole number their workers may seem.
 */
const even = 2
const nearlyWhole = 0.15

/**
 * Of a server whose requests all take about as long, those that were at work when it was saturated;
 * unknown where they are no whole number, or more left together.
 * @param together requests that left at once
 */
export function workersAtWork(
  saturationRps: number,
  { p50Ms, p99Ms }: Pick<LatencySummary, 'p50Ms' | 'p99Ms'>,
  together: number,
): Pick<WorkersSeen, 'workers' | 'besideMs'> | undefined {
  const busy = (saturationRps * p50Ms) / 1000
  const workers = Math.max(1, Math.round(busy))
  return p99Ms >= even * p50Ms ||
    Math.abs(busy - workers) >= nearlyWhole * workers ||
    together > workers
    ? undefined
    : { workers, besideMs: 0 }
}

/** How many older ones each request left behind, in the order in which they left. */
function overtakenBy(run: LoadRun): number[] {
  const { sentMs, endMs, leaving } = answeredOf(run)
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
 * Workers that are busy at the highest rate of answers seen, were a request served as long as those
 * are that found the fewest others: Little's law. NaN where nobody was answered.
 */
function meanBusy(
  windows: readonly { readonly run: LoadRun }[],
  loops: readonly LoadRun[],
): number {
  const open = windows.map(({ run }) => run)
  const mostRps = [...open, ...loops].reduce((most, run) => Math.max(most, untilLastRps(run)), 0)
  // With ever so many workers service begins at once.
  const stays = open.map((run) => servicesOf(run, mostWorkers))
  const found = stays.flatMap((stay) => stay.found)
  const few = found.toSorted((a, b) => a - b)[Math.floor(found.length / 10)]!
  const unhindered = stays.flatMap(({ steps }) => steps.tookMs).filter((_, i) => found[i]! <= few)
  return (mostRps * sum(unhindered)) / unhindered.length / 1000
}

/**
 * Whether one worker serves requests one after the other, and not in the order of their arrival:
 * steps from one departure to the next, one request each, then take as long however many were
 * there.
 */
export function servesOutOfTurn(steps: Steps): boolean {
  const overtaken = steps.rank.filter((rank) => rank > 0).length
  if (
    overtaken <= outOfOrder * steps.rank.length ||
    steps.departed.some((departed) => departed > 1)
  )
    return false
  return independent([{ steps, found: steps.present.map((present) => present - 1) }], 1) === true
}

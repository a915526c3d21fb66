/**
 * Servers that take requests in the order of their arrival, each by the first of several workers that is free.
 *
 * Of such a server every service time is known, and not its distribution alone: a request begins at its arrival or, where all workers are busy, at the
 * first of their departures (Kiefer and Wolfowitz 1955, the recursion of G/G/m), and ends with its own. How many workers there are shows in
 * that service times then do not depend on how many requests were there: with too few of them those that waited seem too short, with too many
 * too long. Closed loops show the same service times, only more of them, which open windows of a few seconds have too few of where slow
 * requests are rare.
 */
import { sum } from 'simple-statistics'
import { untilLastRps } from '../statistics/load-point.ts'
import { quantileOfSorted } from '../statistics/percentile.ts'
import type { LoadRun } from '../types.ts'
import { meets, type Spans } from './disturbance.ts'
import { worksOf } from './sharing.ts'
import { atMost } from './stalls-beside.ts'
import { moments, type Services, type Steps } from './steps.ts'

/** What open windows and closed loops showed of such a server. */
export interface WorkersSeen {
  readonly workers: number
  /** They work on all requests at once, and what follows is the work of each. */
  readonly shared?: boolean
  /** Service times of each open window, as steps of one request each, in the order in which they began. */
  readonly windows: readonly Steps[]
  /** Of the closed loops that were served alike. */
  readonly loops: readonly Steps[]
  /** Of all closed loops. */
  readonly history?: readonly Steps[]
}

const mostWorkers = 64
/** Factor that their number may differ by from what the busy ones at the highest rate tell. */
const wrong = 1.6
/** Fewest requests that waited, and that did not, to tell whether it makes a difference. */
const fewest = 25
/** Difference of mean service times, as a share of them, that is none. */
const same = 0.02
/** Standard errors beyond which a difference is one: service times have long tails, and there are many loops to compare; of half of all of them. */
const certain = 4
const ratherCertain = 3
/** Share of requests that may have left before more older ones than there are workers: answers cross on their way. */
const outOfOrder = 0.02
/** Times as many requests that another number of workers must explain to be preferred to a smaller one, and sharing to an order. */
const more = 1.1
/** Share of services not half as long as nearly all of requests that did not wait, up to which they are chance (2.5 % where they are exponential). */
const fewShort = 0.04

/** Service times of a run, were there so many workers. Failed requests, those cut short and those that met a disturbance are left out. */
export function servicesOf({ sentMs, latencyMs, cutMs }: LoadRun, workers: number, disturbed: Spans = []): Services {
  const steps: Steps = { present: [], tookMs: [], departed: [], rank: [], endedMs: [], spreadMs: [] }
  const found: number[] = []
  const lastMs = (cutMs ?? Number.POSITIVE_INFINITY) - 1e-6
  const answered = [...sentMs.keys()].filter((i) => !Number.isNaN(latencyMs[i]!)).sort((a, b) => sentMs[a]! - sentMs[b]!)
  const endsMs = Float64Array.from(answered, (i) => sentMs[i]! + latencyMs[i]!).sort()
  const freeMs = new Float64Array(workers).fill(Number.NEGATIVE_INFINITY)
  let left = 0
  for (const [taken, i] of answered.entries()) {
    const atMs = sentMs[i]!
    const endedMs = atMs + latencyMs[i]!
    while (left < endsMs.length && endsMs[left]! <= atMs + 1e-6) left++
    const first = leastOf(freeMs)
    const beganMs = Math.max(atMs, freeMs[first]!)
    if (beganMs >= lastMs) break
    freeMs[first] = Math.max(endedMs, beganMs)
    if (endedMs >= lastMs || meets(disturbed, beganMs, endedMs)) continue
    found.push(taken - left)
    steps.present.push(1)
    steps.tookMs.push(Math.max(0, endedMs - beganMs))
    steps.departed.push(1)
    steps.rank.push(0)
    steps.endedMs.push(endedMs)
    steps.spreadMs.push(0)
  }
  return { steps, found }
}

/** Service times of runs by so many workers; undefined of a server that does not take requests in their order: more are overtaken than are at work. */
export function servicesInOrder(
  windows: readonly { readonly run: LoadRun; readonly disturbed: Spans }[],
  workers: number,
): readonly Steps[] | undefined {
  return overtakesBeyond(windows, workers) ? undefined : windows.map(({ run, disturbed }) => servicesOf(run, workers, disturbed).steps)
}

/** Only those at work can be overtaken where all are taken in the order of their arrival. */
function overtakesBeyond(windows: readonly { readonly run: LoadRun }[], workers: number): boolean {
  const overtaken = windows.flatMap(({ run }) => overtakenBy(run))
  return overtaken.filter((older) => older >= workers).length > outOfOrder * overtaken.length
}

/** Index of the least value. */
export function leastOf(values: Float64Array): number {
  let least = 0
  for (let i = 1; i < values.length; i++) if (values[i]! < values[least]!) least = i
  return least
}

/**
 * The workers that make service times independent of the load, one request after the other or all at once: those that explain most of what was seen, the fewest
 * of them. Undefined for servers that no number fits (batches, several stages), or that were too seldom busy to tell.
 * @param windows open ones
 * @param loops closed ones in order of time: used from the last one back to the first that was served otherwise
 */
export function workersSeen(
  windows: readonly { readonly run: LoadRun; readonly disturbed: Spans }[],
  loops: readonly LoadRun[],
): WorkersSeen | undefined {
  const about = meanBusy(windows, loops)
  let best: WorkersSeen | undefined
  let explained = 0
  for (const of of [servicesOf, worksOf]) {
    for (let workers = Math.max(1, Math.floor(about / wrong)); workers <= Math.min(mostWorkers, wrong * about + 1); workers++) {
      if (of === servicesOf && overtakesBeyond(windows, workers)) continue
      const open = windows.map(({ run, disturbed }) => of(run, workers, disturbed))
      if (independent(open, workers) === false) continue
      const history = loops.map((loop) => of(loop, workers))
      const alike = servedAlike(open, history)
      if (loops.length > 0 && alike.length === 0) continue
      const all = [...open, ...alike]
      if (independent(all, workers) !== true) continue
      // While there are hardly more requests than cores, those that share them are as those that do not.
      if (of === worksOf && all.flatMap(({ found }) => found).filter((n) => n >= 2 * workers).length < fewest) continue
      const requests = sum(all.map(({ found }) => found.length))
      if (requests <= more * explained) continue
      explained = requests
      const [ofWindows, ofLoops, ofAll] = [open, alike, history].map((each) => each.map(({ steps }) => steps))
      best = { workers, shared: of === worksOf, windows: ofWindows!, loops: ofLoops!, history: ofAll! }
    }
  }
  return best
}

/** How many older ones each request left behind, in the order in which they left. */
function overtakenBy({ sentMs, latencyMs, cutMs = Number.POSITIVE_INFINITY }: LoadRun): number[] {
  const answered = [...sentMs.keys()].filter((i) => !Number.isNaN(latencyMs[i]!)).sort((a, b) => sentMs[a]! - sentMs[b]!)
  const endMs = (i: number) => sentMs[i]! + latencyMs[i]!
  const present: number[] = []
  let arrived = 0
  return answered
    .filter((i) => endMs(i) < cutMs - 1e-6)
    .sort((a, b) => endMs(a) - endMs(b))
    .map((leaving) => {
      while (arrived < answered.length && sentMs[answered[arrived]!]! <= endMs(leaving)) present.push(answered[arrived++]!)
      const older = present.indexOf(leaving)
      present.splice(older, 1)
      return older
    })
}

/**
 * Workers that are busy at the highest rate of answers seen, were a request served as long as those are that found the fewest others: Little's law.
 * NaN where nobody was answered.
 */
function meanBusy(windows: readonly { readonly run: LoadRun }[], loops: readonly LoadRun[]): number {
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
 * Whether requests that waited were served as long as those that did not, and those that found many as long as those that found few; undefined where
 * too few of either tell.
 */
function independent(runs: readonly Services[], workers: number): boolean | undefined {
  const ms = runs.flatMap(({ steps }) => steps.tookMs)
  const found = runs.flatMap((run) => run.found)
  const where = (holds: (n: number) => boolean) => ms.filter((_, i) => holds(found[i]!))
  const [atOnce, waited] = [where((n) => n < workers), where((n) => n >= workers)]
  if (atOnce.length < fewest || waited.length < fewest) return undefined
  const shortMs = 0.5 * atOnce.toSorted((a, b) => a - b)[Math.floor(0.05 * atOnce.length)]!
  const short = waited.filter((each) => each < shortMs).length
  if (short > fewShort * waited.length + ratherCertain * Math.sqrt(fewShort * waited.length)) return false
  const ascending = found.toSorted((a, b) => a - b)
  const quarters = [1, 2, 3].map((quarter) => ascending[Math.floor((quarter * found.length) / 4)]!)
  return (
    alike(atOnce, waited, certain) &&
    [...new Set(quarters)].every((n) =>
      alike(
        where((each) => each < n),
        where((each) => each >= n),
        certain,
      ),
    )
  )
}

/**
 * Whether one worker serves requests one after the other, and not in the order of their arrival: steps from one departure to the next, one request each, then take as
 * long however many were there.
 */
export function servesOutOfTurn(steps: Steps): boolean {
  const overtaken = steps.rank.filter((rank) => rank > 0).length
  if (overtaken <= outOfOrder * steps.rank.length || steps.departed.some((departed) => departed > 1)) return false
  return independent([{ steps, found: steps.present.map((present) => present - 1) }], 1) === true
}

/** The last loops whose service times do not differ from those of the open windows and of the loops after them, one by one and the earlier half together. */
function servedAlike(open: readonly Services[], loops: readonly Services[]): Services[] {
  const times = (of: readonly Services[]) => of.flatMap(({ steps }) => steps.tookMs)
  let found: Services[] = []
  for (const services of loops.toReversed()) {
    if (!alike(times([...open, ...found]), services.steps.tookMs, certain)) break
    found.unshift(services)
  }
  for (let half = Math.floor(found.length / 2); half > 0; half = Math.floor(found.length / 2)) {
    const [earlier, later] = [times(found.slice(0, half)), times([...open, ...found.slice(half)])]
    if (alike(later, earlier, ratherCertain) && !slowOnesGrewRarer(earlier, later)) break
    found = found.slice(half)
  }
  return found
}

/** A service is slow that takes so many times the median, and rare where no larger share is. */
const slow = 2
const rare = 0.1
/** Probability of fewer slow ones later by chance, below which they became rarer: as of a cache that fills, each of whose inputs is slow once. */
const chance = 0.05

function slowOnesGrewRarer(earlier: readonly number[], later: readonly number[]): boolean {
  const leastMs = slow * quantileOfSorted(Float64Array.from([...earlier, ...later]).sort(), 0.5)
  const [before, after] = [earlier, later].map((times) => times.filter((ms) => ms > leastMs).length)
  const all = before! + after!
  return all <= rare * (earlier.length + later.length) && atMost(after!, all, later.length / (earlier.length + later.length)) < chance
}

/** Whether two samples differ neither in their mean nor in that of their logarithms, beyond 2 % and so many standard errors, were they of one kind. */
function alike(known: readonly number[], other: readonly number[], errors: number): boolean {
  if (other.length === 0) return true
  const mean = sum(known) / known.length
  const logs = (values: readonly number[]) => values.map((value) => Math.log(Math.max(1e-3 * mean, value)))
  return !apart(known, other, same * mean, errors) && !apart(logs(known), logs(other), same, errors)
}

/** Whether two means differ by more than `least` and so many standard errors. */
function apart(a: readonly number[], b: readonly number[], least: number, errors: number): boolean {
  const both = [...a, ...b]
  const { mean, variance } = moments(both, [...both.keys()])
  const difference = (sum([...a]) / a.length - mean) * (1 + a.length / b.length)
  return Math.abs(difference) > Math.max(least, errors * Math.sqrt(variance * (1 / a.length + 1 / b.length)))
}

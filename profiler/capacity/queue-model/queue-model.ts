/**
 * A twin of a server, made from what a load saw of it: a queue whose every step is drawn from the
 * steps that were observed.
 *
 * A step leads from one departure to the next. It is recorded with the number of requests k that
 * were there when it began, how long it took, how many left at its end (a batch), and how old the
 * first of these was among those present. That is the embedded Markov chain of an M/G/1 queue and
 * of its batch variants (Kendall 1953; Bailey 1954), learnt without assuming the service's
 * distribution, and an approximation for several workers or processor sharing. A twin can be put
 * under any load for as long as one likes, at no cost to the server.
 */
import type { Uniform } from '../../seeded-random.ts'
import { leastOf } from '../../statistics/index-of-min.ts'
import { type Batching, type Line, lineAt, lineThrough, serveByBatches } from './batching.ts'
import { binsOf } from './queue-length-bins.ts'
import { serveBySharing } from './processor-sharing.ts'
import { mostOfCoresRps, serveByStages } from './two-stages.ts'
import type { Stalling } from './outages.ts'
import { moments, type Steps } from '../service-log/service-log.ts'

/** Steps grouped by the number present, neighbours together where they do not differ. */
export interface Twin {
  readonly steps: Steps
  /** Bin of each number present; the last also serves all larger numbers. */
  readonly binOf: Int32Array
  /** Indices into `steps`. */
  readonly bins: readonly Int32Array[]
  readonly drain?: Drain
  /**
   * Of a twin that serves batches: what one of so many takes. A step seen at one size serves at
   * another.
   */
  readonly line?: Line
  /**
   * Who leaves is told by how many younger ones stay, rather than by how many older ones: a server
   * that takes the last who came.
   */
  readonly fromBack?: boolean
  /**
   * Requests are served one each by the first of so many workers that is free, steps being their
   * service times. Absent: steps follow one another.
   */
  readonly workers?: number
  /** The workers work on all requests at once (see sharing.ts), steps being the work of each. */
  readonly shared?: boolean
  /** The workers serve batches, steps being how long each was served, by how many were in it. */
  readonly batching?: Batching
  /** Requests that may be there; one more is refused. Absent: any number. */
  readonly places?: number
}

/** What is known of a server beside its steps. */
interface TwinKind extends Pick<Twin, 'workers' | 'shared' | 'batching' | 'places'> {
  /** Requests that it was seen to take together, in closed loops too. */
  readonly largest?: number
}

/**
 * Of a server that takes all who are there, up to `most` at a time: how much longer its step gets
 * by each, ms. A step seen at one number then serves at another.
 */
interface Drain {
  readonly most: number
  readonly msEach: number
}

/**
 * Share of steps that must have taken all who were there, but for this share of them: cores that
 * decode leave one or two behind.
 */
const drains = 0.8
const leftBehind = 0.2
const fewestToFit = 12

/**
 * Undefined for a server that takes them otherwise, or one by one. The largest batch may have been
 * seen elsewhere.
 */
function drainOf(steps: Steps, largest: number): Drain | undefined {
  const seen = steps.departed.reduce((a, b) => Math.max(a, b), 0)
  const whole = [...steps.present.keys()].filter((i) => tookAll(steps, i, seen))
  if (seen < 2 || whole.length < fewestToFit || whole.length < drains * steps.present.length)
    return undefined
  const [ms, size] = [moments(steps.tookMs, whole), moments(steps.departed, whole)]
  const together =
    whole.reduce(
      (sum, i) => sum + (steps.tookMs[i]! - ms.mean) * (steps.departed[i]! - size.mean),
      0,
    ) / whole.length
  return {
    most: Math.max(seen, largest),
    msEach: size.variance > 0 ? Math.max(0, together / size.variance) : 0,
  }
}

/**
 * Times that a batch as large must have been seen: two that follow each other closely may look like
 * one.
 */
const fewestAlike = 3

/**
 * The most that a server takes together, by closed loops: few requests of an open window find a
 * full batch where a batch takes long. As many as left together time and again; more where all of
 * those that found more than that were taken together, once though it be: then no limit was seen.
 */
export function largestBatch(loops: readonly Steps[]): number {
  const descending = loops.flatMap(({ departed }) => departed).sort((a, b) => b - a)
  const known = descending.find((size, i) => size === descending[i + fewestAlike - 1]) ?? 0
  const beyond = loops.flatMap(({ present, departed }) =>
    present.flatMap((there, i) =>
      there > known ? [{ size: there, whole: departed[i] === there }] : [],
    ),
  )
  const whole = beyond.filter((step) => step.whole)
  return whole.length > 0 && whole.length >= drains * beyond.length
    ? Math.max(...whole.map(({ size }) => size))
    : known
}

/**
 * Whether the place of who leaves varies less by those who came after them than by those who came
 * before.
 */
function youngestFirst({ present, rank, departed }: Steps): boolean {
  const several = [...present.keys()].filter((i) => present[i]! > 2 && departed[i] === 1)
  const fromBack = present.map((k, i) => k - rank[i]!)
  return (
    several.length >= fewestToFit &&
    moments(fromBack, several).variance < 0.5 * moments(rank, several).variance
  )
}

/**
 * Whether steps with several present took all of them, up to a largest number: a server that serves
 * batches.
 */
export function servesBatches(steps: Steps): boolean {
  const most = steps.departed.reduce((a, b) => Math.max(a, b), 0)
  const several = [...steps.present.keys()].filter((i) => steps.present[i]! > 1)
  return (
    most > 1 &&
    several.length >= fewestToFit &&
    several.filter((i) => tookAll(steps, i, most)).length >= drains * several.length
  )
}

const tookAll = ({ present, departed }: Steps, i: number, most: number): boolean =>
  departed[i]! >= (1 - leftBehind) * Math.min(present[i]!, most) &&
  departed[i]! <= Math.min(present[i]!, most)

/**
 * Variance of the draws over that of as many as there are: of steps and batches, which are no whole
 * picture of the server, and of the service times of workers, which are.
 */
const overdispersed = { steps: 2, services: 1.5 } as const

/**
 * Probability that a step is followed by the one that followed it in the server, which carries over
 * what the other workers are at (stationary bootstrap, Politis and Romano 1994): runs of five steps.
 */
export const continueProbability = 0.8

/** Groups steps into a twin of a server. Throws a RangeError without any step. */
export function twinOf(steps: Steps, { largest = 0, ...kind }: TwinKind = {}): Twin {
  if (!(Math.max(...steps.present) >= 1)) throw new RangeError('no step of the server was observed')
  const line = kind.batching && lineThrough(steps)
  const compared = line ? [ratiosTo(line, steps)] : [steps.tookMs, steps.departed]
  const { binOf, bins } = binsOf(steps, compared, largest)
  return {
    steps,
    binOf,
    bins,
    drain: kind.batching ? undefined : drainOf(steps, largest),
    line,
    fromBack: youngestFirst(steps),
    ...kind,
  }
}

const ratiosTo = (line: Line, { tookMs, departed }: Steps): number[] =>
  tookMs.map((ms, i) => ms / lineAt(line, departed[i]!))

/**
 * The same twin with its steps drawn anew, in blocks of neighbours: its sampling error (stationary
 * bootstrap, Politis and Romano 1994). Fewer than there are, as a few slow ones in hundreds decide
 * the capacity, of which as many draws would show too little doubt (Bickel, Götze and van Zwet
 * 1997). A bin that got no step, or none that takes any time (of what leaves at the very moment of
 * another), keeps its own: it would serve without end.
 */
export function bootstrap(twin: Twin, uniform: Uniform): Twin {
  const { steps, binOf, bins } = twin
  const n = steps.present.length
  const drawn: Steps = {
    present: [],
    tookMs: [],
    departed: [],
    rank: [],
    endedMs: [],
    spreadMs: [],
  }
  const add = (i: number) => {
    drawn.present.push(steps.present[i]!)
    drawn.tookMs.push(steps.tookMs[i]!)
    drawn.departed.push(steps.departed[i]!)
    drawn.rank.push(steps.rank[i]!)
    drawn.endedMs.push(steps.endedMs[i]!)
    drawn.spreadMs.push(steps.spreadMs[i]!)
  }
  for (
    let i = Math.floor(uniform() * n);
    drawn.present.length <
    n /
      overdispersed[
        twin.workers === undefined || twin.batching !== undefined ? 'steps' : 'services'
      ];
    i = uniform() < continueProbability ? (i + 1) % n : Math.floor(uniform() * n)
  )
    add(i)
  const drawnBins: number[][] = bins.map(() => [])
  drawn.present.forEach((k, i) => {
    drawnBins[binOf[k]!]!.push(i)
  })
  for (const [b, bin] of drawnBins.entries()) {
    if (bin.some((i) => drawn.tookMs[i]! > 0)) continue
    for (const i of bins[b]!) {
      bin.push(drawn.present.length)
      add(i)
    }
  }
  return {
    ...twin,
    steps: drawn,
    bins: drawnBins.map((bin) => Int32Array.from(bin)),
    line: twin.batching && lineThrough(drawn),
  }
}

/** Whether requests leave in the order of their arrival: by workers, batches, or one by one. */
export function takesInOrder({ steps, workers, drain }: Twin): boolean {
  return workers !== undefined || drain !== undefined || steps.rank.every((rank) => rank === 0)
}

/** Requests per second that the twin serves when they queue without end. */
export function saturationOf(twin: Twin): number {
  const { steps, bins, drain, batching, workers = 1 } = twin
  if (batching !== undefined) {
    const byBatchesRps =
      (1000 * workers * batching.most * bins.at(-1)!.length) /
      stepsWhenFull(twin).reduce((sum, ms) => sum + ms, 0)
    return Math.min(byBatchesRps, mostOfCoresRps(batching.cores))
  }
  let ms = 0
  let departed = 0
  for (const i of bins.at(-1)!) {
    const leaving =
      drain !== undefined && tookAll(steps, i, drain.most) ? drain.most : steps.departed[i]!
    ms += steps.tookMs[i]! + (drain?.msEach ?? 0) * (leaving - steps.departed[i]!)
    departed += leaving
  }
  return (1000 * workers * departed) / ms
}

/**
 * Standard error of that by the chance of one answer, as a share: a batch has many answers, and but
 * one time.
 */
export function saturationErrorOf(twin: Twin): number {
  const tookMs = stepsWhenFull(twin)
  const { mean, variance } = moments(tookMs, [...tookMs.keys()])
  const answers = (saturationOf(twin) * mean) / 1000 / (twin.workers ?? 1)
  return (Math.sqrt(variance) / mean) * Math.sqrt(answers)
}

/** How long the steps of a queue without end take, ms: full batches. */
export const stepsWhenFull = (twin: Twin): number[] =>
  Array.from(twin.bins.at(-1)!, (i) =>
    twin.batching === undefined ? twin.steps.tookMs[i]! : servedMs(twin, i, twin.batching.most),
  )

/** How long a batch that was seen would have been served, were it of so many. */
function servedMs({ steps, line }: Twin, step: number, size: number): number {
  const [tookMs, seen] = [steps.tookMs[step]!, steps.departed[step]!]
  return line === undefined ? tookMs : (tookMs * lineAt(line, size)) / lineAt(line, seen)
}

/**
 * Chooses the step that follows another: the server's own next step, or any other that fits.
 * @param fitting indices of steps that fit the queue, ascending
 * @param last -1 for none
 */
function chooseNextStep(fitting: Int32Array, last: number, uniform: Uniform): number {
  return last >= 0 && contains(fitting, last + 1) && uniform() < continueProbability
    ? last + 1
    : fitting[Math.floor(uniform() * fitting.length)]!
}

function contains(ascending: Int32Array, value: number): boolean {
  let [from, to] = [0, ascending.length]
  while (from < to) {
    const middle = (from + to) >> 1
    if (ascending[middle]! < value) from = middle + 1
    else to = middle
  }
  return ascending[from] === value
}

/**
 * Latencies of the twin under arrivals (ms, ascending), in their order, into `latencyMs`, Infinity
 * for refused ones. Every step takes `slowness` times as long, stalls too.
 */
export function simulate(
  twin: Twin,
  arrivalsMs: Float64Array,
  slowness: number,
  uniform: Uniform,
  latencyMs: Float64Array,
  stalling: Stalling = () => 0,
): void {
  if (twin.batching !== undefined) {
    const { cores } = twin.batching
    const servedMs = batchTimes(twin, slowness, uniform, stalling)
    if (cores !== undefined)
      serveByStages(cores, twin.batching, servedMs, slowness, arrivalsMs, latencyMs)
    else serveByBatches(twin.batching, servedMs, slowness, arrivalsMs, latencyMs)
    return
  }
  if (twin.workers !== undefined) {
    serveByWorkers(twin, twin.workers, arrivalsMs, slowness, uniform, latencyMs, stalling)
    return
  }
  const { binOf, bins, drain, fromBack, places = Number.POSITIVE_INFINITY } = twin
  const { msEach = 0, most = 0 } = drain ?? {}
  const { tookMs, departed, rank } = twin.steps
  const n = arrivalsMs.length
  const queue = new Int32Array(n)
  const largest = binOf.length - 1
  let head = 0
  let tail = 0
  let arrived = 0
  let now = 0
  let step = -1
  while (true) {
    if (head === tail) {
      if (arrived === n) return
      now = arrivalsMs[arrived]!
      queue[tail++] = arrived++
    }
    const present = tail - head
    step = chooseNextStep(bins[binOf[Math.min(present, largest)]!]!, step, uniform)
    const stayed = Math.min(twin.steps.present[step]!, most) - departed[step]!
    const leaving =
      most > 0 && tookAll(twin.steps, step, most)
        ? Math.max(1, Math.min(present - stayed, most))
        : Math.min(departed[step]!, present)
    const took = Math.max(0, tookMs[step]! + msEach * (leaving - departed[step]!))
    now += slowness * (took + stalling(now, took))
    const place = fromBack ? present - (twin.steps.present[step]! - rank[step]!) : rank[step]!
    const first = Math.max(0, Math.min(place, present - leaving))
    for (; arrived < n && arrivalsMs[arrived]! <= now; arrived++) {
      if (tail - head < places) queue[tail++] = arrived
      else latencyMs[arrived] = Number.POSITIVE_INFINITY
    }
    for (let i = 0; i < leaving; i++) {
      const request = queue[head + first + i]!
      latencyMs[request] = now - arrivalsMs[request]!
    }
    if (first > 0) queue.copyWithin(head + leaving, head, head + first)
    head += leaving
  }
}

/** How long a batch of so many that begins then is served, asked for in order of time. */
function batchTimes(
  twin: Twin,
  slowness: number,
  uniform: Uniform,
  stalling: Stalling,
): (size: number, beganMs: number) => number {
  const { binOf, bins } = twin
  const largest = binOf.length - 1
  let step = -1
  return (size, beganMs) => {
    step = chooseNextStep(bins[binOf[Math.min(size, largest)]!]!, step, uniform)
    const took = servedMs(twin, step, size)
    return slowness * (took + stalling(beganMs, took))
  }
}

/**
 * As `simulate`, of a twin with workers: each request begins at its arrival, or at the first
 * departure when all of them are busy.
 */
function serveByWorkers(
  { steps, shared, places = Number.POSITIVE_INFINITY }: Twin,
  workers: number,
  arrivalsMs: Float64Array,
  slowness: number,
  uniform: Uniform,
  latencyMs: Float64Array,
  stalling: Stalling,
): void {
  const { tookMs } = steps
  let step = -1
  const serviceMs = (beganMs: number) => {
    step =
      step >= 0 && step + 1 < tookMs.length && uniform() < continueProbability
        ? step + 1
        : Math.floor(uniform() * tookMs.length)
    return slowness * (tookMs[step]! + stalling(beganMs, tookMs[step]!))
  }
  if (shared) {
    serveBySharing(workers, places, arrivalsMs, serviceMs, latencyMs)
    return
  }
  const freeMs = new Float64Array(workers).fill(Number.NEGATIVE_INFINITY)
  const unlimited = places === Number.POSITIVE_INFINITY
  /** When each ends, ascending; those from `head` on are there. */
  const endsMs = new Float64Array(unlimited ? 0 : arrivalsMs.length)
  let head = 0
  let tail = 0
  for (let i = 0; i < arrivalsMs.length; i++) {
    const atMs = arrivalsMs[i]!
    while (head < tail && endsMs[head]! <= atMs) head++
    if (tail - head >= places) {
      latencyMs[i] = Number.POSITIVE_INFINITY
      continue
    }
    const first = leastOf(freeMs)
    const beganMs = Math.max(atMs, freeMs[first]!)
    const endedMs = beganMs + serviceMs(beganMs)
    freeMs[first] = endedMs
    latencyMs[i] = endedMs - atMs
    if (unlimited) continue
    let place = tail++
    for (; place > head && endsMs[place - 1]! > endedMs; place--) endsMs[place] = endsMs[place - 1]!
    endsMs[place] = endedMs
  }
}

/**
 * A twin of a server, made from what a load saw of it: a queue whose every step is drawn from the steps that were observed.
 *
 * A step leads from one departure to the next. It is recorded with the number of requests k that were there when it began, how long it took,
 * how many left at its end (a batch), and how old the first of these was among those present. That is the embedded Markov chain of an
 * M/G/1 queue and of its batch variants (Kendall 1953; Bailey 1954), learnt without assuming the service's distribution, and an
 * approximation for several workers or processor sharing. A twin can be put under any load for as long as one likes, at no cost to the server.
 */
import type { Uniform } from '../seeded-random.ts'
import type { Stalling } from './stalls.ts'
import { moments, type Steps } from './steps.ts'

/** Steps grouped by the number present, neighbours together where they do not differ. */
export interface Twin {
  readonly steps: Steps
  /** Bin of each number present; the last also serves all larger numbers. */
  readonly binOf: Int32Array
  readonly binOfStep: Int32Array
  /** Indices into `steps`. */
  readonly bins: readonly Int32Array[]
}

const fewestPerBin = 8
const keepGoing = 0.8

/** Groups steps into a twin. Throws a RangeError without any step. */
export function twinOf(steps: Steps): Twin {
  const most = Math.max(...steps.present)
  if (!(most >= 1)) throw new RangeError('no step of the server was observed')
  const byPresent: number[][] = Array.from({ length: most + 1 }, () => [])
  steps.present.forEach((k, i) => {
    byPresent[k]!.push(i)
  })
  const groups: { upTo: number; members: number[] }[] = []
  for (let k = 1; k <= most; k++) {
    const last = groups.at(-1)
    if (last !== undefined && last.members.length < fewestPerBin) {
      last.members.push(...byPresent[k]!)
      last.upTo = k
    } else groups.push({ upTo: k, members: byPresent[k]! })
  }
  const top = groups.at(-1)!
  if (groups.length > 1 && top.members.length < fewestPerBin) {
    groups.pop()
    groups.at(-1)!.members.push(...top.members)
    groups.at(-1)!.upTo = most
  }
  for (let g = groups.length - 2; g >= 0; g--) {
    const [low, high] = [groups[g]!, groups[g + 1]!]
    if (!alike(steps, low.members, high.members)) continue
    high.members.push(...low.members)
    groups.splice(g, 1)
  }
  const binOf = new Int32Array(most + 1)
  let bin = 0
  for (let k = 0; k <= most; k++) {
    if (k > groups[bin]!.upTo) bin++
    binOf[k] = bin
  }
  const binOfStep = Int32Array.from(steps.present, (k) => binOf[k]!)
  return { steps, binOf, binOfStep, bins: groups.map((g) => Int32Array.from(g.members)) }
}

/** Whether two groups of steps differ neither in how long they take nor in how many leave, beyond chance (two standard errors) or 1 %. */
function alike(steps: Steps, a: readonly number[], b: readonly number[]): boolean {
  return [steps.tookMs, steps.departed].every((values) => {
    const [x, y] = [moments(values, a), moments(values, b)]
    return (
      Math.abs(x.mean - y.mean) <= Math.max(2 * Math.sqrt(x.variance / a.length + y.variance / b.length), 0.01 * (x.mean + y.mean) * 0.5)
    )
  })
}

/**
 * The same twin with its steps drawn anew, in blocks of neighbours: its sampling error (stationary bootstrap, Politis and Romano 1994).
 * A bin that got no step keeps its own.
 */
export function bootstrap(twin: Twin, uniform: Uniform): Twin {
  const { steps, binOf, bins } = twin
  const n = steps.present.length
  const drawn: Steps = { present: [], tookMs: [], departed: [], rank: [], endedMs: [], spreadMs: [] }
  const add = (i: number) => {
    drawn.present.push(steps.present[i]!)
    drawn.tookMs.push(steps.tookMs[i]!)
    drawn.departed.push(steps.departed[i]!)
    drawn.rank.push(steps.rank[i]!)
    drawn.endedMs.push(steps.endedMs[i]!)
    drawn.spreadMs.push(steps.spreadMs[i]!)
  }
  for (let i = Math.floor(uniform() * n); drawn.present.length < n; i = uniform() < keepGoing ? (i + 1) % n : Math.floor(uniform() * n))
    add(i)
  const drawnBins: number[][] = bins.map(() => [])
  drawn.present.forEach((k, i) => {
    drawnBins[binOf[k]!]!.push(i)
  })
  for (const [b, bin] of drawnBins.entries()) {
    if (bin.length > 0) continue
    for (const i of bins[b]!) {
      bin.push(drawn.present.length)
      add(i)
    }
  }
  return {
    steps: drawn,
    binOf,
    binOfStep: Int32Array.from(drawn.present, (k) => binOf[k]!),
    bins: drawnBins.map((bin) => Int32Array.from(bin)),
  }
}

/** Requests per second that the twin serves when they queue without end. */
export function saturationOf({ steps, bins }: Twin): number {
  let ms = 0
  let departed = 0
  for (const i of bins.at(-1)!) {
    ms += steps.tookMs[i]!
    departed += steps.departed[i]!
  }
  return (1000 * departed) / ms
}

/** Latencies of the twin under arrivals (ms, ascending), in their order, into `latencyMs`. Every step takes `slowness` times as long, stalls too. */
export function simulate(
  twin: Twin,
  arrivalsMs: Float64Array,
  slowness: number,
  uniform: Uniform,
  latencyMs: Float64Array,
  stalling: Stalling = () => 0,
): void {
  const { binOf, bins, binOfStep } = twin
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
    const b = binOf[Math.min(present, largest)]!
    // Mostly the step that followed, if it fits: what one worker does depends on what the others are at (stationary bootstrap, Politis and Romano 1994).
    if (step >= 0 && step + 1 < binOfStep.length && binOfStep[step + 1] === b && uniform() < keepGoing) step++
    else step = bins[b]![Math.floor(uniform() * bins[b]!.length)]!
    now += slowness * (tookMs[step]! + stalling(now, tookMs[step]!))
    const leaving = Math.min(departed[step]!, present)
    const first = Math.min(rank[step]!, present - leaving)
    while (arrived < n && arrivalsMs[arrived]! <= now) queue[tail++] = arrived++
    for (let i = 0; i < leaving; i++) {
      const request = queue[head + first + i]!
      latencyMs[request] = now - arrivalsMs[request]!
    }
    if (first > 0) queue.copyWithin(head + leaving, head, head + first)
    head += leaving
  }
}

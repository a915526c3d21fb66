/**
 * Batches that take as long as their longest request: inputs padded to one length (texts, pictures
 * of many sizes), answers that are given back together.
 *
 * The more requests such a batch has, the longer its longest. Where F is the distribution of what a
 * request would take by itself, and 1 + each × n what its company costs, a batch of n takes no
 * longer than t with probability F(t / (1 + each × n))^n: batches of any size tell of those of any
 * other. One request of a batch takes as long as it does, and of the others it is known that they
 * take no longer: F is the product-limit estimate of values censored from the left (Kaplan and
 * Meier 1958 in reversed time; Ware and DeMets 1976).
 */
import { mean, probit, sampleCorrelation, standardDeviation } from 'simple-statistics'
import { type Batching, lineAt, lineThrough } from './batching.ts'
import { separateStalls } from './stalls.ts'
import { joinSteps, type Steps } from './steps.ts'

/** What requests take by themselves. */
export interface Longest {
  /** What each request of a batch adds to it, as a share of what it would take by itself. */
  readonly each: number
  /** Times of requests that were the longest of their batch, were they alone, ms, ascending. */
  readonly aloneMs: Float64Array
  /** Ln of the share of all requests that take no longer. */
  readonly logShare: Float64Array
}

const alone = (tookMs: number, size: number, each: number): number => tookMs / (1 + each * size)

/** The distribution of what requests take by themselves, as batches show it. */
export function longestOf({ tookMs, departed }: Steps, each: number): Longest {
  const batches = tookMs
    .map((ms, i) => ({ ms: alone(ms, departed[i]!, each), size: departed[i]! }))
    .sort((a, b) => a.ms - b.ms)
  let noLonger = batches.reduce((total, { size }) => total + size, 0)
  const logShare = new Float64Array(batches.length)
  let log = 0
  for (let i = batches.length - 1; i >= 0; i--) {
    // Half of the step that it makes lies below it.
    logShare[i] = log + Math.log(1 - 0.5 / noLonger)
    log += noLonger > 1 ? Math.log(1 - 1 / noLonger) : 0
    noLonger -= batches[i]!.size
  }
  return { each, aloneMs: Float64Array.from(batches, ({ ms }) => ms), logShare }
}

/**
 * How long a batch of so many would take that is as long among its like as one of another size
 * which was seen, ms.
 */
export function asLongFor(
  { each, aloneMs, logShare }: Longest,
  tookMs: number,
  size: number,
  others: number,
): number {
  if (size === others) return tookMs
  const logOf = (at(aloneMs, logShare, alone(tookMs, size, each)) * size) / others
  return at(logShare, aloneMs, logOf) * (1 + each * others)
}

/** Of each batch the probability that another of its size takes no longer. */
export function ranksIn(
  { each, aloneMs, logShare }: Longest,
  { tookMs, departed }: Steps,
): number[] {
  return tookMs.map((ms, i) =>
    Math.exp(at(aloneMs, logShare, alone(ms, departed[i]!, each)) * departed[i]!),
  )
}

/**
 * The value that stands at `x`, by straight lines between neighbours; the first or the last beyond
 * them.
 */
function at(xs: Float64Array, ys: Float64Array, x: number): number {
  let [low, high] = [0, xs.length - 1]
  if (x <= xs[low]!) return ys[low]!
  if (x >= xs[high]!) return ys[high]!
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (xs[middle]! <= x) low = middle
    else high = middle
  }
  const width = xs[high]! - xs[low]!
  return width > 0 ? ys[low]! + ((x - xs[low]!) / width) * (ys[high]! - ys[low]!) : ys[high]!
}

/** Shares that are tried. */
const shares = [0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.5, 5]
/**
 * Fewest batches that tell, the least that those of a size must differ by (standard deviation of
 * ln), and how much better such a server must explain them than a line does.
 */
const fewest = 40
const leastSpread = 0.08
const better = 6
/** Standard errors beyond which a closed loop was served otherwise. */
const certain = 3

interface LongestSeen extends Batching {
  /** How long each batch took, by how many were in it, window by window. */
  readonly windows: readonly Steps[]
  /** Of the last closed loops, which were served alike. */
  readonly loops: readonly Steps[]
}

/**
 * One batch after another, each as long as its longest request: where what batches take hangs on
 * their size as on the longest of so many, rather than by a line about which all sizes scatter
 * alike (of such a server small batches scatter most). Undefined of others.
 * @param windows steps of a server that takes all who are there
 * @param largest requests that left together in closed loops
 */
export function longestSeen(
  windows: readonly Steps[],
  loops: readonly Steps[],
  largest: number,
): LongestSeen | undefined {
  const open = joinSteps(windows)
  const warm = loops.filter(({ tookMs }) => tookMs.length > 0).slice(Math.floor(loops.length / 3))
  const seen = joinSteps([...warm, open])
  if (seen.tookMs.length < fewest || separateStalls([...warm, ...windows]).stalls.flat().length > 0)
    return undefined
  const line = lineThrough(seen)
  const ratios = seen.tookMs.map((ms, i) =>
    Math.log(Math.max(1e-3, ms) / lineAt(line, seen.departed[i]!)),
  )
  if (standardDeviation(ratios) < leastSpread) return undefined
  const sizes = seen.departed.map(Math.log)
  const found = shares
    .map((each) => {
      const scores = scoresIn(longestOf(seen, each), seen)
      return { each, scores, hangs: hangsOn(sizes, scores) }
    })
    .reduce((a, b) => (b.hangs < a.hangs ? b : a))
  if (found.hangs + better > hangsOn(sizes, ratios) || hangTogether(found.scores)) return undefined
  const alike: Steps[] = []
  for (const loop of warm.toReversed()) {
    const scores = scoresIn(longestOf(joinSteps([open, ...alike]), found.each), loop)
    if (Math.abs(mean(scores)) > certain / Math.sqrt(scores.length)) break
    alike.unshift(loop)
  }
  const batches = (steps: Steps): Steps => ({ ...steps, present: steps.departed })
  return {
    workers: 1,
    most: open.departed.reduce((most, size) => Math.max(most, size), largest),
    delayMs: 0,
    since: 'arrival',
    besideMs: 0,
    longestEach: found.each,
    windows: windows.map(batches),
    loops: alike.map(batches),
  }
}

const scoresIn = (longest: Longest, steps: Steps): number[] =>
  ranksIn(longest, steps).map((rank) => probit(Math.min(1 - 1e-6, Math.max(1e-6, rank))))

/**
 * How far values, and what they scatter by, hang on others: about chi-squared of two degrees of
 * freedom where they do not.
 */
function hangsOn(others: number[], values: number[]): number {
  const middle = mean(values)
  const scatter = values.map((value) => Math.abs(value - middle))
  // Not a number where all are alike.
  const square = (of: number[]) => (sampleCorrelation(others, of) || 0) ** 2
  return values.length * (square(values) + square(scatter))
}

/**
 * Whether neighbours are alike: of batches whose longest come by chance they are not, as they are
 * in a slow time of the server.
 */
const hangTogether = (scores: number[]): boolean =>
  Math.abs(sampleCorrelation(scores.slice(1), scores.slice(0, -1))) * Math.sqrt(scores.length) >
  certain

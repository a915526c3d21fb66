/**
 * What the windows of an open load say of the capacity: a posterior over the twin's slowness, and through it over the capacity.
 *
 * The twin alone would do if it were the server. As it is not quite, it gets one free parameter, its slowness: the factor on every step.
 * For each slowness the twin is put under the very arrivals that the server got; the number of requests over the limit that it then
 * shows is compared with the server's. The arrivals' own luck, the largest part of the noise of a short window, is thereby taken out (they are a control variate).
 */
import { seeded } from '../random.ts'
import type { LoadRun, Slo } from '../types.ts'
import { meets, type Spans } from './disturbance.ts'
import { bootstrap, saturationOf, simulate, type Twin } from './twin.ts'

/** A run as its server served it, and when the machine disturbed it. */
export interface ObservedRun {
  readonly run: LoadRun
  readonly disturbed: Spans
}

/** A window of open load, as far as it counts. */
interface Window {
  readonly arrivalsMs: Float64Array
  /** 1 for requests that count, 0 for those that met a disturbance. */
  readonly counts: Uint8Array
  /** Failed or over the limit, of those that count. */
  readonly over: number
  readonly failed: number
}

export interface CapacityPosterior {
  readonly medianRps: number
  /** 90 % interval. */
  readonly ci90Rps: readonly [number, number]
  /** Posterior probability of a capacity below this. */
  below(rateRps: number): number
}

const slownessGrid = Float64Array.from({ length: 17 }, (_, i) => Math.exp((i - 8) * 0.04))
const refinement = 5
const rateGridSize = 14
/** Requests of a window that are compared with the twin: the first ones, as the queue starts empty in both. */
const mostPerWindow = 8000

/** Prior of ln slowness: mostly within 4 %, sometimes far off (processor sharing, several workers). */
const slownessPrior = (slowness: number) => 0.75 * gauss(Math.log(slowness), 0.04) + 0.25 * gauss(Math.log(slowness), 0.15)
const gauss = (x: number, sd: number) => Math.exp(-0.5 * (x / sd) ** 2) / sd

/** How long and how often the twin is played: its own noise against computing time. */
export interface TwinPlay {
  /** Length of its long runs. */
  readonly requests: number
  /** Twins drawn anew, each with its own long runs. */
  readonly replicates: number
}

/**
 * Capacity given a twin and the open windows it was learnt from. Deterministic in the seed.
 */
export function capacityPosterior(
  twin: Twin,
  runs: readonly ObservedRun[],
  slo: Slo,
  { requests, replicates }: TwinPlay,
  seed: number,
): CapacityPosterior {
  const uniform = seeded(seed)
  const windows = runs.map((run) => windowOf(run, slo))
  const sent = windows.reduce((sum, w) => sum + w.arrivalsMs.length, 0)
  const failedShare = windows.reduce((sum, w) => sum + w.failed, 0) / Math.max(1, sent)
  const twins = Array.from({ length: replicates }, () => bootstrap(twin, uniform))
  const weights = normalised(refine(slownessLogWeights(twins, windows, slo, failedShare, seed)))
  const allowed = Math.max(1e-4, 1 - slo.percentile - failedShare)
  const particles: { rps: number; weight: number }[] = []
  for (const replicate of twins) {
    const logCapacities = refine(capacitiesOf(replicate, slo.limitMs, allowed, requests, seed).map(Math.log))
    for (const [i, weight] of weights.entries()) {
      if (weight < 1e-6) continue
      for (const { offset, share } of discrepancy(twin))
        particles.push({ rps: Math.exp(logCapacities[i]! + offset), weight: (weight * share) / replicates })
    }
  }
  return summaryOf(particles)
}

/**
 * The error of the twin itself, as a share of the capacity, which no amount of load takes away: 1.2 %, and up to 5 % more where requests
 * overtake one another (several workers, processor sharing), as far as they do. Set on the benchmark's servers, whose true capacities are known.
 */
function discrepancy({ steps }: Twin): { offset: number; share: number }[] {
  const overtaking = steps.rank.reduce((count, rank) => (rank > 0 ? count + 1 : count), 0) / steps.rank.length
  const sd = 0.012 + 0.05 * overtaking
  const nodes = [-2, -1, 0, 1, 2]
  const total = nodes.reduce((sum, z) => sum + Math.exp(-0.5 * z * z), 0)
  return nodes.map((z) => ({ offset: z * sd, share: Math.exp(-0.5 * z * z) / total }))
}

function windowOf({ run, disturbed }: ObservedRun, slo: Slo): Window {
  // Of a window cut short, requests too young to have missed the limit say nothing.
  const lastMs = run.cutMs === undefined ? Number.POSITIVE_INFINITY : run.cutMs - slo.limitMs
  const tooYoung = run.sentMs.findIndex((at) => at > lastMs)
  const n = Math.min(mostPerWindow, tooYoung < 0 ? run.sentMs.length : tooYoung)
  let over = 0
  let failed = 0
  const counts = new Uint8Array(n)
  for (let i = 0; i < n; i++) {
    const sentMs = run.sentMs[i]!
    if (meets(disturbed, sentMs, sentMs + (run.latencyMs[i]! || 0))) continue
    counts[i] = 1
    if (!(run.latencyMs[i]! <= slo.limitMs)) over++
    if (Number.isNaN(run.latencyMs[i]!)) failed++
  }
  return { arrivalsMs: run.sentMs.slice(0, n), counts, over, failed }
}

/** Values between those of the slowness grid, by straight lines: a steep knee is narrower than the grid. */
function refine(values: Float64Array): Float64Array {
  return Float64Array.from({ length: (values.length - 1) * refinement + 1 }, (_, i) => {
    const left = Math.min(values.length - 2, Math.floor(i / refinement))
    const share = i / refinement - left
    return values[left]! * (1 - share) + values[left + 1]! * share
  })
}

function normalised(logWeights: Float64Array): Float64Array {
  const most = Math.max(...logWeights)
  const weights = logWeights.map((log) => Math.exp(log - most))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return weights.map((weight) => weight / total)
}

/** Log posterior weight of each slowness of the grid, up to a constant. */
function slownessLogWeights(twins: readonly Twin[], windows: readonly Window[], slo: Slo, failedShare: number, seed: number): Float64Array {
  const logWeights = slownessGrid.map((slowness) => Math.log(slownessPrior(slowness)))
  for (const window of windows) {
    const n = window.arrivalsMs.length
    if (n === 0) continue
    const latencyMs = new Float64Array(n)
    for (const [i, slowness] of slownessGrid.entries()) {
      let sum = 0
      let squares = 0
      for (const [r, twin] of twins.entries()) {
        simulate(twin, window.arrivalsMs, slowness, seeded(seed + 31 * r), latencyMs)
        let over = failedShare * n
        for (let j = 0; j < n; j++) if (latencyMs[j]! > slo.limitMs) over += window.counts[j]!
        sum += over
        squares += over * over
      }
      const mean = (sum + 0.5) / twins.length
      const variance = Math.max(0, squares / twins.length - (sum / twins.length) ** 2) * (twins.length / (twins.length - 1))
      logWeights[i]! += logCount(window.over, mean, 1.2 * variance + mean + 0.25 + (0.05 * mean) ** 2)
    }
  }
  return logWeights
}

/** Log probability of a count with this mean and a larger variance (negative binomial), up to rounding of its size parameter. */
function logCount(count: number, mean: number, variance: number): number {
  const size = (mean * mean) / (variance - mean)
  return (
    logGamma(count + size) -
    logGamma(size) -
    logGamma(count + 1) +
    size * Math.log(size / (size + mean)) +
    count * Math.log(mean / (size + mean))
  )
}

/** ln Γ(x) for x > 0 (Lanczos, g = 7). */
function logGamma(x: number): number {
  const coefficients = [
    676.5203681218851, -1259.1392167224028, 771.3234287776531, -176.6150291621406, 12.507343278686905, -0.13857109526572012,
    9.984369578019572e-6, 1.5056327351493116e-7,
  ]
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x)
  let sum = 0.9999999999998099
  for (let i = 0; i < 8; i++) sum += coefficients[i]! / (x + i)
  const t = x + 6.5
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(sum)
}

/**
 * The twin's capacity at each slowness of the grid, from long runs at rates up to saturation.
 * A twin that is s times as slow is, in its own time, one of slowness 1 under s times the rate and a limit 1/s as long.
 */
function capacitiesOf(twin: Twin, limitMs: number, allowed: number, requests: number, seed: number): Float64Array {
  const saturation = saturationOf(twin)
  const gaps = new Float64Array(requests)
  const uniform = seeded(seed + 7)
  let total = 0
  for (let i = 0; i < requests; i++) gaps[i] = total += -Math.log(uniform())
  const logRates = Float64Array.from(
    { length: rateGridSize },
    (_, j) => Math.log(saturation) + Math.log(0.2) + (j * Math.log(1.1 / 0.2)) / (rateGridSize - 1),
  )
  const arrivals = new Float64Array(requests)
  const latencyMs = new Float64Array(requests)
  const warmUp = Math.floor(requests * 0.03)
  const logOver = Array.from(slownessGrid, () => new Float64Array(rateGridSize))
  for (let j = 0; j < rateGridSize; j++) {
    const scale = (1000 * requests) / total / Math.exp(logRates[j]!)
    for (let i = 0; i < requests; i++) arrivals[i] = gaps[i]! * scale
    simulate(twin, arrivals, 1, seeded(seed + 11), latencyMs)
    const over = new Int32Array(slownessGrid.length)
    const leastMs = limitMs / slownessGrid.at(-1)!
    for (let i = warmUp; i < requests; i++) {
      const ms = latencyMs[i]!
      if (ms > leastMs) for (let s = over.length - 1; s >= 0 && ms > limitMs / slownessGrid[s]!; s--) over[s]!++
    }
    for (const [s, count] of over.entries()) logOver[s]![j] = Math.log((count + 0.1) / (requests - warmUp))
    if (over[0]! > 10 * allowed * requests) {
      // Even the fastest twin is far over the limit: so are all at higher rates.
      for (const logs of logOver) logs.fill(0, j + 1)
      break
    }
  }
  return slownessGrid.map((slowness, s) => Math.exp(crossing(logRates, logOver[s]!, Math.log(allowed))) / slowness)
}

/** Where a curve, made monotone, first reaches a level; its first or last abscissa when it never does. */
function crossing(xs: Float64Array, ys: Float64Array, level: number): number {
  let highest = Number.NEGATIVE_INFINITY
  for (let i = 0; i < xs.length; i++) {
    const y = Math.max(highest, ys[i]!)
    if (y >= level) {
      if (i === 0) return xs[0]!
      const share = (level - highest) / (y - highest)
      return xs[i - 1]! + share * (xs[i]! - xs[i - 1]!)
    }
    highest = y
  }
  return xs.at(-1)!
}

function summaryOf(particles: { rps: number; weight: number }[]): CapacityPosterior {
  particles.sort((a, b) => a.rps - b.rps)
  const below = (rateRps: number) => particles.reduce((sum, { rps, weight }) => (rps < rateRps ? sum + weight : sum), 0)
  /** Quantile of the particles, each spread evenly to its neighbours. */
  const quantile = (probability: number): number => {
    let sum = 0
    for (const [i, { rps, weight }] of particles.entries()) {
      if (sum + weight >= probability) {
        const before = particles[i - 1]?.rps ?? rps
        return before + ((probability - sum) / weight) * (rps - before)
      }
      sum += weight
    }
    return particles.at(-1)!.rps
  }
  return { medianRps: quantile(0.5), ci90Rps: [quantile(0.05), quantile(0.95)], below }
}

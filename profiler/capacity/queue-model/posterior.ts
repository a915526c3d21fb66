/**
 * What the windows of an open load say of the capacity: a posterior over the twin's slowness, and
 * through it over the capacity.
 *
 * The twin alone would do if it were the server. As it is not quite, it gets one free parameter,
 * its slowness: the factor on every step. For each slowness the twin is put under the very arrivals
 * that the server got; the number of requests over the limit that it then shows is compared with
 * the server's. The arrivals' own luck, the largest part of the noise of a short window, is thereby
 * taken out (they are a control variate).
 */
import { gammaln, sum } from 'simple-statistics'
import { seeded } from '../../seeded-random.ts'
import type { Capacity } from '../../model/measurement.ts'
import type { Slo } from '../../model/slo.ts'
import { deeperSteps } from './closed-loop-departures.ts'
import { meets } from '../host-interference.ts'
import { likelyOwn, longOnesFade, stallsBeside } from './closed-loop-outages.ts'
import { replayed, type Stall, separateStalls, stallRates } from './outages.ts'
import { usualTimes } from '../service-log/typical-durations.ts'
import { joinSteps, moments, type ObservedRun, type Steps } from '../service-log/service-log.ts'
import {
  bootstrap,
  largestBatch,
  saturationErrorOf,
  saturationOf,
  simulate,
  type Twin,
  twinOf,
} from './queue-model.ts'
import { capacitiesOf, withoutChance } from './model-capacity.ts'
import type { WorkersSeen } from './service-discipline.ts'

/** A window of open load, as far as it counts. */
interface Window {
  readonly arrivalsMs: Float64Array
  /** 1 for requests that count, 0 for those that met a disturbance. */
  readonly counts: Uint8Array
  /** Failed or over the limit, of those that count. */
  readonly over: number
  readonly failed: number
  readonly stalls: readonly Stall[]
}

/** Its median, and its 90 % interval. */
export interface CapacityPosterior extends Omit<Capacity, 'known'> {
  /**
   * The twin refuses as the server does, once its queue is full: failures are part of the estimate.
   */
  readonly refuses: boolean
  /** Rare stalls were seen: all the time there is goes into their number. */
  readonly stalls: boolean
  /** They became ever rarer while the server was measured. */
  readonly fading: boolean
  /** The twin serves more than is claimed beyond what was seen to be served. */
  readonly beyondReach?: boolean
  /** What the twin serves when requests queue without end, per second. */
  readonly saturationRps: number
  /** Standard error of that in a run of one answer, as a share; of n answers 1 / √n of it. */
  readonly saturationError: number
  /** Posterior probability of a capacity below this. */
  below(rateRps: number): number
}

const slownessGrid = Float64Array.from({ length: 17 }, (_, i) => Math.exp((i - 8) * 0.04))
const refinement = 5
const leastLogWeight = 9
/**
 * Stalls in the runs of a twin which stalls, and times as long that they may be for it: the
 * capacity of shorter ones is as uncertain as their few stalls.
 */
const enoughStalls = 100
const longerWithStalls = 8
/** Part of the twins that stall on where stalls became ever rarer: they may be the last. */
const lasting = 0.25
/**
 * Requests of a window that are compared with the twin: the first ones, as the queue starts empty
 * in both.
 */
const mostPerWindow = 8000

/**
 * Log prior of ln slowness: mostly within what the twin is known to be wrong by, sometimes three
 * times as far; `loose` is the share of one that is open to all.
 */
const logSlownessPrior = (logSlowness: number, sd: number, loose: number) =>
  Math.log(
    (1 - loose) * (0.75 * gauss(logSlowness, sd) + 0.25 * gauss(logSlowness, 3 * sd)) +
      loose * gauss(logSlowness, open),
  )
const open = 0.2
/**
 * Where requests overtake more often than this, and in no order that is known, the twin's order may
 * be another than the server's: its slowness is half open.
 */
const unordered = 0.1
const halfOpen = 0.3
const gauss = (x: number, sd: number) => Math.exp(-0.5 * (x / sd) ** 2) / sd

/** How long and how often the twin is played: its own noise against computing time. */
export interface TwinPlay {
  /** Length of its long runs; near saturation up to `longest`. */
  readonly requests: number
  readonly longest: number
  /** Twins drawn anew, each with its own long runs. */
  readonly replicates: number
}

/**
 * Capacity given what runs of open load showed: they teach the twin and are compared with it.
 * Deterministic in the seed. Throws a RangeError when no run shows a step.
 * @param places of a server that refuses more requests than so many, see placesOf
 * @param seen service times in place of the runs' steps, of a server whose workers are known
 * @param loops steps of the closed loops in the order of time, for their stalls and the size of
 * their batches alone
 */
export function capacityPosterior(
  runs: readonly ObservedRun[],
  slo: Slo,
  { requests, longest, replicates }: TwinPlay,
  seed: number,
  places?: number,
  seen?: WorkersSeen,
  loops: readonly Steps[] = [],
): CapacityPosterior {
  const uniform = seeded(seed)
  const byStep = seen === undefined || seen.batching !== undefined
  const learnt =
    seen === undefined ? runs.map((run) => run.steps) : [...seen.windows, ...seen.loops]
  // Steps of closed loops have in them what batches wait for others, which service times have not.
  const ofLoops = seen?.batching !== undefined && seen.batching.delayMs > 0 ? seen.loops : loops
  const history = [
    ...(seen?.history ?? ofLoops),
    ...runs.map((run, i) => seen?.windows[i] ?? run.steps),
  ]
  const fading = longOnesFade(history, usualTimes(learnt))
  const separated = separateStalls(learnt, fading ? 1 : undefined)
  const part = (from: number, to?: number) => ({
    usual: separated.usual.slice(from, to),
    stalls: separated.stalls.slice(from, to),
    mixed: false,
  })
  // Stalls of closed loops that go by the step are told from all of their steps.
  const { usual, stalls } = byStep ? part(0, runs.length) : separated
  const beside = stallsBeside(byStep ? part(0, runs.length) : separated, byStep ? ofLoops : [])
  const likelyStalls = byStep ? beside.likely : likelyOwn(part(0, runs.length), part(runs.length))
  const deeper = seen === undefined ? deeperSteps(usual, ofLoops) : []
  const twin = twinOf(joinSteps([...separated.usual, ...deeper]), {
    ...kindOf(seen),
    places,
    largest: largestBatch(loops),
  })
  const windows = runs.map((run, i) => windowOf(run, slo, stalls[i]!))
  const sent = windows.reduce((sum, w) => sum + w.arrivalsMs.length, 0)
  // Refusals of a full queue are the twin's own.
  const failedShare =
    places === undefined ? windows.reduce((sum, w) => sum + w.failed, 0) / Math.max(1, sent) : 0
  const seenStalls = sum([...stalls, ...beside.stalls].map((each) => each.length))
  // Of service times every one is known: what is left to doubt is their chance, as of the number of
  // stalls, which more draws show better.
  const draws =
    seenStalls > 0 || (!byStep && varies(twin.steps.tookMs)) ? 2 * replicates : replicates
  const twins = Array.from({ length: draws }, () => bootstrap(twin, uniform))
  const stalling = Math.ceil((fading ? lasting : 1) * likelyStalls * draws)
  const rates = stallRates(
    [...usual, ...beside.usual],
    [...stalls, ...beside.stalls],
    stalling,
    uniform,
  )
  const doubt = doubtOf(twin)
  // Of the limit, the twin has what is left beside its workers.
  const limitMs = slo.limitMs - (seen?.besideMs ?? 0)
  const likely = slownessLogLikelihoods(twins, windows, limitMs, failedShare, seed)
  const loose = twin.fromBack || overtaking(twin) < unordered ? 0 : halfOpen
  const withPrior = (logs: Float64Array, logSlowness: Float64Array) =>
    logs.map((log, i) => log + logSlownessPrior(logSlowness[i]!, doubt, loose))
  const logWeights = withPrior(likely, slownessGrid.map(Math.log))
  const most = Math.max(...logWeights)
  // Slownesses that count, and their neighbours.
  const from = Math.max(0, logWeights.findIndex((log) => log > most - leastLogWeight) - 1)
  const to = Math.min(
    logWeights.length,
    logWeights.findLastIndex((log) => log > most - leastLogWeight) + 2,
  )
  const slownesses = slownessGrid.slice(from, to)
  const weights = normalised(
    withPrior(refine(likely.slice(from, to)), refine(slownesses.map(Math.log))),
  )
  const allowed = Math.max(1e-4, 1 - slo.percentile - failedShare)
  // Stalls are rare in the twin's runs too, and come in clusters.
  const served = sum([...usual, ...beside.usual].map((steps) => sum([...steps.departed])))
  const withStalls = Math.min(
    longerWithStalls * requests,
    Math.ceil((enoughStalls * served) / seenStalls),
  )
  const long = seenStalls > 0 ? Math.max(requests, withStalls) : requests
  const played = twins.map((replicate, r) => {
    const question = {
      twin: replicate,
      stalls: rates[r],
      slownesses,
      limitMs,
      allowed,
      allowedFailed: Math.max(1e-4, slo.maxErrorRate),
      seed: seed + 101 * r,
    }
    const { rps, chance } = capacitiesOf(question, long, Math.max(long, longest))
    return { logs: refine(rps.map(Math.log)), chance: refine(chance) }
  })
  return {
    ...summaryOf(particlesOf(twins, withoutChance(played, weights), weights, doubt)),
    refuses: places !== undefined,
    stalls: rates[0] !== undefined,
    fading: fading && seenStalls > 0,
    saturationRps: saturationOf(twin),
    saturationError: saturationErrorOf(twin),
  }
}

interface Particle {
  readonly rps: number
  readonly weight: number
}

/**
 * Capacities of each twin at each slowness, by the twin's own error, as likely as they are. None
 * lies above what the twin can serve.
 */
function particlesOf(
  twins: readonly Twin[],
  logCapacities: readonly Float64Array[],
  weights: Float64Array,
  doubt: number,
): Particle[] {
  const particles: Particle[] = []
  for (const [r, twin] of twins.entries()) {
    // How long a batch took that was served beside others is inferred, not seen: the doubt is one
    // of their saturation too.
    const several = servesSeveral(twin)
    const mostRps = saturationOf(twin)
    for (const [i, weight] of weights.entries()) {
      if (weight < 1e-6) continue
      for (const { offset, share } of discrepancy(doubt))
        particles.push({
          rps: Math.min(
            mostRps * (several ? Math.exp(Math.max(0, offset)) : 1),
            Math.exp(logCapacities[r]![i]! + offset),
          ),
          weight: (weight * share) / twins.length,
        })
    }
  }
  return particles
}

/** What is known of the server beside its steps. */
const kindOf = (seen: WorkersSeen | undefined) =>
  seen && { workers: seen.workers, shared: seen.shared, batching: seen.batching }

/** Whether values differ by more than a twentieth of their mean. */
function varies(values: readonly number[]): boolean {
  const { mean, variance } = moments(values, [...values.keys()])
  return variance > (0.05 * mean) ** 2
}

const leastDoubt = 0.005
const outOfStepDoubt = 0.008
const stagesDoubt = 0.015

/**
 * The error of the twin itself, which no amount of load takes away: 0.5 %, or 0.8 % where cores are
 * said to be shared (a server that takes the shortest first looks alike) or several batches served
 * at once (two that leave together are not always told apart), 1.5 % where cores decode beside
 * batches, up to 5 % more where requests overtake one another (several workers, processor sharing),
 * as far as they do, and as much of 6 % as answers take of the time, which others are then decoded
 * in. A server that serves one after the other, or batch after batch, is its steps: then there is
 * no reason for the twin to be any faster. Set on the benchmark's servers, whose true capacities
 * are known.
 */
function doubtOf(twin: Twin): number {
  const { steps, shared, batching } = twin
  const writing = sum(steps.spreadMs) / sum(steps.tookMs)
  const least =
    batching?.cores !== undefined
      ? stagesDoubt
      : shared || servesSeveral(twin)
        ? outOfStepDoubt
        : leastDoubt
  return least + 0.05 * overtaking(twin) + 0.06 * writing
}

/** Whether it serves several batches at once, or has cores beside them. */
const servesSeveral = ({ batching }: Twin): boolean =>
  batching !== undefined && (batching.workers > 1 || batching.cores !== undefined)

/** Share of steps in which a request leaves before an older one. */
const overtaking = ({ steps }: Twin): number =>
  steps.rank.filter((rank) => rank > 0).length / steps.rank.length

/** Offsets of ln capacity by the twin's own error, and their shares. */
function discrepancy(sd: number): { offset: number; share: number }[] {
  const nodes = [-2, -1, 0, 1, 2]
  const total = sum(nodes.map((z) => Math.exp(-0.5 * z * z)))
  return nodes.map((z) => ({ offset: z * sd, share: Math.exp(-0.5 * z * z) / total }))
}

function windowOf({ run, disturbed }: ObservedRun, slo: Slo, stalls: readonly Stall[]): Window {
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
  return { arrivalsMs: run.sentMs.slice(0, n), counts, over, failed, stalls }
}

/**
 * Values between those of the slowness grid, by straight lines: a steep knee is narrower than the
 * grid.
 */
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

/** Log likelihood of each slowness of the grid, up to a constant. */
function slownessLogLikelihoods(
  twins: readonly Twin[],
  windows: readonly Window[],
  limitMs: number,
  failedShare: number,
  seed: number,
): Float64Array {
  const logWeights = new Float64Array(slownessGrid.length)
  for (const window of windows) {
    const n = window.arrivalsMs.length
    if (n === 0) continue
    const latencyMs = new Float64Array(n)
    for (const [i, slowness] of slownessGrid.entries()) {
      let sum = 0
      let squares = 0
      for (const [r, twin] of twins.entries()) {
        simulate(
          twin,
          window.arrivalsMs,
          slowness,
          seeded(seed + 31 * r),
          latencyMs,
          replayed(window.stalls),
        )
        let over = failedShare * n
        for (let j = 0; j < n; j++) if (latencyMs[j]! > limitMs) over += window.counts[j]!
        sum += over
        squares += over * over
      }
      const mean = (sum + 0.5) / twins.length
      const variance =
        Math.max(0, squares / twins.length - (sum / twins.length) ** 2) *
        (twins.length / (twins.length - 1))
      logWeights[i]! += logCount(
        window.over,
        mean,
        1.2 * variance + mean + 0.25 + (0.05 * mean) ** 2,
      )
    }
  }
  return logWeights
}

/**
 * Log probability of a count with this mean and a larger variance (negative binomial), but for what
 * the count alone adds.
 */
function logCount(count: number, mean: number, variance: number): number {
  const size = (mean * mean) / (variance - mean)
  return (
    gammaln(count + size) -
    gammaln(size) +
    size * Math.log(size / (size + mean)) +
    count * Math.log(mean / (size + mean))
  )
}

function summaryOf(
  particles: Particle[],
): Omit<CapacityPosterior, 'refuses' | 'stalls' | 'fading' | 'saturationRps' | 'saturationError'> {
  particles.sort((a, b) => a.rps - b.rps)
  const below = (rateRps: number) =>
    particles.reduce((sum, { rps, weight }) => (rps < rateRps ? sum + weight : sum), 0)
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
  return { capacityRps: quantile(0.5), capacityCi90Rps: [quantile(0.05), quantile(0.95)], below }
}

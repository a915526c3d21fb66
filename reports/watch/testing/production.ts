/**
 * Production in virtual time: days of a server whose every window was played, with the noise that
 * real ones have on top.
 */

import { schedule } from '../../../profiler/load/arrivals.ts'
import type { Arrivals } from '../../../profiler/model/load.ts'
import {
  createUniform,
  sampleGamma,
  sampleNormal,
  type Uniform,
} from '../../../profiler/seeded-random.ts'
import { computeQuantileInterval, selectQuantile } from '../../../profiler/statistics/percentile.ts'
import { SimulatedServer } from '../../../trials/launchers/simulated/batch-server.ts'
import { createPatternDemand } from '../../plan/demand.ts'
import type { ProductionWindow } from '../production-window.ts'
import type { MeasuredServer } from '../slowness.ts'

const windowS = 300
/** Of the SLO, at the 99th percentile. */
export const limitMs = 400
/** Windows are played at so many rates, this much apart, down from the server's capacity. */
const steps = 24
const step = 1.12

/** Times of an emulated predictor's stages, ms. */
interface Shape {
  readonly prepareMs: number
  readonly batchMs: (batch: number) => number
  readonly maxBatchSize: number
}

/**
 * Of some 60 requests a second: one that batches, and one that hardly does, whose cores take as
 * long as its device.
 */
export const shapes = {
  batching: { prepareMs: 7, batchMs: (batch) => 20 + 12 * batch, maxBatchSize: 8 },
  plain: { prepareMs: 25, batchMs: (batch) => 4 + 12 * batch, maxBatchSize: 2 },
} as const satisfies Readonly<Record<string, Shape>>

/** All its times are `slowness` times as long. */
const serverOf = (
  { prepareMs, batchMs, maxBatchSize }: Shape,
  slowness: number,
  uniform: Uniform,
) =>
  new SimulatedServer({
    cpu: {
      acceptMs: slowness,
      prepareMs: prepareMs * slowness,
      jitter: 0.25,
      overheadMs: 0.3 * slowness,
      relativeError: 0.3,
    },
    cpuCores: 2,
    maxBatchSize,
    maxDelayMs: 5 * slowness,
    queueLimit: 2000,
    instances: 1,
    devices: 1,
    batchMs: (batch) => batchMs(batch) * slowness,
    deviceJitter: 0.1,
    schedule,
    uniform,
  })

const latencies = (
  shape: Shape,
  rateRps: number,
  seconds: number,
  seed: number,
  slowness: number,
  arrivals: Arrivals,
) => {
  const { latencyMs } = serverOf(shape, slowness, createUniform(seed)).play({
    kind: 'open',
    rateRps,
    arrivals,
    durationS: seconds,
    seed,
  })
  return latencyMs.sort()
}

const p99 = (...of: Parameters<typeof latencies>) => selectQuantile(latencies(...of), 0.99)

const poisson: Arrivals = { kind: 'poisson' }

/**
 * The server as trials measure it: its curve at a few rates, a minute each, its capacity under 400
 * ms at the 99th percentile.
 */
export function measured(seed: number, shape: Shape = shapes.batching): MeasuredServer {
  let [low, high] = [1, 200]
  while (high / low > 1.01) {
    const rate = Math.sqrt(low * high)
    if (p99(shape, rate, 120, seed, 1, poisson) <= limitMs) low = rate
    else high = rate
  }
  const knot = (rateRps: number, sorted: Float64Array) => {
    const [lowMs, highMs] = computeQuantileInterval(sorted, 0.99, 0.95)
    return {
      rateRps,
      latencyMs: selectQuantile(sorted, 0.99),
      lowMs,
      highMs,
      requests: sorted.length,
    }
  }
  const curve = [0.3, 0.6, 0.85].map((share) =>
    knot(low * share, latencies(shape, low * share, 60, seed, 1, poisson)),
  )
  const atCapacity = {
    rateRps: low,
    latencyMs: limitMs,
    lowMs: limitMs,
    highMs: limitMs,
    requests: 5000,
  }
  return {
    capacityRps: low,
    curve: [
      { ...knot(0, latencies(shape, 0.5, 300, seed, 1, poisson)), rateRps: 0 },
      ...curve,
      atCapacity,
    ],
  }
}

/** 99th percentiles of played windows, by rate, ms: [rate][which]. */
type Played = readonly (readonly number[])[]

/** Windows at every rate, played with and without bursts, as fast as measured and slowed. */
export class Production {
  readonly #capacityRps: number
  readonly #of = new Map<string, Played>()
  readonly #seed: number
  readonly #each: number
  readonly #shape: Shape

  constructor(
    { capacityRps }: MeasuredServer,
    seed: number,
    each = 24,
    shape: Shape = shapes.batching,
  ) {
    this.#shape = shape
    this.#capacityRps = capacityRps
    this.#seed = seed
    this.#each = each
  }

  /**
   * Windows of one run of days, from midnight on. The server takes `slowness` times as long from
   * `slowFromDay` on.
   */
  *days(
    days: number,
    { pattern, noise, seed, slowness = 1, slowFromDay = 0 }: Days,
  ): Generator<ProductionWindow> {
    const uniform = createUniform(seed)
    const { spans } = createPatternDemand(pattern, this.#capacityRps * 0.8)
    const noises = noisesOf(noise, uniform)
    const perDay = 86_400 / windowS
    for (let i = 0; i < days * perDay; i++) {
      const wanted =
        spans[i % perDay]!.rps *
        (Math.floor(i / perDay) % 7 >= 5 ? 0.7 : 1) *
        Math.exp(0.08 * sampleNormal(uniform))
      const { factor, bursty } = noises()
      const down = Math.max(
        0,
        Math.min(steps - 1, Math.round(Math.log(this.#capacityRps / wanted) / Math.log(step))),
      )
      const slow = i >= slowFromDay * perDay ? slowness : 1
      const played = this.#played(slow, bursty)[down]!
      const rateRps = this.#rateAt(down)
      yield {
        fromS: i * windowS,
        seconds: windowS,
        rateRps,
        sloMs: played[Math.floor(uniform() * played.length)]! * factor,
        errorShare: 0,
      }
    }
  }

  readonly #rateAt = (down: number) => this.#capacityRps / step ** (down + 0.5)

  #played(slowness: number, bursty: boolean): Played {
    const key = `${slowness} ${bursty}`
    const known = this.#of.get(key)
    if (known) return known
    const arrivals: Arrivals = bursty ? { kind: 'gamma', cv: 2 } : poisson
    const made = Array.from({ length: steps }, (_, down) =>
      Array.from({ length: this.#each }, (_, k) =>
        p99(
          this.#shape,
          this.#rateAt(down),
          windowS,
          this.#seed + 1000 * down + k,
          slowness,
          arrivals,
        ),
      ),
    )
    this.#of.set(key, made)
    return made
  }
}

export const noises = [
  'none',
  'heavy-tailed',
  'autocorrelated',
  'wandering',
  'incidents',
  'bursts',
  'all',
] as const
export type Noise = (typeof noises)[number]

export interface Days {
  readonly pattern: Parameters<typeof createPatternDemand>[0]
  readonly noise: Noise
  readonly seed: number
  readonly slowness?: number
  readonly slowFromDay?: number
}

/**
 * Heavy-tailed: Student's t of two degrees of freedom, 4 %, each window anew. Autocorrelated: 3 %
 * that last for hours (half of it is left after two). Wandering: 2 %, half of it left after twelve
 * hours (in none of the others; 'all' is without it). Incidents: every other day latencies are 1.3
 * to 4 times as long, for 20 to 150 minutes. Bursts: hours in which requests come in clusters, a
 * tenth of the time.
 */
function noisesOf(
  noise: Noise,
  uniform: Uniform,
): () => { readonly factor: number; readonly bursty: boolean } {
  const has = (kind: Noise) => noise === kind || noise === 'all'
  const student = () => sampleNormal(uniform) / Math.sqrt(sampleGamma(uniform, 1))
  const kept = 0.5 ** (1 / 24 / (noise === 'wandering' ? 6 : 1))
  const lasting = noise === 'wandering' ? 0.02 : 0.03
  let [slow, left, incident, burst] = [0, 0, 1, 0]
  return () => {
    slow = kept * slow + Math.sqrt(1 - kept ** 2) * lasting * sampleNormal(uniform)
    if (left > 0) left--
    else if (uniform() < 1 / 576)
      [left, incident] = [4 + Math.floor(uniform() * 26), 1.3 + 2.7 * uniform()]
    burst = burst > 0 ? burst - 1 : uniform() < 1 / 216 ? 24 : 0
    const ln =
      (has('heavy-tailed') ? 0.04 * student() : 0) +
      (has('autocorrelated') || noise === 'wandering' ? slow : 0)
    return {
      factor: Math.exp(ln) * (has('incidents') && left > 0 ? incident : 1),
      bursty: has('bursts') && burst > 0,
    }
  }
}

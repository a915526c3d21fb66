/** The capacity of a twin, from long runs of it. */
import { seeded } from '../../seeded-random.ts'
import { heavyTrafficCapacity } from './heavy-traffic.ts'
import { drawn, type StallRate } from './outages.ts'
import { saturationOf, simulate, type Twin } from './queue-model.ts'

const coarseRateGrid = 14
/**
 * Of the saturation: where the rates that are looked at begin, and where they do if even there far
 * too many are over the limit, as of a server with rare long services, though not many: times as
 * many as are allowed, and the share of all from which on they are many, as where a request alone
 * is nearly over the limit.
 */
const leastShares = [0.2, 0.05, 0.0125] as const
const farOver = 2
const hopeless = 0.1
const fineRateGrid = 6
/** Fewer could not show the smallest share that is looked for (1 in 10,000) to be missing. */
const leastRequests = 3000
/**
 * Of ln rate, below and above what the short runs of the twin showed: short ones are optimistic.
 */
const fineMargins = [0.12, 0.05] as const

interface CapacityQuestion {
  readonly twin: Twin
  readonly stalls: StallRate | undefined
  /** Ascending. */
  readonly slownesses: Float64Array
  readonly limitMs: number
  /** Share of requests that may be over the limit. */
  readonly allowed: number
  /** Share of requests that may be refused, of a twin with so many places. */
  readonly allowedFailed: number
  readonly seed: number
}

/** By slowness. */
interface TwinCapacities {
  readonly rps: Float64Array
  /** Variance of ln of each by the chance of the long runs alone: none of a formula. */
  readonly chance: Float64Array
}

/**
 * The twin's capacity at each slowness: by formula where it is nearly all of the saturation, else
 * from long runs at rates up to that, short ones first, to see where longer ones decide. A twin
 * that is s times as slow is, in its own time, one of slowness 1 under s times the rate and a limit
 * 1/s as long.
 */
export function capacitiesOf(
  question: CapacityQuestion,
  requests: number,
  longest = requests,
): TwinCapacities {
  const { twin, stalls, slownesses, limitMs, allowed } = question
  const busy = slownesses.map(
    (slowness) =>
      (stalls === undefined && heavyTrafficCapacity(twin, limitMs / slowness, allowed)) ||
      Number.NaN,
  )
  if (!busy.some(Number.isNaN))
    return { rps: busy.map((rps, s) => rps / slownesses[s]!), chance: slownesses.map(() => 0) }
  const logSaturation = Math.log(saturationOf(twin))
  const crossings = (logRates: Float64Array, logOver: readonly Float64Array[]) =>
    logOver.map((ys) => crossing(logRates, ys, Math.log(allowed)).at)
  const fewer = Math.max(leastRequests, Math.ceil(requests / 8))
  /** The twin as it was learnt, or nearly. */
  const asSeen = Math.max(
    0,
    slownesses.findIndex((slowness) => slowness >= 1),
  )
  let [coarseRates, coarse]: [Float64Array, readonly Float64Array[]] = [new Float64Array(), []]
  for (const leastShare of leastShares) {
    coarseRates = between(
      logSaturation + Math.log(leastShare),
      logSaturation + Math.log(1.1),
      coarseRateGrid,
    )
    coarse = logOverShares(question, coarseRates, fewer).logOver
    const first = coarse[asSeen]![0]!
    if (!(first > Math.log(farOver * allowed) && first < Math.log(hopeless))) break
  }
  const roughly = crossings(coarseRates, coarse)
  const fineRates = between(
    Math.min(...roughly) - fineMargins[0],
    Math.max(...roughly) + fineMargins[1],
    fineRateGrid,
  )
  const fine = logOverShares(
    question,
    fineRates,
    lengthNear(Math.exp(Math.max(...roughly) - logSaturation), requests, longest),
  )
  // Beyond the fine rates the coarse ones serve, lest a rough bracket that missed cut the curve.
  const [low, high] = [fineRates[0]!, fineRates.at(-1)!]
  const below = coarseRates.filter((x) => x < low).length
  const above = coarseRates.filter((x) => x <= high).length
  const joined = <T extends Float64Array>(a: T, b: T) =>
    Float64Array.from([...a.subarray(0, below), ...b, ...a.subarray(above)])
  const logRates = joined(coarseRates, fineRates)
  const found = coarse.map((ys, s) =>
    crossing(logRates, joined(ys, fine.logOver[s]!), Math.log(allowed)),
  )
  return {
    rps: Float64Array.from(found, ({ at }, s) => Math.exp(at) / slownesses[s]!),
    chance: Float64Array.from(found, ({ slope }, s) => fine.chance[s]! / slope ** 2),
  }
}

/**
 * Near saturation a queue takes about 1 / (1 − utilization)² services to forget (relaxation time of
 * a queue in heavy traffic; Asmussen, Applied Probability and Queues, chapter X), and what shorter
 * runs show lies mostly below the mean: runs grow with it.
 */
const lengthNear = (utilization: number, requests: number, longest: number): number =>
  Math.round(Math.max(requests, Math.min(longest, memories / Math.max(1e-3, 1 - utilization) ** 2)))
const memories = 400

const between = (from: number, to: number, n: number) =>
  Float64Array.from({ length: n }, (_, j) => from + (j * (to - from)) / (n - 1))

/**
 * Parts of a run by which its chance is told: neighbours in a queue are alike, parts as long as
 * these hardly.
 */
const parts = 20

/**
 * Log share of requests over the limit, for each slowness at each rate; and its variance by chance,
 * of the rate at which the share is nearest to what is allowed (batch means).
 */
function logOverShares(
  { twin, stalls, slownesses, limitMs, allowed, allowedFailed, seed }: CapacityQuestion,
  logRates: Float64Array,
  requests: number,
): { readonly logOver: Float64Array[]; readonly chance: Float64Array } {
  const gaps = new Float64Array(requests)
  const uniform = seeded(seed + 7)
  let total = 0
  for (let i = 0; i < requests; i++) gaps[i] = total += -Math.log(uniform())
  const arrivals = new Float64Array(requests)
  const latencyMs = new Float64Array(requests)
  const warmUp = Math.floor(requests * 0.1)
  const logOver = Array.from(slownesses, () => new Float64Array(logRates.length))
  const nearest = slownesses.map(() => Number.POSITIVE_INFINITY)
  const chance = new Float64Array(slownesses.length)
  const partOver = Array.from(slownesses, () => new Float64Array(parts))
  const limitsMs = slownesses.map((slowness) => limitMs / slowness)
  const leastMs = limitsMs.at(-1)!
  for (const [j, logRate] of logRates.entries()) {
    const scale = (1000 * requests) / total / Math.exp(logRate)
    for (let i = 0; i < requests; i++) arrivals[i] = gaps[i]! * scale
    simulate(twin, arrivals, 1, seeded(seed + 11), latencyMs, drawn(stalls, seeded(seed + 13)))
    for (const counts of partOver) counts.fill(0)
    for (let i = warmUp; i < requests; i++) {
      const ms = latencyMs[i]!
      if (!(ms > leastMs)) continue
      const part = Math.floor((parts * (i - warmUp)) / (requests - warmUp))
      for (let s = partOver.length - 1; s >= 0 && ms > limitsMs[s]!; s--) partOver[s]![part]!++
    }
    const over = Int32Array.from(partOver, (counts) =>
      counts.reduce((total, count) => total + count, 0),
    )
    const refused =
      twin.places === undefined
        ? 0
        : latencyMs
            .subarray(warmUp)
            .reduce((count, ms) => (ms === Number.POSITIVE_INFINITY ? count + 1 : count), 0)
    const most = (count: number) => Math.max(count, (refused * allowed) / allowedFailed)
    for (const [s, count] of over.entries()) {
      logOver[s]![j] = Math.log((most(count) + 0.1) / (requests - warmUp))
      const off = Math.abs(logOver[s]![j]! - Math.log(allowed))
      if (off >= nearest[s]! || count === 0) continue
      nearest[s] = off
      const mean = count / parts
      chance[s] =
        partOver[s]!.reduce((total, part) => total + (part / mean - 1) ** 2, 0) /
        (parts * (parts - 1))
    }
    // Even the fastest twin is far over the limit: so are all at higher rates, whose shares stay at
    // 1.
    if (over[0]! > 4 * allowed * requests) break
  }
  return { logOver, chance }
}

/**
 * Where a curve, made monotone, first reaches a level, and how steeply; its first or last abscissa
 * when it never does, as if it rose without end.
 */
function crossing(
  xs: Float64Array,
  ys: Float64Array,
  level: number,
): { readonly at: number; readonly slope: number } {
  const slope = Number.POSITIVE_INFINITY
  let highest = Number.NEGATIVE_INFINITY
  for (let i = 0; i < xs.length; i++) {
    const y = Math.max(highest, ys[i]!)
    if (y >= level) {
      if (i === 0) return { at: xs[0]!, slope }
      const share = (level - highest) / (y - highest)
      return {
        at: xs[i - 1]! + share * (xs[i]! - xs[i - 1]!),
        slope: (y - highest) / (xs[i]! - xs[i - 1]!),
      }
    }
    highest = y
  }
  return { at: xs.at(-1)!, slope }
}

/**
 * Ln capacities of twins drawn anew, closer to their mean by as much as the chance of their long
 * runs has driven them apart: what is left are the draws, and the chance of the mean. (Long runs of
 * 20,000 requests know a capacity to some two percent, which is no doubt of the server.)
 * @param played of each twin, ln capacities and the variance of each by chance
 * @param weights of each place among them
 */
export function withoutChance(
  played: readonly { readonly logs: Float64Array; readonly chance: Float64Array }[],
  weights: Float64Array,
): Float64Array[] {
  const n = played.length
  const means = weights.map((_, i) => played.reduce((total, { logs }) => total + logs[i]!, 0) / n)
  let [spread, chance] = [0, 0]
  for (const [i, weight] of weights.entries())
    for (const each of played) {
      spread += (weight * (each.logs[i]! - means[i]!) ** 2) / (n - 1)
      chance += (weight * each.chance[i]!) / n
    }
  const left =
    spread > 0 ? Math.sqrt(Math.min(1, (Math.max(0, spread - chance) + chance / n) / spread)) : 1
  return played.map(({ logs }) => logs.map((log, i) => means[i]! + left * (log - means[i]!)))
}

/**
 * The capacity behind a few windows of open load that are too short to show it: each began with an
 * empty server, and near the capacity a queue takes longer to fill than any of them lasted. What
 * they do show at once is how much the server serves while it falls behind (µ); and from that,
 * where waits reach the limit: those of a busy queue are exponential with a mean of varies / (2 (1
 * - utilization)) (heavy traffic: Kingman 1961). Misses of windows long enough move it from there:
 * with C the capacity, a the share that may miss and s the steepness, a share q(r) = 1 - (1 -
 * a)^exp(s (r / C - 1)) misses at a rate r.
 */
import { max, mean, min, sampleVariance } from 'simple-statistics'
import { apart, failsTooOften, limitsFor, limitsOf, type Slo } from '../../model/slo.ts'
import { overShare } from '../../statistics/dependence.ts'
import type { LoadRun } from '../../model/load-run.ts'

/**
 * Independent requests that say as much as those that count, and the share of them over the limit.
 */
interface Misses {
  readonly nEff: number
  readonly over: number
}

/** A window of open load, and the misses of all requests in it. */
export interface WindowSeen extends Misses {
  readonly rateRps: number
  readonly seconds: number
  /** Of each class that has to keep the percentile by itself, by name. */
  readonly classes?: Readonly<Record<string, Misses>>
  /** What it served while it fell behind; undefined where it kept up. */
  readonly behind?: Behind
}

interface Behind {
  readonly answers: number
  readonly seconds: number
  /**
   * Variance of the answers of a while over their number: 1 for services that are exponential, 0
   * for steady ones.
   */
  readonly dispersion: number
}

/** Fewer requests than this tell nothing. */
const fewest = 20

/**
 * A window that failed too many requests missed, however fast the others were.
 * @param rampS from its begin, in which the server fills: requests then find an emptier one than
 * later ones do
 */
export function windowSeen(run: LoadRun, slo: Slo, rampS: number): WindowSeen {
  const { latencyMs, load } = run
  const rateRps = load.kind === 'open' ? load.rateRps : Number.NaN
  const rampMs = Math.min(1000 * rampS, (1000 * load.durationS) / 3)
  const failed = failsTooOften(
    { requests: latencyMs.length, errors: latencyMs.filter(Number.isNaN).length },
    slo,
  )
  const misses = (of: Pick<LoadRun, 'sentMs' | 'latencyMs'>): Misses => {
    const late = of.latencyMs.filter((_, i) => of.sentMs[i]! >= rampMs)
    const { n, over, nEff } = overShare(late.length >= fewest ? late : of.latencyMs, slo.limitMs)
    return { nEff, over: failed ? 1 : n === 0 ? 0 : over / n }
  }
  const classes = apart(run, slo).flatMap((own) =>
    own.requestClass === undefined ? [] : [[own.requestClass, misses(own)] as const],
  )
  return {
    rateRps,
    seconds: load.durationS,
    ...misses(run),
    ...(classes.length > 0 && { classes: Object.fromEntries(classes) }),
    behind: behindIn(run, rateRps),
  }
}

/** Of the most that were under way at once: while more than that were, the server was behind. */
const behindShare = 0.5
/**
 * Standard deviations of the arrivals by which answers are fewer than requests where it is no
 * chance.
 */
const certain = 2
const slices = 4
const leastDispersion = 0.1

/**
 * While at least half of the most requests were under way that ever were; undefined where as many
 * were answered as came, but for chance.
 */
function behindIn({ sentMs, latencyMs, stream }: LoadRun, rateRps: number): Behind | undefined {
  const staysMs = stream?.latenciesMs.e2e ?? latencyMs
  const answered = [...sentMs.keys()].filter((i) => !Number.isNaN(staysMs[i]!))
  const comings = answered.map((i) => ({ atMs: sentMs[i]!, step: 1 }))
  const goings = answered.map((i) => ({ atMs: sentMs[i]! + staysMs[i]!, step: -1 }))
  const events = [...comings, ...goings].sort((a, b) => a.atMs - b.atMs)
  let there = 0
  const counts = events.map(({ step }) => {
    there += step
    return there
  })
  const many = behindShare * max([0, ...counts])
  const first = counts.findIndex((count) => count >= many)
  if (first < 0) return undefined
  const [fromMs, untilMs] = [
    events[first]!.atMs,
    events[counts.findLastIndex((count) => count >= many)]!.atMs,
  ]
  // From one answer to another: answers of a batch come together, and a time that begins between
  // two would count a part of one.
  const leavingMs = goings
    .map(({ atMs }) => atMs)
    .filter((atMs) => atMs > fromMs && atMs <= untilMs)
  const beginMs = min([Number.POSITIVE_INFINITY, ...leavingMs])
  const seconds = (max([beginMs, ...leavingMs]) - beginMs) / 1000
  const leftMs = leavingMs.filter((atMs) => atMs > beginMs).map((atMs) => atMs - beginMs)
  const answers = leftMs.length
  if (answers < fewest || rateRps * seconds - answers <= certain * Math.sqrt(rateRps * seconds))
    return undefined
  const bySlice = new Array<number>(slices).fill(0)
  for (const ms of leftMs)
    bySlice[Math.min(slices, Math.ceil((slices * ms) / 1000 / seconds)) - 1]!++
  return {
    answers,
    seconds,
    dispersion: Math.max(leastDispersion, sampleVariance(bySlice) / mean(bySlice)),
  }
}

/**
 * Answers per second of a server that fell behind, by all windows in which it did, and its standard
 * error as a share of it; undefined where it never did.
 */
export function servedOf(
  windows: readonly WindowSeen[],
): { readonly rps: number; readonly relativeError: number } | undefined {
  const behind = windows.flatMap((window) => window.behind ?? [])
  if (behind.length === 0) return undefined
  const sum = (of: (one: Behind) => number) => behind.reduce((total, one) => total + of(one), 0)
  const answers = sum((one) => one.answers)
  return {
    rps: answers / sum(({ seconds }) => seconds),
    relativeError: Math.sqrt(sum((one) => one.answers * one.dispersion)) / answers,
  }
}

/**
 * Steepness beside 1 + C t, that of a queue of one worker whose services are exponential: bursts
 * are flatter, steady services steeper, and limits on what does not wait are cliffs.
 */
const steeper = [0.5, 1, 2, 4, 16, 64, 256]
const steps = 400
/** Where none may miss. */
const leastAllowed = 1e-4
/** No share is surer than that: the curve is a model. */
const lnLeast = Math.log(1e-3)
const beyond = 4
/**
 * Of a limit, that may be waited at least: where an answer alone takes nearly all of it, nothing is
 * known of the rest.
 */
const leastWait = 0.05
/** Of what was served while behind, standard errors at which a capacity is weighed. */
const deviations = [-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2]
const leastDensity = 1e-9
/**
 * Deviation of the factor, ln; the least share of time that a server is free at its capacity; how
 * often something else than waiting binds.
 */
const [lnFactor, leastFree, otherLimits] = [0.6, 0.005, 0.15]

/** Requests per second. */
export interface CapacityBehind {
  readonly median: number
  readonly ci90: readonly [number, number]
}

/**
 * The median and the middle 90 % of the capacity; where each class of requests has one, of the
 * lowest. Throws for no windows.
 * @param idleMs latency of a request that waits for nothing, as the SLO counts it
 */
export function capacityBehind(
  windows: readonly WindowSeen[],
  slo: Slo,
  idleMs: number,
): CapacityBehind {
  const names = [...new Set(windows.flatMap(({ classes = {} }) => Object.keys(classes)))]
  if (names.length === 0) return capacityOf(windows, slo, idleMs)
  const each = names.map((name) => {
    const own = windows.map((window) => ({
      ...window,
      ...(window.classes?.[name] ?? { nEff: 0, over: 0 }),
    }))
    // What is waited is of the class's own limit.
    const limitMs = limitsFor(limitsOf(slo), name)[0]?.limitMs ?? slo.limitMs
    return capacityOf(own, { ...slo, limitMs }, (idleMs * limitMs) / slo.limitMs)
  })
  const lowest = (of: (one: CapacityBehind) => number) => Math.min(...each.map(of))
  return {
    median: lowest(({ median }) => median),
    ci90: [lowest(({ ci90 }) => ci90[0]), lowest(({ ci90 }) => ci90[1])],
  }
}

/** Of the requests that a window's misses are of. */
function capacityOf(
  windows: readonly WindowSeen[],
  slo: Pick<Slo, 'percentile' | 'limitMs'>,
  idleMs: number,
): CapacityBehind {
  const rates = windows.map(({ rateRps }) => rateRps)
  const [low, high] = [Math.log(Math.min(...rates) / beyond), Math.log(Math.max(...rates) * beyond)]
  const capacities = Array.from({ length: steps }, (_, i) =>
    Math.exp(low + ((high - low) * i) / (steps - 1)),
  )
  const served = servedOf(windows)
  const allowed = Math.max(leastAllowed, 1 - slo.percentile)
  const known = windows.map((window) =>
    served === undefined ? window : { ...window, ...told(window, served.rps, allowed) },
  )
  const lnKeeps = Math.log1p(-allowed)
  const waitS = Math.max(leastWait * slo.limitMs, slo.limitMs - idleMs) / 1000
  const logs = capacities.map((capacity) => {
    const density = served && within(served, (rps) => busyDensity(capacity, rps, waitS, allowed))
    const lnPrior = density === undefined ? 0 : Math.log(density + leastDensity)
    return steeper.map((factor) => {
      const s = factor * (1 + capacity * waitS)
      return known.reduce((sum, { rateRps, nEff, over }) => {
        const lnKept = lnKeeps * Math.exp(Math.min(50, s * (rateRps / capacity - 1)))
        const lnMissed = Math.max(lnLeast, Math.log(-Math.expm1(lnKept)))
        return sum + nEff * ((1 - over) * Math.max(lnLeast, lnKept) + over * lnMissed)
      }, lnPrior)
    })
  })
  const most = Math.max(...logs.flat())
  const weights = logs.map((each) => each.reduce((sum, log) => sum + Math.exp(log - most), 0))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  const quantile = (share: number) => {
    let sum = 0
    return capacities.find((_, i) => {
      sum += weights[i]!
      return sum >= share * total
    })!
  }
  return { median: quantile(0.5), ci90: [quantile(0.05), quantile(0.95)] }
}

/** The mean over what the rate may be, by its error. */
function within(
  { rps, relativeError }: { readonly rps: number; readonly relativeError: number },
  of: (rps: number) => number,
): number {
  const weighed = deviations.map(
    (z) => [Math.exp(-0.5 * z * z), of(rps * Math.exp(z * relativeError))] as const,
  )
  return (
    weighed.reduce((sum, [weight, value]) => sum + weight * value, 0) /
    weighed.reduce((sum, [weight]) => sum + weight, 0)
  )
}

/**
 * How likely a capacity is for what a server serves while it falls behind (density of ln capacity):
 * its queue reaches the limit at a utilization u of heavy traffic, but for a factor on 1 - u; or
 * something else than waiting binds, and it is anything below.
 */
function busyDensity(capacity: number, servedRps: number, waitS: number, allowed: number): number {
  const times = (2 * waitS) / Math.log(1 / allowed)
  const free = 1 / (1 + servedRps * times)
  const left = Math.max(leastFree, 1 - capacity / servedRps)
  const away = Math.log(left / free) / lnFactor
  const slope = (1 - left) / left / lnFactor
  const waits =
    capacity > servedRps
      ? 0
      : ((1 - otherLimits) * slope * Math.exp(-0.5 * away ** 2)) / Math.sqrt(2 * Math.PI)
  const other = capacity > servedRps * (1 - free) ? 0 : otherLimits / Math.log(2 * beyond)
  return waits + other
}

/**
 * What a window says by the time that a queue takes to forget, 1 / (µ (1 - utilization)²). At rates
 * beyond µ all requests of one long enough are late.
 */
function told(
  { rateRps, seconds, nEff, over }: WindowSeen,
  servedRps: number,
  allowed: number,
): Pick<WindowSeen, 'nEff' | 'over'> {
  const utilization = rateRps / servedRps
  if (utilization >= 1) return { nEff: over > allowed ? Math.min(1, nEff) : 0, over: 1 }
  const forgetsS = 1 / (servedRps * (1 - utilization) ** 2)
  return { nEff: Math.min(nEff, seconds / (2 * forgetsS)), over }
}

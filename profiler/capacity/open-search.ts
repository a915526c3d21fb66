import { sum } from 'simple-statistics'
import { cutAfter, failsTooOften, keeps } from '../slo.ts'
import type { Arrivals, LoadPoint, LoadRun } from '../types.ts'
import { disagreements } from './checks.ts'
import { disturbances, disturbedMs, type Spans } from './disturbance.ts'
import type { Effort } from './effort.ts'
import { atMost, between, type Searched } from './known-capacity.ts'
import { type CapacityPosterior, capacityPosterior, type ObservedRun, type TwinPlay } from './posterior.ts'
import { failuresOf, type Session } from './session.ts'
import { stepsOf } from './steps.ts'

export interface OpenSearchOptions {
  readonly seed: number
  readonly capacityToBeatRps?: number
}

/** Departures this close, as a share of the idle latency, are one batch. */
const batchShare = 0.15
/** Windows that the machine spoilt are played again, up to this many. */
const mostRepeats = 3
/** A narrow interval ends the search only after this share of the budget: what was not seen, as rare stalls, cannot widen it. */
const leastOfBudget = 0.7
/** Windows of a closed loop that look for the saturation of a server which may still be cold. */
const mostRounds = 12
const mostConnections = 1024
/** Share to go on with of a saturation when no window counted yet, and of a rate that the generator could not hold. */
const cautious = 0.7
/** A saturation below this share of what is to be beaten ends a race: open load gets more out of some servers than a closed loop, but not so much more. */
const certainlyBelow = 0.75
/** Fewest windows of a closed loop, with all its connections, that tell whether the throughput still grows: a cold server may pause on its way up. */
const fewestLevel = 4
const planning = { requests: 8000, replicates: 6 }
/** A capacity is claimed up to this much beyond the highest rate that was seen to be served, and an interval up to that much: the rest is the twin's imagination. */
const claimed = 1.15
const imagined = 1.5

/**
 * Capacity by open load: saturation by short closed loops, a sweep over rates to learn the server's twin, then windows where the twin
 * puts the capacity, until its interval is narrow enough or the time is up.
 */
export async function openSearch(session: Session, effort: Effort, idle: LoadPoint, options: OpenSearchOptions): Promise<Searched> {
  const { slo } = session
  const { capacityToBeatRps: toBeatRps = 0 } = options
  /** What teaches the twin: open load alone. A closed loop waits for its own answers, which idles the stages of a server that works on several batches at once. */
  const windows: ObservedRun[] = []
  let saturationRps = idle.achievedRps
  /** Highest rate that an open window was seen to be served at. */
  let servedRps = 0
  /** Highest rate whose answers kept the SLO, in whatever window. */
  let heldRps = keeps(idle, slo) ? idle.achievedRps : 0
  /** What the generator can be asked for, as far as it could not hold what it was. */
  let mostRps = Number.POSITIVE_INFINITY
  let playedMs = 0
  let stalledMs = 0
  let repeats = 0
  let posterior: CapacityPosterior | undefined
  /** Lowest steady rate at which too many requests failed, and highest one at which they did not. */
  let failingRps = Number.POSITIVE_INFINITY
  let cleanRps = 0

  const ended = (outcome: Searched['outcome'], detail?: string): Searched => ({
    outcome,
    ...(posterior === undefined
      ? between(heldRps, Number.POSITIVE_INFINITY)
      : between(...posterior.capacityCi90Rps, posterior.capacityRps)),
    saturationRps,
    detail,
    caveats: [
      ...disagreements(
        windows.map(({ run }) => run),
        slo.limitMs,
      ),
      ...disturbanceCaveat(),
    ],
  })

  /** Requests fail at rates whose latencies would do: a queue limit, a rate limit. */
  const boundedByErrors = (): Searched => {
    const belowRps = cleanRps < failingRps ? cleanRps : 0
    const detail = `requests fail from ${failingRps.toFixed(1)} per second on, before they get slow`
    return { ...ended(belowRps > 0 ? 'converged' : 'errors', detail), ...between(belowRps, failingRps) }
  }

  const saturated = await saturate()
  if (saturated !== undefined) return saturated
  // The shortest budget has room for the sweep and one window.
  const searchS = Math.max(effort.budgetS, 2 * effort.windowS)
  const windowS = Math.max(effort.windowS, searchS / effort.windows)

  const sweepS = Math.min(windowS, searchS / 2)
  const swept = await learn(0.775 * saturationRps, sweepS, { kind: 'sweep', fromRps: 0.4 * saturationRps, toRps: 1.15 * saturationRps })
  if (swept !== undefined) return swept
  for (let steady = 0; ; steady++) {
    posterior = estimate(planning)
    // One window alone may have been disturbed: it takes two to give a configuration up.
    if (posterior !== undefined && windows.length > 1 && posterior.below(toBeatRps) > 0.98) {
      const detail = `certainly below the ${toBeatRps.toFixed(1)} requests per second it had to beat`
      return { ...ended('beaten', detail), ...atMost(posterior.capacityCi90Rps[1]) }
    }
    const narrow = halfWidth(posterior) < effort.precision
    const spent = session.spentS + 0.5 * windowS > effort.budgetS
    const seenEnough = windows.length > 1 && session.spentS >= leastOfBudget * effort.budgetS
    if ((seenEnough && narrow) || (steady > 0 && spent)) {
      posterior = estimate(effort.twin)
      if (failingRps < (posterior?.capacityRps ?? Number.POSITIVE_INFINITY)) return boundedByErrors()
      if (posterior === undefined || posterior.capacityRps > mostRps)
        return ended('generator-limit', 'the load generator could not hold the rate: the server may do more')
      return ended(narrow || halfWidth(posterior) < 2 * effort.precision ? 'converged' : 'budget')
    }
    const rateRps = Math.min(posterior?.capacityRps ?? cautious * saturationRps, 0.85 * failingRps, mostRps)
    const failed = await learn(rateRps, Math.min(windowS, Math.max(0.5 * windowS, effort.budgetS - session.spentS)))
    if (failed !== undefined) return failed
  }

  /** Undefined without a window that counts. */
  function estimate(play: TwinPlay): CapacityPosterior | undefined {
    return windows.length === 0
      ? undefined
      : withinReach(capacityPosterior(windows, slo, play, options.seed), Math.max(saturationRps, servedRps))
  }

  /** What the machine disturbed is left out; a run that was disturbed for the most part is lost. */
  function observe(run: LoadRun): ObservedRun & { readonly lost: boolean } {
    const disturbed = countDisturbed(run)
    return { run, disturbed, steps: stepsOf(run, batchShare * idle.p50Ms, disturbed), lost: disturbedMs(disturbed) > 500 * run.elapsedS }
  }

  function countDisturbed(run: LoadRun): Spans {
    const disturbed = disturbances(run, Math.max(10, 0.1 * slo.limitMs))
    playedMs += 1000 * run.elapsedS
    stalledMs += disturbedMs(disturbed)
    return disturbed
  }

  function disturbanceCaveat(): string[] {
    if (stalledMs < 0.02 * playedMs) return []
    const share = ((100 * stalledMs) / playedMs).toFixed(0)
    const repeated = repeats > 0 ? `, and ${repeats} ${repeats === 1 ? 'window was' : 'windows were'} repeated` : ''
    return [`the machine kept the load generator waiting in ${share} % of the time; what it measured then was left out${repeated}`]
  }

  /**
   * Connections are raised until as many wait as the SLO leaves time for (throughput hardly grows beyond), then held until the throughput
   * grows no more: a server under load for the first time compiles, allocates and fills its caches. Not taken from the budget.
   */
  async function saturate(): Promise<Searched | undefined> {
    let connections = 8
    /** Answers of each window with all connections. */
    let answered: number[] = []
    let generatorLimited = false
    for (let round = 0; round < mostRounds; round++) {
      const { run, point } = await session.closed(connections, effort.saturationS, 'saturation')
      countDisturbed(run)
      if (await session.died(point)) return ended('server-died', `nothing listens any more: ${failuresOf(point)}`)
      saturationRps = Math.max(saturationRps, point.achievedRps)
      if (keeps(point, slo)) heldRps = Math.max(heldRps, point.achievedRps)
      generatorLimited = point.generatorSaturated
      const enough = Math.min(mostConnections, Math.ceil((1.2 * saturationRps * slo.limitMs) / 1000))
      if (round > 0 && enough <= connections * 1.3) answered.push(point.achievedRps * point.seconds)
      else answered = []
      if (answered.length >= fewestLevel && !grew(answered)) break
      connections = Math.max(connections, enough)
    }
    if (generatorLimited || saturationRps >= certainlyBelow * toBeatRps) {
      await session.connect(connections, effort.saturationS)
      session.startBudget()
      return undefined
    }
    const boundRps = saturationRps / certainlyBelow
    const detail = `saturated at ${saturationRps.toFixed(1)} requests per second, far below the ${toBeatRps.toFixed(1)} it had to beat`
    return { ...ended('beaten', detail), ...atMost(boundRps) }
  }

  /** Plays one open window and keeps what it shows, unless the generator could not hold it. A sweep has no one rate, and is no point of the load curve. */
  async function learn(rateRps: number, durationS: number, arrivals: Arrivals = { kind: 'poisson' }): Promise<Searched | undefined> {
    const planned = rateRps * durationS
    const { run, point } = await session.play(
      {
        kind: 'open',
        rateRps,
        durationS,
        arrivals,
        seed: options.seed + session.points.length,
        cut: cutAfter(slo, Math.max(20, 0.3 * planned)),
      },
      'search',
      arrivals.kind !== 'sweep',
    )
    if (await session.died(point)) return ended('server-died', `nothing listens any more: ${failuresOf(point)}`)
    if (run.cutMs !== undefined) await session.settle(idle)
    if (arrivals.kind !== 'sweep') {
      servedRps = Math.max(servedRps, point.achievedRps)
      if (failsTooOften(withoutTimeouts(point), slo)) failingRps = Math.min(failingRps, point.offeredRps)
      else if (run.cutMs === undefined) cleanRps = Math.max(cleanRps, point.offeredRps)
    }
    if (keeps(point, slo)) heldRps = Math.max(heldRps, point.achievedRps)
    if (run.latencyMs.length < 0.97 * run.planned || run.generatorCores > 0.95)
      mostRps = Math.min(mostRps, (cautious * run.latencyMs.length) / run.seconds)
    else {
      const observed = observe(asServed(run))
      if (observed.lost && repeats < mostRepeats) {
        repeats++
        session.forgive(run.elapsedS)
      } else if (observed.steps.present.length > 0) windows.push(observed)
    }
    return undefined
  }
}

/** Whether the later half of the windows answered more than the earlier, beyond 2 % and chance. */
function grew(answered: readonly number[]): boolean {
  const earlier = sum(answered.slice(0, Math.floor(answered.length / 2)))
  const later = sum(answered.slice(Math.ceil(answered.length / 2)))
  return later - earlier > Math.max(0.02 * earlier, Math.sqrt(earlier + later))
}

/** Half the width of the interval, as a share of the capacity; Infinity without one. */
const halfWidth = (posterior: CapacityPosterior | undefined): number =>
  posterior === undefined
    ? Number.POSITIVE_INFINITY
    : (posterior.capacityCi90Rps[1] - posterior.capacityCi90Rps[0]) / 2 / posterior.capacityRps

/** What a cold server or merged reads make the twin imagine beyond what was served is no capacity. */
export function withinReach({ capacityRps, capacityCi90Rps: [low, high], below }: CapacityPosterior, servedRps: number): CapacityPosterior {
  const median = Math.min(capacityRps, claimed * servedRps)
  return {
    capacityRps: median,
    capacityCi90Rps: [Math.min(low, median, servedRps), Math.max(median, Math.min(high, imagined * servedRps))],
    below,
  }
}

/** A request that timed out was slow, and counts as such; only others tell of a server that refuses. */
const withoutTimeouts = (point: LoadPoint): LoadPoint => ({ ...point, errors: point.errors - (point.errorKinds.timeout ?? 0) })

/**
 * The run as the server saw it: from actual sends. A send that the generator made late is a later arrival, and no fault of the server.
 */
function asServed(run: LoadRun): LoadRun {
  const { lateMs } = run
  if (lateMs === undefined) return run
  return { ...run, sentMs: run.sentMs.map((at, i) => at + lateMs[i]!), latencyMs: run.latencyMs.map((ms, i) => ms - lateMs[i]!) }
}

import { noLatency } from '../load/latency-summary.ts'
import { summarise } from '../load/load-point.ts'
import { resolveGenerator } from '../load/resolve-generator.ts'
import type { Phase } from '../model/load.ts'
import type { LoadGenerator } from '../model/load-generator.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { CapacityOutcome, Measurement } from '../model/measurement.ts'
import { exceedsErrorRate, meetsSlo, type Slo, sloLimit, sloName, sloValue } from '../model/slo.ts'
import type { Target } from '../model/target.ts'
import { noCapacity, type SearchResult, unknownCapacity } from './capacity-bounds.ts'
import { collectCaveats } from './caveats.ts'
import { type Effort, efforts } from './effort.ts'
import { isStarvedOfCores, unloadedDisturbed } from './host-interference.ts'
import { searchOpenLoop } from './search/open-loop-search.ts'
import { bisectRate } from './search/rate-bisection.ts'
import { describeErrors, type Played, Session } from './session.ts'
import {
  areContradictory,
  describeSpeedChange,
  describeUnloadedContradiction,
} from './unloaded-latency.ts'
import { RequestWarmUp, summariseWarmUp, type WarmUp, warmUntilSteady } from './warm-up.ts'

export interface CapacityOptions {
  readonly target: Target
  readonly slo: Slo
  readonly signal: AbortSignal
  /** Default 'standard'. */
  readonly effort?: keyof typeof efforts | Effort
  /** Seed of the arrivals, default 1. */
  readonly seed?: number
  /**
   * A capacity below this is of no use to the caller: the search ends as 'pruned' once the capacity
   * is certain to be lower.
   */
  readonly capacityToBeatRps?: number
  /** Capacity that the caller expects. Fewer windows are needed where they agree with it. */
  readonly expectedRps?: number
  /**
   * Requests that warm servers of this type, from earlier ones (`estimateRequestsToWarm`). Absent:
   * the default number.
   */
  readonly warmUpRequests?: number
  /** Called with every window as it ends. */
  readonly onStep?: (point: LoadPoint, phase: Phase) => void
  /** Default: an own generator, closed at the end. A given one stays open. */
  readonly generator?: LoadGenerator
}

const maxWarmUpWindows = 20
/**
 * First rate of a gentle open load, as a share of the answered rate; halved for each further try.
 */
const gentleShare = 0.2
const gentleTries = 3

/**
 * Finds the capacity of a target under an SLO: warm-up, unloaded latency, then the search. A server
 * that fails gives an outcome, not an error. Throws a GeneratorError for loads that cannot be
 * generated, and the signal's reason when it aborts.
 */
export async function measureCapacity(options: CapacityOptions): Promise<Measurement> {
  const generator = resolveGenerator(options.target, options.generator)
  try {
    return await new CapacityMeasurement(options, generator).run()
  } finally {
    if (options.generator === undefined) await generator.close()
  }
}

class CapacityMeasurement {
  private readonly effort: Effort
  private readonly session: Session
  private unloadedLatency = noLatency
  private readonly recheckCaveats: string[] = []
  private readonly requestWarmUp: RequestWarmUp
  private warmUpSummary: WarmUp | undefined
  /** Last closed loop of the warm-up, if its requests were refused. */
  private refusedPoint: LoadPoint | undefined
  /** Rate beyond which the server refuses requests. Where set, no closed loop is applied. */
  private refusesBeyondRps: number | undefined

  constructor(
    private readonly options: CapacityOptions,
    generator: LoadGenerator,
  ) {
    const { target, slo, signal, effort = 'standard', onStep = () => {} } = options
    this.effort = typeof effort === 'object' ? effort : efforts[effort]
    this.session = new Session(target, slo, generator, signal, onStep)
    this.requestWarmUp = new RequestWarmUp(this.session, this.effort.warmUpS)
  }

  async run(): Promise<Measurement> {
    const { session, options, recheckCaveats } = this
    const { caveats = [], ...found } = await this.search()
    return {
      ...found,
      slo: options.slo,
      unloaded: this.unloadedLatency,
      points: session.points,
      requests: session.requests,
      seconds: session.totalS,
      ...(this.warmUpSummary && { warmUp: this.warmUpSummary }),
      caveats: [...caveats, ...recheckCaveats, ...collectCaveats(options.target, session)],
    }
  }

  private async search(): Promise<SearchResult> {
    const { session, effort } = this
    const early = await this.warmUp()
    if (early !== undefined) return early
    const unloaded = await this.measureUnloaded()
    if ('outcome' in unloaded) return unloaded
    const { run, point } = unloaded
    const { capacityToBeatRps, expectedRps, seed = 1 } = this.options
    const { refusesBeyondRps, requestWarmUp } = this
    const found = this.isStreaming(point)
      ? await bisectRate(session, effort, point, { seed, capacityToBeatRps, expectedRps })
      : await searchOpenLoop(session, effort, point, {
          seed,
          capacityToBeatRps,
          expectedRps,
          refusesBeyondRps,
          ...(refusesBeyondRps === undefined && { warmUp: requestWarmUp }),
        })
    if (
      !['server-died', 'pruned', 'host-interference'].includes(found.outcome) &&
      refusesBeyondRps === undefined
    )
      await this.recheckUnloaded(run, point)
    return found
  }

  /**
   * Warms the server until a window is not significantly faster than the one before, for
   * `maxWarmUpWindows` at most. Loops with more connections then bring it to the number of requests
   * that warms such a server. Its time is not part of the budget.
   */
  private async warmUp(): Promise<SearchResult | undefined> {
    const { session, effort } = this
    const { slo } = this.options
    let last: LoadPoint | undefined
    const { warmUpRequests } = this.options
    await warmUntilSteady(maxWarmUpWindows, async (window) => {
      // More connections reach the number sooner.
      if (window > 0 && warmUpRequests !== undefined && session.requests < warmUpRequests)
        return undefined
      const { run, point } = await session.closed(2, effort.warmUpS, 'warm-up', false)
      last = point
      return exceedsErrorRate(point, slo) ? undefined : run
    })
    const { requestWarmUp } = this
    while (
      last !== undefined &&
      !exceedsErrorRate(last, slo) &&
      !this.isStreaming(last) &&
      !requestWarmUp.isWarm(warmUpRequests)
    )
      last = await requestWarmUp.play()
    if (last !== undefined && !this.isStreaming(last))
      this.warmUpSummary = summariseWarmUp(session.requests, requestWarmUp.windows)
    session.startBudget()
    if (last === undefined) return undefined
    if (await session.died(last)) return noResult('server-died', session.causeOfDeath(last))
    if (exceedsErrorRate(last, slo)) this.refusedPoint = last
    return undefined
  }

  /**
   * Measures the unloaded latency again after the load, to detect a server that changed. It always
   * does so where unloaded requests under open load contradict the first measurement.
   */
  private async recheckUnloaded(before: LoadRun, point: LoadPoint): Promise<void> {
    const { session, effort, recheckCaveats } = this
    const { limitMs } = this.options.slo
    const answered = (latencyMs: Float64Array) => [...latencyMs.filter((ms) => !Number.isNaN(ms))]
    // Under open load, only whole answers are compared, not parts of streams.
    const [first, unloadedUnderLoad] = [
      answered(before.latencyMs),
      this.isStreaming(point) ? [] : session.unloadedMs,
    ]
    const isContradicted = areContradictory(first, unloadedUnderLoad, limitMs)
    if (!effort.checksSpeed && !isContradicted) return
    await session.settle(point)
    const { run } = await session.closed(1, effort.idleS, 'unloaded', false)
    const again = answered(run.latencyMs)
    if (!isContradicted) {
      recheckCaveats.push(...describeSpeedChange(first, again))
      return
    }
    recheckCaveats.push(describeUnloadedContradiction(first, again, unloadedUnderLoad, limitMs))
    if (!areContradictory(again, unloadedUnderLoad, limitMs))
      this.unloadedLatency = summarise(run.latencyMs)
  }

  /**
   * Measures the unloaded latency by one request at a time, or by a gentle open load where the
   * server refuses closed loops. Returns a result where that already ends the measurement.
   */
  private async measureUnloaded(): Promise<SearchResult | Played> {
    const { session, effort, refusedPoint } = this
    const { slo } = this.options
    let idleRun = await session.closed(1, effort.idleS, 'unloaded')
    // One disturbed window must not condemn a server: a violation is measured again, and the better
    // window counts.
    if (!meetsSlo(idleRun.point, slo)) {
      const again = await session.closed(1, 2 * effort.idleS, 'unloaded')
      if (again.point.sloMs < idleRun.point.sloMs) idleRun = again
    }
    if (refusedPoint !== undefined || exceedsErrorRate(idleRun.point, slo)) {
      const refusing = refusedPoint ?? idleRun.point
      const gently = await this.playGently(refusing)
      if ('outcome' in gently) return gently
      this.refusesBeyondRps = Math.max(gently.point.achievedRps, this.resolveAnsweredRps(refusing))
      idleRun = gently
    }
    const { run, point } = idleRun
    this.unloadedLatency = summarise(run.latencyMs)
    if (await session.died(point)) return noResult('server-died', session.causeOfDeath(point))
    if (point.sloCi95Ms[0] <= slo.limitMs && point.p50Ms <= slo.limitMs) return idleRun
    if (isStarvedOfCores(run)) return noResult('host-interference', unloadedDisturbed)
    return noResult(
      'slo-unattainable',
      `one request at a time already takes ${sloValue(slo, point.sloMs)} at ${sloName(slo)}, over ${sloLimit(slo)}`,
    )
  }

  /**
   * Applies a gentle open load to a server that refused a closed loop (429, 503: a full queue or a
   * rate limit). It starts at a fifth of the answered rate and halves it twice. Returns an error
   * outcome where the error rate still exceeds the SLO.
   */
  private async playGently(refusing: LoadPoint): Promise<SearchResult | Played> {
    const { session, effort } = this
    const { slo, seed = 1 } = this.options
    let rateRps = Math.max(1, gentleShare * this.resolveAnsweredRps(refusing))
    let last = refusing
    for (let tries = 0; tries < gentleTries; tries++) {
      const played = await session.open(
        rateRps,
        Math.min(6, Math.max(2 * effort.idleS, 20 / rateRps)),
        seed + tries,
        'unloaded',
      )
      if (await session.died(played.point))
        return noResult('server-died', session.causeOfDeath(played.point))
      if (!exceedsErrorRate(played.point, slo)) return played
      // A rate limit takes a while to recover from the closed loop, so a lower rate may succeed.
      last = played.point
      rateRps = Math.max(1, rateRps / 2)
    }
    return noResult(
      'errors',
      last.requests === 0 ? 'no request was answered' : describeErrors(last),
    )
  }

  /**
   * Answered rate of a refused loop; without any answer, that of all loops. A limit per second or
   * minute may refuse a whole loop after it admitted earlier ones.
   */
  private resolveAnsweredRps = (refusing: LoadPoint): number =>
    refusing.achievedRps > 0 ? refusing.achievedRps : this.session.answeredRps

  private isStreaming(point: LoadPoint): boolean {
    const { target } = this.options
    return target.kind === 'http' ? target.transport === 'sse' : point.stream !== undefined
  }
}

/**
 * A result without a capacity: 0 where the SLO is out of reach, unknown where the server could not
 * be measured.
 */
const noResult = (outcome: CapacityOutcome, detail: string): SearchResult => ({
  outcome,
  ...(outcome === 'server-died' || outcome === 'host-interference' ? unknownCapacity : noCapacity),
  saturationRps: 0,
  detail,
})

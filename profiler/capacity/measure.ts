import { resolveGenerator } from '../load/resolve-generator.ts'
import { caveatsOf } from './caveats.ts'
import { failsTooOften, keeps, type Slo, sloLimit, sloName, sloValue } from '../model/slo.ts'
import { noLatency } from '../load/latency-summary.ts'
import { summarise } from '../load/load-point.ts'
import type { LoadGenerator } from '../model/load-generator.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Phase } from '../model/load.ts'
import type { CapacityOutcome, Measurement } from '../model/measurement.ts'
import type { Target } from '../model/target.ts'
import { changeOfSpeed } from './consistency-checks.ts'
import { disturbedAlone, keptFromCores } from './host-interference.ts'
import { type Effort, efforts } from './effort.ts'
import { contradictAlone, idleContradiction } from './unloaded-latency.ts'
import { noCapacity, type Searched, unknownCapacity } from './capacity-bounds.ts'
import { openSearch } from './search/open-loop-search.ts'
import { rateBisection } from './search/rate-bisection.ts'
import { failuresOf, type Played, Session } from './session.ts'
import { untilNoFaster, type WarmUp, WarmUpByNumber, warmUpOf } from './warm-up.ts'

export interface CapacityOptions {
  readonly target: Target
  readonly slo: Slo
  readonly signal: AbortSignal
  /** Default 'standard'. */
  readonly effort?: keyof typeof efforts | Effort
  /** Seed of the arrivals, default 1. */
  readonly seed?: number
  /**
   * A capacity below this is of no use to the caller: the search ends as 'beaten' once it is
   * certain.
   */
  readonly capacityToBeatRps?: number
  /**
   * What is believed of the capacity beforehand: where windows bear it out, fewer of them are
   * enough.
   */
  readonly expectedRps?: number
  /**
   * Requests that warm servers of this kind, by what was seen of others (`requestsToWarm`); absent:
   * as many as may be needed.
   */
  readonly warmUpRequests?: number
  /** Told of every window as it ends. */
  readonly onStep?: (point: LoadPoint, phase: Phase) => void
  /** Default: one of its own, closed at the end. A given one is left open. */
  readonly generator?: LoadGenerator
}

const maxWarmUpWindows = 20
const gentleShare = 0.2
const gentleTries = 3

/**
 * Finds the capacity of a target under an SLO: warm-up, idle latency, then the search.
 * A bad server is an outcome. Throws a GeneratorError for loads that cannot be made, and the
 * signal's reason when it aborts.
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
  private idle = noLatency
  private readonly doubts: string[] = []
  private readonly byNumber: WarmUpByNumber
  private warmed: WarmUp | undefined
  /** Of the warm-up: a closed loop that was refused. */
  private refused: LoadPoint | undefined
  /** Rate of a closed loop from which on the server refuses; none is put on it then. */
  private refusesBeyondRps: number | undefined

  constructor(
    private readonly options: CapacityOptions,
    generator: LoadGenerator,
  ) {
    const { target, slo, signal, effort = 'standard', onStep = () => {} } = options
    this.effort = typeof effort === 'object' ? effort : efforts[effort]
    this.session = new Session(target, slo, generator, signal, onStep)
    this.byNumber = new WarmUpByNumber(this.session, this.effort.warmUpS)
  }

  async run(): Promise<Measurement> {
    const { session, options, doubts } = this
    const { caveats = [], ...found } = await this.search()
    return {
      ...found,
      slo: options.slo,
      idle: this.idle,
      points: session.points,
      requests: session.requests,
      seconds: session.totalS,
      ...(this.warmed && { warmUp: this.warmed }),
      caveats: [...caveats, ...doubts, ...caveatsOf(options.target, session)],
    }
  }

  private async search(): Promise<Searched> {
    const { session, effort } = this
    const early = await this.warmUp()
    if (early !== undefined) return early
    const unloaded = await this.unloaded()
    if ('outcome' in unloaded) return unloaded
    const { run, point } = unloaded
    const { capacityToBeatRps, expectedRps, seed = 1 } = this.options
    const { refusesBeyondRps, byNumber } = this
    const found = this.streamed(point)
      ? await rateBisection(session, effort, point, { seed, capacityToBeatRps, expectedRps })
      : await openSearch(session, effort, point, {
          seed,
          capacityToBeatRps,
          expectedRps,
          refusesBeyondRps,
          ...(refusesBeyondRps === undefined && { warmUp: byNumber }),
        })
    if (
      !['server-died', 'beaten', 'disturbed'].includes(found.outcome) &&
      refusesBeyondRps === undefined
    )
      await this.idleAgain(run, point)
    return found
  }

  /**
   * Until a window is no faster than the one before by more than chance, or `maxWarmUpWindows`;
   * then, over more connections, until the server has had so many requests that one which warms by
   * their number is warm. Its time is not taken from the budget.
   */
  private async warmUp(): Promise<Searched | undefined> {
    const { session, effort } = this
    const { slo } = this.options
    let last: LoadPoint | undefined
    const { warmUpRequests } = this.options
    await untilNoFaster(maxWarmUpWindows, async (window) => {
      // More connections bring it there sooner.
      if (window > 0 && warmUpRequests !== undefined && session.requests < warmUpRequests)
        return undefined
      const { run, point } = await session.closed(2, effort.warmUpS, 'warm-up', false)
      last = point
      return failsTooOften(point, slo) ? undefined : run
    })
    const { byNumber } = this
    while (
      last !== undefined &&
      !failsTooOften(last, slo) &&
      !this.streamed(last) &&
      !byNumber.isWarm(warmUpRequests)
    )
      last = await byNumber.play()
    if (last !== undefined && !this.streamed(last))
      this.warmed = warmUpOf(session.requests, byNumber.windows)
    session.startBudget()
    if (last === undefined) return undefined
    if (await session.died(last)) return nothing('server-died', session.causeOfDeath(last))
    if (failsTooOften(last, slo)) this.refused = last
    return undefined
  }

  /**
   * The idle latency again after the load, to see a server that changed; always where requests that
   * met nobody under load contradict the first.
   */
  private async idleAgain(before: LoadRun, point: LoadPoint): Promise<void> {
    const { session, effort, doubts } = this
    const { limitMs } = this.options.slo
    const answered = (latencyMs: Float64Array) => [...latencyMs.filter((ms) => !Number.isNaN(ms))]
    // Latencies of streams are those of their parts.
    const [first, alone] = [answered(before.latencyMs), this.streamed(point) ? [] : session.aloneMs]
    const contradicted = contradictAlone(first, alone, limitMs)
    if (!effort.checksSpeed && !contradicted) return
    await session.settle(point)
    const { run } = await session.closed(1, effort.idleS, 'idle', false)
    if (!contradicted) {
      doubts.push(...changeOfSpeed(before, run))
      return
    }
    const again = answered(run.latencyMs)
    doubts.push(idleContradiction(first, again, alone, limitMs))
    if (!contradictAlone(again, alone, limitMs)) this.idle = summarise(run.latencyMs)
  }

  /**
   * One request at a time, or gently where the server refuses closed loops; an outcome where that
   * tells enough.
   */
  private async unloaded(): Promise<Searched | Played> {
    const { session, effort, refused } = this
    const { slo } = this.options
    let idleRun = await session.closed(1, effort.idleS, 'idle')
    // One disturbed window must not condemn a server: a miss is measured again, and the better of
    // the two counts.
    if (!keeps(idleRun.point, slo)) {
      const again = await session.closed(1, 2 * effort.idleS, 'idle')
      if (again.point.sloMs < idleRun.point.sloMs) idleRun = again
    }
    if (refused !== undefined || failsTooOften(idleRun.point, slo)) {
      const refusing = refused ?? idleRun.point
      const gently = await this.gentle(refusing)
      if ('outcome' in gently) return gently
      this.refusesBeyondRps = Math.max(gently.point.achievedRps, this.answeredOf(refusing))
      idleRun = gently
    }
    const { run, point } = idleRun
    this.idle = summarise(run.latencyMs)
    if (await session.died(point)) return nothing('server-died', session.causeOfDeath(point))
    if (point.sloCi95Ms[0] <= slo.limitMs && point.p50Ms <= slo.limitMs) return idleRun
    if (keptFromCores(run)) return nothing('disturbed', disturbedAlone)
    return nothing(
      'slo-unattainable',
      `one request at a time already takes ${sloValue(slo, point.sloMs)} at ${sloName(slo)}, over ${sloLimit(slo)}`,
    )
  }

  /**
   * A server that refused a closed loop may have been asked for too much (429, 503: a queue or a
   * rate limit): open load at a fifth of what it answered well, and then at half of that, twice.
   * Where that fails too, it serves nobody.
   */
  private async gentle(refusing: LoadPoint): Promise<Searched | Played> {
    const { session, effort } = this
    const { slo, seed = 1 } = this.options
    let rateRps = Math.max(1, gentleShare * this.answeredOf(refusing))
    let last = refusing
    for (let tries = 0; tries < gentleTries; tries++) {
      const played = await session.open(
        rateRps,
        Math.min(6, Math.max(2 * effort.idleS, 20 / rateRps)),
        seed + tries,
        'idle',
      )
      if (await session.died(played.point))
        return nothing('server-died', session.causeOfDeath(played.point))
      if (!failsTooOften(played.point, slo)) return played
      // What it refused may still have been the loop's: a rate limit takes a while to forget.
      last = played.point
      rateRps = Math.max(1, rateRps / 2)
    }
    return nothing('errors', last.requests === 0 ? 'no request was answered' : failuresOf(last))
  }

  /**
   * What a loop got, per second; of one that got nothing what all of them did: a limit by the
   * second or the minute refuses whole loops, and let in those before.
   */
  private answeredOf = (refusing: LoadPoint): number =>
    refusing.achievedRps > 0 ? refusing.achievedRps : this.session.answeredRps

  private streamed(point: LoadPoint): boolean {
    const { target } = this.options
    return target.kind === 'http' ? target.transport === 'sse' : point.stream !== undefined
  }
}

/**
 * No capacity for a reason: none that an SLO out of reach leaves, or none known of a server that
 * could not be measured.
 */
const nothing = (outcome: CapacityOutcome, detail: string): Searched => ({
  outcome,
  ...(outcome === 'server-died' || outcome === 'disturbed' ? unknownCapacity : noCapacity),
  saturationRps: 0,
  detail,
})

import { availableParallelism, loadavg } from 'node:os'
import { HttpLoadGenerator } from '../generator/http-generator.ts'
import { serverAddress } from '../server-address.ts'
import { failsTooOften, keeps, sloLimit, sloName, sloValue } from '../slo.ts'
import { noLatency } from '../statistics/latency-summary.ts'
import { summarise } from '../statistics/load-point.ts'
import type {
  CapacityOutcome,
  LoadGenerator,
  LoadPoint,
  LoadRun,
  Measurement,
  Phase,
  Slo,
  Target,
} from '../types.ts'
import { VirtualLoadGenerator } from '../virtual/virtual-generator.ts'
import { changeOfSpeed } from './checks.ts'
import { disturbedAlone, keptFromCores } from './disturbance.ts'
import { type Effort, efforts } from './effort.ts'
import { contradictAlone, idleContradiction } from './idle-check.ts'
import { noCapacity, type Searched, unknownCapacity } from './known-capacity.ts'
import { openSearch } from './open-search.ts'
import { rateBisection } from './rate-bisection.ts'
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
  const generator = generatorFor(options.target, options.generator)
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

/**
 * The given generator, or one of one's own for the target; targets in virtual time always get
 * theirs.
 */
export function generatorFor(target: Target, given: LoadGenerator | undefined): LoadGenerator {
  if (target.kind === 'virtual') return new VirtualLoadGenerator()
  return given ?? new HttpLoadGenerator()
}

/** Load average per core above which more waits for a core than the server and its load would. */
const crowded = 1.5

/** Closed connections beyond this share of the requests are told of. */
const closingShare = 0.05

/** Unloaded latency, ms, where Linux's delayed acknowledgement of 40 ms shows. */
const delayedAckMs = [39.5, 45] as const
/** Such answers all take the same: p90 over p50 at most. */
const maxDelayedAckSpread = 1.15

/**
 * Latency of one request at a time that delayed TCP acknowledgements explain: the server sends the
 * head of an answer, and Nagle's algorithm holds its body back until the client acknowledges.
 */
function delayedAckCaveat({ points }: Session): string[] {
  const alone = points.find(
    ({ load, stream }) => load.kind === 'closed' && load.connections === 1 && !stream,
  )
  const [min, max] = delayedAckMs
  if (alone === undefined || !(alone.p50Ms >= min && alone.p50Ms <= max)) return []
  if (alone.p90Ms > maxDelayedAckSpread * alone.p50Ms) return []
  return [
    `the unloaded latency of ${alone.p50Ms.toFixed(0)} ms may be delayed TCP acknowledgements (40 ms) instead of work: set TCP_NODELAY in the server, or send head and body of an answer together`,
  ]
}

export function caveatsOf(target: Target, session: Session): string[] {
  if (target.kind === 'virtual') return []
  const found = [...(target.remarks ?? [])]
  const { host } = serverAddress(target.url)!
  if (/^(localhost|127\.|\[?::1)/.test(host) && session.generatorCores > 0.02) {
    const cores = availableParallelism()
    found.push(
      `the load generator shared this machine's ${cores} cores with the server and used up to ${session.generatorCores.toFixed(2)} of one`,
    )
    const [load = 0] = loadavg()
    if (load > crowded * cores)
      found.push(`CPU contention: load average ${load.toFixed(1)} on ${cores} cores`)
  }
  if (session.closedConnections > closingShare * session.requests)
    found.push(
      `the server closed ${session.closedConnections} connections in ${session.requests} requests, and reconnecting is part of the latency: enable keep-alive (gunicorn: gthread workers)`,
    )
  found.push(...delayedAckCaveat(session))
  const streams = session.points.flatMap(({ stream }) => stream ?? [])
  const answers = streams.reduce((sum, { e2e }) => sum + e2e.requests, 0)
  const silent = answers - streams.reduce((sum, { tpot }) => sum + tpot.requests, 0)
  if (silent > 0)
    found.push(
      `${silent} of ${answers} streamed answers came in one piece: their time per output token (TPOT) is not observable; does the server, or a gateway before it, collect the answer before it sends it?`,
    )
  if (session.points.some((point) => point.generatorSaturated))
    found.push('the load generator could not hold some of the load points; they are marked')
  return found
}

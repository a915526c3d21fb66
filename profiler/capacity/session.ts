import { setTimeout as sleep } from 'node:timers/promises'
import { summariseRun } from '../load/load-point.ts'
import { computeRateUntilLast } from '../load/throughput.ts'
import type { Arrivals, Load, Phase } from '../model/load.ts'
import type { LoadGenerator } from '../model/load-generator.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import { maxLimitMs, type Slo, selectSloLatencies } from '../model/slo.ts'
import type { Target } from '../model/target.ts'
import { extractUnloadedLatencies } from './unloaded-latency.ts'

/** Errors of requests whose server ends. */
const brokenConnectionErrors = ['refused', 'reset', 'closed by server']

/**
 * A server hangs, and does not merely work off a queue, where all requests of this many consecutive
 * loads time out, over at least `minUnresponsiveS` seconds.
 */
const minUnresponsiveLoads = 2
const minUnresponsiveS = 10
/** Time without any data after which a stream is given up, in SLO limits. */
const unresponsiveLimits = 4

/** Throughput of a closed loop, and the number of answers behind it. */
export interface LoopThroughput {
  readonly rps: number
  readonly answers: number
}

/** A played load: its run and its summary. */
export interface Played {
  readonly run: LoadRun
  readonly point: LoadPoint
}

/**
 * A measurement in progress: plays loads against one target, keeps every load point, and counts
 * time and requests.
 */
export class Session {
  readonly points: LoadPoint[] = []
  /** Closed loops in time order. */
  readonly loops: LoadRun[] = []
  /** Latencies of requests that met no other in open windows of the search, ms. */
  readonly unloadedMs: number[] = []
  /** Time under load, seconds; virtual for a server in virtual time. */
  totalS = 0
  private budgetFromS = 0
  private readonly saturationLoops: (LoopThroughput & { readonly connections: number })[] = []
  requests = 0
  /** Last load point of a server that hangs; undefined while it answers. */
  unresponsive: LoadPoint | undefined
  private unresponsiveLoads = 0
  private unresponsiveS = 0
  /** Largest number of cores that the generator used in a window. */
  generatorCores = 0
  /** Connections that the server closed. */
  closedConnections = 0
  private readonly target: Target

  constructor(
    target: Target,
    readonly slo: Slo,
    private readonly generator: LoadGenerator,
    private readonly signal: AbortSignal,
    private readonly onStep: (point: LoadPoint, phase: Phase) => void,
  ) {
    this.target = limitSilence(target, slo)
  }

  /** Time under load since the budget started, seconds. */
  get spentS(): number {
    return this.totalS - this.budgetFromS
  }

  /** Successful answers of all closed loops, per second of their time. */
  get answeredRps(): number {
    const answered = this.loops.reduce(
      (count, { latencyMs }) => count + latencyMs.filter((ms) => !Number.isNaN(ms)).length,
      0,
    )
    const seconds = this.loops.reduce((total, { elapsedS }) => total + elapsedS, 0)
    return seconds > 0 ? answered / seconds : 0
  }

  /**
   * Fastest closed loop of the saturation, over the time until its last answer. Only loops with at
   * least half of the largest number of connections count, as a loop with a short queue may be
   * faster.
   */
  get fastestLoop(): LoopThroughput {
    const maxConnections = this.saturationLoops.reduce(
      (highest, { connections }) => Math.max(highest, connections),
      0,
    )
    const saturated = this.saturationLoops.filter(
      ({ connections }) => connections >= maxConnections / 2,
    )
    return saturated.reduce<LoopThroughput>(
      (fastest, loop) => (loop.rps > fastest.rps ? loop : fastest),
      {
        rps: 0,
        answers: 1,
      },
    )
  }

  /** Excludes time from the budget. */
  excludeFromBudget(seconds: number): void {
    this.budgetFromS += seconds
  }

  /** Starts the budget. */
  startBudget(): void {
    this.budgetFromS = this.totalS
  }

  /**
   * Drops the observations of a server that has changed since, except the first `points` load
   * points.
   */
  forget(points: number): void {
    this.points.length = points
    this.loops.length = 0
    this.saturationLoops.length = 0
    this.unloadedMs.length = 0
  }

  /** Applies a load. `keep: false` leaves its point out of the load curve (warm-up). */
  async play(load: Load, phase: Phase, keep = true): Promise<Played> {
    const run = selectSloLatencies(
      await this.generator.play(this.target, load, this.signal),
      this.slo,
    )
    return this.take(run, phase, keep)
  }

  /** Records a run as if just played; also for stored runs of an earlier process. */
  take(run: LoadRun, phase: Phase, keep = false): Played {
    const { load } = run
    const point = summariseRun(run, this.slo)
    this.totalS += run.elapsedS
    this.requests += run.latencyMs.length
    this.closedConnections += run.connections?.closed ?? 0
    this.generatorCores = Math.max(this.generatorCores, run.generatorCores)
    if (keep) this.points.push(point)
    this.trackResponses(run, point)
    if (load.kind === 'closed') {
      this.loops.push(run)
      if (phase === 'saturation')
        this.saturationLoops.push({
          connections: load.connections,
          rps: computeRateUntilLast(run),
          answers: run.latencyMs.length,
        })
    } else if (phase === 'search' && !point.invalid)
      this.unloadedMs.push(...extractUnloadedLatencies(run))
    this.onStep(point, phase)
    return { run, point }
  }

  /** Applies no load for a while. */
  async rest(seconds: number): Promise<void> {
    const { generator, target, signal } = this
    if (generator.rest !== undefined) await generator.rest(target, seconds, signal)
    else await sleep(1000 * seconds, undefined, { signal }).catch(() => signal.throwIfAborted())
    if (target.kind === 'virtual') this.totalS += seconds
  }

  closed(connections: number, durationS: number, phase: Phase, keep = true) {
    return this.play({ kind: 'closed', connections, durationS }, phase, keep)
  }

  /**
   * Opens connections for the following open load, so that its latencies do not include their
   * opening. Over TLS that takes CPU time on both sides. Servers in virtual time have no
   * connections; they get the load only for a burst.
   */
  async connect({
    connections,
    durationS,
    burst,
  }: {
    connections: number
    durationS: number
    burst: boolean
  }): Promise<Played | undefined> {
    if (this.target.kind !== 'http' && !burst) return undefined
    return this.play({ kind: 'closed', connections, durationS, forOpen: true }, 'warm-up', false)
  }

  /** Whether the server died or hangs. Checks again after refused or broken connections. */
  async died(point: LoadPoint): Promise<boolean> {
    if (isServerGone(point) || this.unresponsive !== undefined) return true
    return (
      brokenConnectionErrors.some((kind) => kind in point.errorKinds) &&
      isServerGone((await this.closed(1, 0.05, 'search', false)).point)
    )
  }

  /**
   * Waits until an overloaded server is as fast as when unloaded, for about two seconds, or until
   * it hangs.
   */
  async settle(unloaded: LoadPoint): Promise<void> {
    for (let i = 0; i < 20 && this.unresponsive === undefined; i++) {
      const { point } = await this.closed(
        1,
        Math.max(0.02, (1.5 * unloaded.p50Ms) / 1000),
        'search',
        false,
      )
      if (point.p50Ms < 1.5 * unloaded.p50Ms + 2) return
    }
  }

  /**
   * Detects a hanging server: two consecutive loads over ten seconds got no answer at all. Two
   * types of loads count: one request at a time, which waits in no queue, and streams, which are
   * given up only when silent.
   */
  private trackResponses({ load, elapsedS }: LoadRun, point: LoadPoint): void {
    const hasNoAnswer = point.errors > 0 && point.errorKinds.timeout === point.requests
    if (!hasNoAnswer) [this.unresponsiveLoads, this.unresponsiveS] = [0, 0]
    else if (
      (load.kind === 'closed' && load.connections === 1) ||
      (this.target.kind === 'http' && this.target.silentMs !== undefined)
    ) {
      this.unresponsiveLoads++
      this.unresponsiveS += elapsedS
    }
    if (this.unresponsiveLoads >= minUnresponsiveLoads && this.unresponsiveS >= minUnresponsiveS)
      this.unresponsive = point
  }

  /** Describes why the server counts as dead. */
  causeOfDeath(point: LoadPoint): string {
    return this.unresponsive === undefined
      ? `nothing listens any more: ${describeErrors(point)}`
      : `nothing is answered any more: ${describeErrors(this.unresponsive)}`
  }

  open(
    rateRps: number,
    durationS: number,
    seed: number,
    phase: Phase,
    arrivals: Arrivals = { kind: 'poisson' },
  ) {
    return this.play({ kind: 'open', rateRps, durationS, seed, arrivals }, phase)
  }
}

/**
 * Sets the time after which streams without any data are given up. It is shorter than their
 * timeout, which allows for long answers.
 */
function limitSilence(target: Target, slo: Slo): Target {
  if (target.kind !== 'http' || target.transport !== 'sse') return target
  const longestMs = maxLimitMs(slo)
  return { ...target, silentMs: Math.max(1000 * minUnresponsiveS, unresponsiveLimits * longestMs) }
}

/** Describes the errors of a point: "12 of 300 requests failed (status 503 × 12)". */
export function describeErrors(
  point: Pick<LoadPoint, 'errors' | 'requests' | 'errorKinds'>,
): string {
  const kinds = Object.entries(point.errorKinds)
    .sort((a, b) => b[1] - a[1])
    .map(([kind, count]) => `${kind} × ${count}`)
  return `${point.errors} of ${point.requests} requests failed (${kinds.join(', ')})`
}

/** Whether no request of a point reached a server. */
const isServerGone = (point: LoadPoint): boolean =>
  point.errors === point.requests && (point.errorKinds.refused ?? 0) > point.requests / 2

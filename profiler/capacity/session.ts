import { setTimeout as sleep } from 'node:timers/promises'
import { countedRun, longestLimitMs, type Slo } from '../model/slo.ts'
import { loadPointOf, untilLastRps } from '../load/load-point.ts'
import type { LoadGenerator } from '../model/load-generator.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Arrivals, Load, Phase } from '../model/load.ts'
import type { Target } from '../model/target.ts'
import { aloneIn } from './unloaded-latency.ts'

/** What requests fail with when their server ends. */
const brokenKinds = ['refused', 'reset', 'closed by server']

/**
 * Loads in a row whose every request times out, and for how long, seconds, to tell a server that
 * hangs from one that still works off what was heaped up.
 */
const fewestSilent = 2
const silentFromS = 10
/** And of streams that nothing is heard of, this many of the longest limit. */
const silentLimits = 4

/** What a closed loop got at the most, per second, and how many answers tell so. */
export interface LoopsSeen {
  readonly rps: number
  readonly answers: number
}

/** What a load did, request by request and in sum. */
export interface Played {
  readonly run: LoadRun
  readonly point: LoadPoint
}

/**
 * One measurement under way: plays loads against one target, keeps every point, and knows the time
 * and requests spent.
 */
export class Session {
  readonly points: LoadPoint[] = []
  /** Closed loops in the order they were played. */
  readonly loops: LoadRun[] = []
  /** Latencies of requests that met nobody in open windows of the search, ms. */
  readonly aloneMs: number[] = []
  /** Time under load, seconds; in virtual time that time. */
  totalS = 0
  private budgetFromS = 0
  private readonly saturating: (LoopsSeen & { readonly connections: number })[] = []
  requests = 0
  /** Requests to a server that hangs: for long, nothing was answered any more. */
  silent: LoadPoint | undefined
  private silentTries = 0
  private silentS = 0
  /** Most cores that the generator used in a window. */
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
    this.target = heardWithin(target, slo)
  }

  /** Time under load since the budget began to count. */
  get spentS(): number {
    return this.totalS - this.budgetFromS
  }

  /** Good answers of all closed loops, per second of them. */
  get answeredRps(): number {
    const answered = this.loops.reduce(
      (count, { latencyMs }) => count + latencyMs.filter((ms) => !Number.isNaN(ms)).length,
      0,
    )
    const seconds = this.loops.reduce((total, { elapsedS }) => total + elapsedS, 0)
    return seconds > 0 ? answered / seconds : 0
  }

  /**
   * What a loop got at the most, to its last answer, of those that saturated the server by at least
   * half of the most connections: one that few wait for may be faster.
   */
  get fastestLoop(): LoopsSeen {
    const most = this.saturating.reduce(
      (highest, { connections }) => Math.max(highest, connections),
      0,
    )
    const deep = this.saturating.filter(({ connections }) => connections >= most / 2)
    return deep.reduce<LoopsSeen>((fastest, loop) => (loop.rps > fastest.rps ? loop : fastest), {
      rps: 0,
      answers: 1,
    })
  }

  /** Time that shall not count against the budget, seconds. */
  forgive(seconds: number): void {
    this.budgetFromS += seconds
  }

  /** The budget counts from here. */
  startBudget(): void {
    this.budgetFromS = this.totalS
  }

  /**
   * Forgets what was seen of a server that is another by now, but for the first points, so many of
   * them.
   */
  forget(points: number): void {
    this.points.length = points
    this.loops.length = 0
    this.saturating.length = 0
    this.aloneMs.length = 0
  }

  /** `keep: false` leaves the point out of the load curve (warm-up). */
  async play(load: Load, phase: Phase, keep = true): Promise<Played> {
    const run = countedRun(await this.generator.play(this.target, load, this.signal), this.slo)
    return this.take(run, phase, keep)
  }

  /** Counts a run as played, also one of an earlier process. */
  take(run: LoadRun, phase: Phase, keep = false): Played {
    const { load } = run
    const point = loadPointOf(run, this.slo)
    this.totalS += run.elapsedS
    this.requests += run.latencyMs.length
    this.closedConnections += run.connections?.closed ?? 0
    this.generatorCores = Math.max(this.generatorCores, run.generatorCores)
    if (keep) this.points.push(point)
    this.listen(run, point)
    if (load.kind === 'closed') {
      this.loops.push(run)
      if (phase === 'saturation')
        this.saturating.push({
          connections: load.connections,
          rps: untilLastRps(run),
          answers: run.latencyMs.length,
        })
    } else if (phase === 'search' && !point.disturbed) this.aloneMs.push(...aloneIn(run))
    this.onStep(point, phase)
    return { run, point }
  }

  /** Leaves the server alone for a while. */
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
   * Opens connections for the open load to come: it would else time the opening of its own, which
   * over TLS takes both sides' computing time. Servers in virtual time have none, and get the load
   * where it is a burst that tells more.
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

  /**
   * Whether the server is there no more, or silent. Asks it again when some of a point's
   * connections were refused or broken.
   */
  async died(point: LoadPoint): Promise<boolean> {
    if (serverGone(point) || this.silent !== undefined) return true
    return (
      brokenKinds.some((kind) => kind in point.errorKinds) &&
      serverGone((await this.closed(1, 0.05, 'search', false)).point)
    )
  }

  /**
   * Waits until a server that was overloaded answers as fast as when idle, or about two seconds, or
   * until it is `silent`.
   */
  async settle(idle: LoadPoint): Promise<void> {
    for (let i = 0; i < 20 && this.silent === undefined; i++) {
      const { point } = await this.closed(
        1,
        Math.max(0.02, (1.5 * idle.p50Ms) / 1000),
        'search',
        false,
      )
      if (point.p50Ms < 1.5 * idle.p50Ms + 2) return
    }
  }

  /**
   * A server is `silent` where two loads in a row, and ten seconds, found no answer at all: of one
   * request at a time, which waits for no other; and any of streams, which time out all together.
   */
  private listen({ load, elapsedS }: LoadRun, point: LoadPoint): void {
    const nothing = point.errors > 0 && point.errorKinds.timeout === point.requests
    if (!nothing) [this.silentTries, this.silentS] = [0, 0]
    else if (
      (load.kind === 'closed' && load.connections === 1) ||
      (this.target.kind === 'http' && this.target.silentMs !== undefined)
    ) {
      this.silentTries++
      this.silentS += elapsedS
    }
    if (this.silentTries >= fewestSilent && this.silentS >= silentFromS) this.silent = point
  }

  /** What there is to say of a server that `died`. */
  causeOfDeath(point: LoadPoint): string {
    return this.silent === undefined
      ? `nothing listens any more: ${failuresOf(point)}`
      : `nothing is answered any more: ${failuresOf(this.silent)}`
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

/** The timeout of a stream is long, for answers are: that nothing comes of any is told sooner. */
function heardWithin(target: Target, slo: Slo): Target {
  if (target.kind !== 'http' || target.transport !== 'sse') return target
  const longestMs = longestLimitMs(slo)
  return { ...target, silentMs: Math.max(1000 * silentFromS, silentLimits * longestMs) }
}

/** The failures of a point in words: "12 of 300 requests failed (status 503 × 12)". */
export function failuresOf(point: Pick<LoadPoint, 'errors' | 'requests' | 'errorKinds'>): string {
  const kinds = Object.entries(point.errorKinds)
    .sort((a, b) => b[1] - a[1])
    .map(([kind, count]) => `${kind} × ${count}`)
  return `${point.errors} of ${point.requests} requests failed (${kinds.join(', ')})`
}

/** True when no request of a point reached a server. */
const serverGone = (point: LoadPoint): boolean =>
  point.errors === point.requests && (point.errorKinds.refused ?? 0) > point.requests / 2

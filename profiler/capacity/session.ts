import { setTimeout as sleep } from 'node:timers/promises'
import { summariseRun } from '../load/load-point.ts'
import type { Arrivals, Load, Phase } from '../model/load.ts'
import type { LoadGenerator } from '../model/load-generator.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import { type Slo, selectSloLatencies } from '../model/slo.ts'
import type { Target } from '../model/target.ts'
import { HangDetector, limitSilence } from './hang-detector.ts'
import { LoadRecord } from './load-record.ts'

/** Errors of requests whose server ends. */
const brokenConnectionErrors = ['refused', 'reset', 'closed by server']
/** Length of the load that checks whether anything still listens, seconds. Assumed. */
const checkS = 0.05
/**
 * An overloaded server has settled where one request takes this factor on its unloaded latency.
 * Assumed.
 */
const settledFactor = 1.5
/** Added to that bound for the jitter of a short latency, ms. Assumed. */
const settledJitterMs = 2
/**
 * Loads of one request that wait for it, each as long as a request may take, at least `minSettleS`.
 * Assumed.
 */
const maxSettleLoads = 20
const minSettleS = 0.02

/** A played load: its run and its summary. */
export interface PlayedLoad {
  readonly run: LoadRun
  readonly point: LoadPoint
}

/**
 * A measurement in progress: plays loads against one target, keeps every load point, and counts
 * time and requests.
 */
export class Session extends LoadRecord {
  readonly target: Target
  private readonly hang = new HangDetector()
  private budgetFromS = 0

  constructor(
    target: Target,
    readonly slo: Slo,
    private readonly generator: LoadGenerator,
    private readonly signal: AbortSignal,
    private readonly onStep: (point: LoadPoint, phase: Phase) => void,
  ) {
    super()
    this.target = limitSilence(target, slo)
  }

  /** Last load point of a server that hangs; undefined while it answers. */
  get unresponsive(): LoadPoint | undefined {
    return this.hang.unresponsive
  }

  /** Time under load since the budget started, seconds. */
  get spentS(): number {
    return this.totalS - this.budgetFromS
  }

  /** Excludes time from the budget. */
  excludeFromBudget(seconds: number): void {
    this.budgetFromS += seconds
  }

  /** Starts the budget. */
  startBudget(): void {
    this.budgetFromS = this.totalS
  }

  /** Applies a load. With `isInCurve: false`, its point is not part of the load curve (warm-up). */
  async play(load: Load, phase: Phase, isInCurve = true): Promise<PlayedLoad> {
    const run = selectSloLatencies(
      await this.generator.play(this.target, load, this.signal),
      this.slo,
    )
    return this.addRun(run, phase, isInCurve)
  }

  /** Records a run as if just played; also for stored runs of an earlier process. */
  addRun(run: LoadRun, phase: Phase, isInCurve = false): PlayedLoad {
    const point = summariseRun(run, this.slo)
    this.record(run, point, phase, isInCurve)
    this.hang.record(run, point, this.target)
    this.onStep(point, phase)
    return { run, point }
  }

  /** Applies no load for a while. */
  async rest(seconds: number): Promise<void> {
    const { generator, target, signal } = this
    if (generator.rest !== undefined) await generator.rest(target, seconds, signal)
    else await sleep(1000 * seconds, undefined, { signal }).catch(() => signal.throwIfAborted())
    // A virtual server spends this time under a load of one request (`VirtualLoadGenerator`).
    if (target.kind === 'virtual') this.totalS += seconds
  }

  playClosed(connections: number, durationS: number, phase: Phase, isInCurve = true) {
    return this.play({ kind: 'closed', connections, durationS }, phase, isInCurve)
  }

  playOpen(
    rateRps: number,
    durationS: number,
    seed: number,
    phase: Phase,
    arrivals: Arrivals = { kind: 'poisson' },
  ) {
    return this.play({ kind: 'open', rateRps, durationS, seed, arrivals }, phase)
  }

  /**
   * Opens connections for the following open load, so that its latencies do not include their
   * opening. Over TLS that takes CPU time on both sides. Servers in virtual time have no
   * connections.
   * @param isBurst the load also shows whether the server admits that many requests at once, so a
   * server in virtual time gets it too
   */
  async connect({
    connections,
    durationS,
    isBurst,
  }: {
    connections: number
    durationS: number
    isBurst: boolean
  }): Promise<PlayedLoad | undefined> {
    if (this.target.kind !== 'http' && !isBurst) return undefined
    return this.play({ kind: 'closed', connections, durationS, forOpen: true }, 'warm-up', false)
  }

  /** Whether the server died or hangs. Checks again after refused or broken connections. */
  async hasDied(point: LoadPoint): Promise<boolean> {
    if (isServerGone(point) || this.unresponsive !== undefined) return true
    return (
      brokenConnectionErrors.some((kind) => kind in point.errorKinds) &&
      isServerGone((await this.playClosed(1, checkS, 'search', false)).point)
    )
  }

  /**
   * Waits until an overloaded server is as fast as when unloaded, for `maxSettleLoads` loads, or
   * until it hangs.
   */
  async settle(unloaded: LoadPoint): Promise<void> {
    const loadS = Math.max(minSettleS, (settledFactor * unloaded.p50Ms) / 1000)
    const settledMs = settledFactor * unloaded.p50Ms + settledJitterMs
    for (let i = 0; i < maxSettleLoads && this.unresponsive === undefined; i++) {
      const { point } = await this.playClosed(1, loadS, 'search', false)
      if (point.p50Ms < settledMs) return
    }
  }

  /** Describes why the server counts as dead. */
  describeDeath(point: LoadPoint): string {
    return this.unresponsive === undefined
      ? `nothing listens any more: ${describeErrors(point)}`
      : `nothing is answered any more: ${describeErrors(this.unresponsive)}`
  }
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

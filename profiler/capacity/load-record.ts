/** Observations of a session: its load curve, its closed loops, and totals. */
import { computeMeanThroughput } from '../load/throughput.ts'
import type { Phase } from '../model/load.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import { extractUnloadedLatencies } from './unloaded-latency.ts'

/** Throughput of a closed loop, requests per second without failed ones. */
export interface LoopThroughput {
  readonly rps: number
  /** Requests of the loop, failed ones included. */
  readonly requests: number
}

export class LoadRecord {
  /** The load curve. */
  readonly points: LoadPoint[] = []
  /** Closed loops in time order. */
  readonly loops: LoadRun[] = []
  /** Latencies of requests that met no other in open windows of the search, ms. */
  readonly unloadedMs: number[] = []
  /** Time under load, seconds; virtual for a server in virtual time. */
  totalS = 0
  requests = 0
  /** Largest number of cores that the generator used in a window. */
  generatorCores = 0
  /** Connections that the server closed. */
  closedConnections = 0
  private readonly saturationLoops: (LoopThroughput & { readonly connections: number })[] = []

  /** Successful answers of all closed loops, per second of their time. */
  get answeredRps(): number {
    const answers = this.loops.reduce(
      (count, { latencyMs }) => count + latencyMs.filter((ms) => !Number.isNaN(ms)).length,
      0,
    )
    const seconds = this.loops.reduce((total, { elapsedS }) => total + elapsedS, 0)
    return seconds > 0 ? answers / seconds : 0
  }

  /**
   * Fastest closed loop of the saturation, over the time until its last answer. Only loops with at
   * least half of the largest number of connections count, as a loop with a short queue may be
   * faster.
   */
  get fastestLoop(): LoopThroughput {
    const maxConnections = Math.max(...this.saturationLoops.map(({ connections }) => connections))
    return this.saturationLoops
      .filter(({ connections }) => connections >= maxConnections / 2)
      .reduce<LoopThroughput>((fastest, loop) => (loop.rps > fastest.rps ? loop : fastest), {
        rps: 0,
        requests: 1, // Not 0: closed-loop-share.ts divides by it.
      })
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

  /** @param isInCurve whether the point belongs to the load curve */
  protected record(run: LoadRun, point: LoadPoint, phase: Phase, isInCurve: boolean): void {
    const { load } = run
    this.totalS += run.elapsedS
    this.requests += run.latencyMs.length
    this.closedConnections += run.connections?.closed ?? 0
    this.generatorCores = Math.max(this.generatorCores, run.generatorCores)
    if (isInCurve) this.points.push(point)
    if (load.kind === 'open') {
      if (phase === 'search' && !point.invalid)
        this.unloadedMs.push(...extractUnloadedLatencies(run))
      return
    }
    this.loops.push(run)
    if (phase === 'saturation')
      this.saturationLoops.push({
        connections: load.connections,
        rps: computeMeanThroughput(run),
        requests: run.latencyMs.length,
      })
  }
}

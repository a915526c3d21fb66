import type { Load } from './load.ts'
import type { LoadPoint } from './load-point.ts'
import type { LoadRun } from './load-run.ts'
import type { Slo } from './slo.ts'
import type { Target } from './target.ts'

/**
 * Applies loads and reports their runs. Rejects only when the signal aborts or the load is
 * unusable; a bad server is a load point with errors.
 */
export interface LoadGenerator {
  readonly name: string
  /** Plays one load, request by request. One at a time per generator. */
  play(target: Target, load: Load, signal: AbortSignal): Promise<LoadRun>
  /** Plays one load and summarises it against an SLO. */
  run(target: Target, load: Load, slo: Slo, signal: AbortSignal): Promise<LoadPoint>
  /** Lets time pass without load. Absent: the caller waits in real time. */
  rest?(target: Target, seconds: number, signal: AbortSignal): Promise<void>
  /** Ends the process and sockets of the generator. Idempotent. */
  close(): Promise<void>
}

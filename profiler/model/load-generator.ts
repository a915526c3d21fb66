import type { LoadPoint } from './load-point.ts'
import type { LoadRun } from './load-run.ts'
import type { Load } from './load.ts'
import type { Slo } from './slo.ts'
import type { Target } from './target.ts'

/**
 * Applies loads and reports. Rejects only when the signal aborts or the load is unusable; a bad
 * server is a load point with errors.
 */
export interface LoadGenerator {
  readonly name: string
  /** One load, request by request. One at a time per generator. */
  play(target: Target, load: Load, signal: AbortSignal): Promise<LoadRun>
  /** One load, summarised against an SLO. */
  run(target: Target, load: Load, slo: Slo, signal: AbortSignal): Promise<LoadPoint>
  /** Lets time pass without load. Absent: by the machine's clock. */
  rest?(target: Target, seconds: number, signal: AbortSignal): Promise<void>
  /** Ends the generator's process and sockets. Idempotent. */
  close(): Promise<void>
}

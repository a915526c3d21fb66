/** The interface of a serving predictor, for every engine. */
import type { EngineDeath } from './engines/engine-host.ts'

/** A predictor that serves. */
export interface RunningPredictor {
  readonly url: string
  readonly port: number
  /** Absent without GRPC_PORT. */
  readonly grpcPort?: number
  readonly model: string
  readonly device: string
  readonly provenance: 'measured' | 'emulated'
  /**
   * Resolves when a part of it ends by itself; never rejects. The predictor is of no use then: stop
   * it.
   */
  readonly died: Promise<EngineDeath>
  /**
   * Refuses new requests, answers those in flight within the drain time-out, and ends everything.
   * Idempotent.
   */
  stop(): Promise<void>
}

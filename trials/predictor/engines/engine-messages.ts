/** Messages between an engine host and its worker, over a process channel or a message port. */
import type { EngineInfo, EngineOptions, Tensors, Utilization } from '../engine.ts'
import type { TensorEngineName } from './engine-registry.ts'

export type ToEngine =
  | { readonly type: 'load'; readonly engine: TensorEngineName; readonly options: EngineOptions }
  | {
      readonly type: 'infer'
      readonly call: number
      readonly inputs: Tensors
      /** `process.hrtime` of the send, ms; one clock for all threads and processes of a machine. */
      readonly sentAtMs: number
    }
  | { readonly type: 'close' }

/** Description of a ready engine. */
export interface LoadedEngine {
  readonly name: string
  readonly provenance: 'measured' | 'emulated'
  readonly device: string
  readonly info: EngineInfo
}

export type FromEngine =
  | { readonly type: 'loaded'; readonly loaded: LoadedEngine }
  | {
      readonly type: 'result'
      readonly call: number
      readonly outputs: Tensors
      readonly utilization?: Utilization
    }
  | {
      readonly type: 'error'
      readonly call?: number
      readonly message: string
      readonly outOfMemory: boolean
    }
  | { readonly type: 'closed' }

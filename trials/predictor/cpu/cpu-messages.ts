/** Messages between the predictor and its CPU workers. */
import type { Tensors } from '../engine.ts'
import type { PreparedRequest, Reply, ReplyFormat, ServedModelInfo } from '../protocol/tensors.ts'

export interface DecodeJob {
  readonly kind: 'decode'
  readonly protocol: ReplyFormat['protocol']
  readonly version: string
  readonly body: string | Uint8Array
  /** Inference-Header-Content-Length of a binary request. */
  readonly headerLength?: number
}

export interface EncodeJob {
  readonly kind: 'encode'
  readonly version: string
  readonly format: ReplyFormat
  readonly outputs: Tensors
}

export type CpuJob = DecodeJob | EncodeJob

/** `models` is sent once, before the first jobs: every served version. */
export type ToCpuWorker =
  | { readonly type: 'models'; readonly models: readonly ServedModelInfo[] }
  | { readonly type: 'jobs'; readonly jobs: readonly CpuJob[] }

/** `ms`: CPU time of the job on the worker. */
export type CpuResult =
  | { readonly ok: true; readonly value: PreparedRequest | Reply; readonly ms: number }
  | { readonly ok: false; readonly status: number; readonly message: string }

/** Results in the order of the jobs; 'ready' when the models' tokenizer and decoder are loaded. */
export type FromCpuWorker = readonly CpuResult[] | 'ready'

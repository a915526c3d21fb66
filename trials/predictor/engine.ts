/**
 * What an engine is: the part of a predictor that holds the model and runs batches on a device.
 * The server around it speaks HTTP, prepares inputs on CPU workers and forms batches; an engine
 * only sees tensors.
 */

import type { Precision, Sharing } from '../devices/catalogue.ts'
import type { OwnDevices } from '../devices/own.ts'

/** Element types that engines take and give; the names of the Open Inference Protocol. */
export type EngineDatatype = 'FP32' | 'INT32'

/**
 * A dense row-major tensor; `data.length` is the product of `shape`, the first dimension is the
 * batch.
 */
export interface Tensor {
  readonly datatype: EngineDatatype
  readonly shape: readonly number[]
  readonly data: Float32Array | Int32Array
}

/**
 * An input or output as an engine declares it; -1 marks a dimension that varies (the first one
 * always does: the batch).
 */
export interface TensorSpec {
  readonly name: string
  readonly datatype: EngineDatatype
  readonly shape: readonly number[]
}

/** Batch tensors by the names that the engine declared. */
export type Tensors = Readonly<Record<string, Tensor>>

/**
 * Buffers worth handing over to another thread; copying smaller ones costs less. The tensors are
 * unusable here afterwards.
 */
export const largeBuffers = (tensors: Tensors): ArrayBuffer[] =>
  Object.values(tensors)
    .filter((tensor) => tensor.data.byteLength > 65_536)
    .map((tensor) => tensor.data.buffer as ArrayBuffer)

/**
 * What the server prepares for the engine.
 * - text: inputs `input_ids` and `attention_mask`, INT32 [-1, sequenceLength], padded with zeros.
 * - image: one input, FP32 [-1, height, width, 3], normalised as the decoder does it.
 * - tensor: whatever the model declares, FP32 or INT32, taken from the request as it is.
 */
export type Task = 'text' | 'image' | 'tensor'

/** What an engine says of the model it has loaded. */
export interface EngineInfo {
  readonly task: Task
  readonly inputs: readonly TensorSpec[]
  readonly outputs: readonly TensorSpec[]
  /**
   * Software that runs the model, for the model's metadata: {'tfjs': '4.22.0', 'backend': 'wasm'}.
   */
  readonly versions: Readonly<Record<string, string>>
  /** Device memory taken by context, weights and activations at the largest batch, MiB. */
  readonly memoryMiB: number
}

/** What an engine is started with; plain data, it crosses a process boundary. */
export interface EngineOptions {
  readonly model: string
  /** A user's own model: file or folder. */
  readonly modelPath?: string
  /** Largest batch the server will send. */
  readonly batchSize: number
  /** Tokens a text is padded or cut to. */
  readonly sequenceLength: number
  readonly precision: Precision
  /** Catalogue name of the GPU; undefined: CPU. */
  readonly gpu?: string
  /** The user's own GPUs and architectures, for an engine that emulates. */
  readonly own?: OwnDevices
  /** Share of the GPU that this predictor may take, in (0, 100]. */
  readonly gpuMemoryPercent: number
  /** What that share bounds. */
  readonly gpuSharing: Sharing
  /** A hardware slice of the GPU, e.g. '1g.5gb'; the share then says nothing. */
  readonly migProfile?: string
  /** Engine instances of this predictor that share the device; each holds its own weights. */
  readonly instances: number
  /**
   * Items of the batch that the engine runs before it is ready; 0: none, so that memory runs out at
   * the first batch that needs it.
   */
  readonly warmUpBatch: number
  /** Threads the engine may use for computing on CPU. */
  readonly cpuThreads: number
  /** Seeds weights (when the user gives none) and emulated outputs. */
  readonly seed: number
}

/** Share of time the device was busy and memory in use, since the engine loaded. */
export interface Utilization {
  /** Milliseconds the device has been busy since load. */
  readonly busyMs: number
  readonly memoryMiB: number
}

export interface Engine {
  readonly name: string
  /** 'emulated' when the device is a model of one; shown in every reply. */
  readonly provenance: 'measured' | 'emulated'
  /** What runs the batches, in words: 'CPU (WebAssembly SIMD)', 'NVIDIA T4 (emulated)'. */
  readonly device: string
  /** Loads the model and warms it. Rejects with OutOfMemoryError when the device cannot hold it. */
  load(): Promise<EngineInfo>
  /**
   * Runs one batch. `inputs` holds every declared input, all with the same first dimension
   * (1..batchSize). Resolves with every declared output, the first dimension that of the inputs.
   * One call at a time. Rejects with OutOfMemoryError when the batch does not fit.
   * @param sentAtMs when the server handed the batch over, on the machine's monotonic clock; only a
   * modelled device needs it.
   */
  infer(inputs: Tensors, sentAtMs: number): Promise<Tensors>
  utilization?(): Utilization
  close(): Promise<void>
}

/**
 * What an engine module (`engines/NAME.ts`) exports as `createEngine`. Cheap: all work is in
 * `load`.
 */
export type CreateEngine = (options: EngineOptions) => Engine

/**
 * The device cannot hold the model or the batch. The server ends with exit code 12 (ENOMEM), which
 * launchers read as infeasible.
 */
export class OutOfMemoryError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'OutOfMemoryError'
  }
}

/** Exit code of a predictor that ran out of device memory. */
export const outOfMemoryExitCode = 12

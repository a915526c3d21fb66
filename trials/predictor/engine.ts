/**
 * The engine interface: an engine holds the model and runs batches on a device. The server around
 * it speaks HTTP, prepares inputs on CPU workers and forms batches; an engine handles tensors only.
 */

import type { Precision, Sharing } from '../devices/catalogue.ts'
import type { CustomDevices } from '../devices/custom-devices.ts'

/** Element types of engine inputs and outputs, as named by the Open Inference Protocol. */
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
 * Buffers that are cheaper to transfer to another thread than to copy. Their tensors are unusable
 * afterwards.
 */
export const listLargeBuffers = (tensors: Tensors): ArrayBuffer[] =>
  Object.values(tensors)
    .filter((tensor) => tensor.data.byteLength > 65_536)
    .map((tensor) => tensor.data.buffer as ArrayBuffer)

/**
 * Inputs that the server prepares for the engine.
 * - text: inputs `input_ids` and `attention_mask`, INT32 [-1, sequenceLength], padded with zeros.
 * - image: one input, FP32 [-1, height, width, 3], normalised as the decoder does it.
 * - tensor: whatever the model declares, FP32 or INT32, taken from the request as it is.
 */
export type Task = 'text' | 'image' | 'tensor'

/** An engine's description of its loaded model. */
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

/** Start options of an engine; plain data, which crosses a process boundary. */
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
  readonly own?: CustomDevices
  /** Share of the GPU that this predictor may take, in (0, 100]. */
  readonly gpuMemoryPercent: number
  /** What the share bounds. */
  readonly gpuSharing: Sharing
  /** A MIG slice of the GPU, e.g. '1g.5gb'; the share is then ignored. */
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
  /** Seeds weights, if the user gives none, and emulated outputs. */
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
  /** Description of the device: 'CPU (WebAssembly SIMD)', 'NVIDIA T4 (emulated)'. */
  readonly device: string
  /** Loads the model and warms it. Rejects with OutOfMemoryError if it does not fit the device. */
  load(): Promise<EngineInfo>
  /**
   * Runs one batch. `inputs` holds every declared input, all with the same first dimension
   * (1..batchSize). Resolves with every declared output, the first dimension that of the inputs.
   * One call at a time. Rejects with OutOfMemoryError when the batch does not fit.
   * @param sentAtMs when the server sent the batch, on the machine's monotonic clock; used by
   * emulated devices only
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
 * The model or the batch does not fit the device. The server exits with code 12 (ENOMEM), which
 * launchers classify as infeasible.
 */
export class OutOfMemoryError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'OutOfMemoryError'
  }
}

/** Exit code of a predictor that ran out of device memory. */
export const outOfMemoryExitCode = 12

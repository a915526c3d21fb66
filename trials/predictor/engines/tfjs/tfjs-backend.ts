/** Chooses the TensorFlow.js backend of an engine. */
import * as tf from '@tensorflow/tfjs-core'
import type { EngineOptions } from '../../engine.ts'
import type { Pack } from '../../models/weights.ts'
import { maxWasmThreads, startWasm } from './wasm.ts'

export interface Backend {
  readonly name: 'wasm' | 'tensorflow'
  /** In words, for people. */
  readonly device: string
  /** Loads a TensorFlow SavedModel, where the backend can. */
  readonly loadSavedModel?: (path: string) => Promise<SavedModel>
  /** Frees weights of which the backend keeps a packed copy. */
  readonly pack?: Pack
  /**
   * Memory in use, MiB: of the whole process on CPU; on a GPU of its tensors, without TensorFlow's
   * pool.
   */
  memoryMiB(): number
  /** @throws errors that the last batch's kernels only printed */
  check(): void
  close(): void
}

/** The used part of tfjs-node's SavedModel (TFSavedModel). */
export interface SavedModel {
  readonly inputs: readonly SavedModelTensor[]
  readonly outputs: readonly SavedModelTensor[]
  predict(inputs: tf.NamedTensorMap): tf.NamedTensorMap | tf.Tensor
  dispose(): void
}
export interface SavedModelTensor {
  readonly name: string
  readonly dtype: string
  readonly shape?: readonly number[]
}

/** The used part of tfjs-node-gpu. */
interface NodeGpu {
  readonly node: { loadSavedModel(path: string): Promise<SavedModel> }
}

const nodeGpu = '@tensorflow/tfjs-node-gpu'

/**
 * Starts the GPU backend if the options name a GPU, else WebAssembly. Rejects if the GPU backend is
 * unavailable: there is no silent fallback to the CPU.
 */
export async function startBackend({
  gpu,
  cpuThreads,
}: Pick<EngineOptions, 'gpu' | 'cpuThreads'>): Promise<Backend> {
  if (gpu !== undefined) return startNodeGpu(gpu)
  const wasm = await startWasm(Math.min(Math.max(1, Math.floor(cpuThreads)), maxWasmThreads))
  const { threads } = wasm
  return {
    name: 'wasm',
    device: `CPU (WebAssembly SIMD, ${threads} thread${threads > 1 ? 's' : ''})`,
    pack: wasm.pack,
    memoryMiB: () => Math.round(process.memoryUsage.rss() / 2 ** 20),
    check: () => wasm.check(),
    close: () => wasm.close(),
  }
}

async function startNodeGpu(gpu: string): Promise<Backend> {
  // By default TensorFlow allocates all GPU memory at once, but instances may share a GPU.
  process.env.TF_FORCE_GPU_ALLOW_GROWTH ??= 'true'
  const library = await importNodeGpu(gpu)
  if (!(await tf.setBackend('tensorflow')))
    throw new Error(`${nodeGpu} is installed but its backend did not start`)
  // Without CUDA the library silently computes on the CPU.
  if (!(tf.backend() as { isUsingGpuDevice?: boolean }).isUsingGpuDevice)
    throw new Error(
      `${nodeGpu} finds no GPU to use for '${gpu}'; it needs the CUDA and cuDNN of TensorFlow 2.9 (CUDA 11.2, cuDNN 8.1)`,
    )
  return {
    name: 'tensorflow',
    device: `${gpu} (TensorFlow)`,
    loadSavedModel: (path) => library.node.loadSavedModel(path),
    memoryMiB: () => Math.round(tf.memory().numBytes / 2 ** 20),
    check: () => undefined,
    close: () => undefined,
  }
}

async function importNodeGpu(gpu: string): Promise<NodeGpu> {
  try {
    return (await import(nodeGpu)) as NodeGpu
  } catch (error) {
    const why = error instanceof Error ? error.message.split('\n')[0] : String(error)
    throw new Error(
      `to run on GPU '${gpu}' the tfjs engine needs ${nodeGpu}, which cannot be imported (${why}); install it with 'npm install ${nodeGpu}@4.22.0', or run on CPU`,
    )
  }
}

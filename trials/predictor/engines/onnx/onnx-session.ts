/**
 * Opens a user's ONNX file, or a graph in memory, in ONNX Runtime, which is an optional package.
 */
import type { InferenceSession } from 'onnxruntime-node'
import { type EngineOptions, OutOfMemoryError } from '../../engine.ts'
import { ModelError } from '../../models/model-registry.ts'

export type Runtime = typeof import('onnxruntime-node')

const runtimeName = 'onnxruntime-node'
const install = `install it with 'npm install ${runtimeName}@1.30.0'`

/** @throws Error with installation instructions */
export async function importRuntime(
  load: () => Promise<Runtime> = () => import('onnxruntime-node'),
): Promise<Runtime> {
  try {
    return await load()
  } catch (error) {
    const why = error instanceof Error ? error.message.split('\n')[0] : String(error)
    throw new Error(
      `the onnx engine needs ${runtimeName}, which cannot be imported (${why}); ${install}; if a CUDA toolkit is on the PATH, the installation also downloads ` +
        'the CUDA provider: set ONNXRUNTIME_NODE_INSTALL=skip to prevent that',
    )
  }
}

/**
 * Opens a session on the CPU with the configured threads and sequential execution, or on a GPU with
 * the CUDA provider, which falls back to the CPU for unsupported nodes.
 * @throws ModelError for a file that does not load, OutOfMemoryError, Error if the CUDA provider is
 * unavailable
 */
export async function openSession(
  runtime: Runtime,
  model: string | Uint8Array,
  { gpu, cpuThreads }: EngineOptions,
): Promise<InferenceSession> {
  try {
    return await runtime.InferenceSession.create(model as string, {
      executionProviders: [gpu === undefined ? 'cpu' : 'cuda'],
      intraOpNumThreads: Math.max(1, Math.floor(cpuThreads)),
      interOpNumThreads: 1,
      executionMode: 'sequential',
      graphOptimizationLevel: 'all',
      logSeverityLevel: 3,
      // Instances, the web server and its workers share the cores: spinning threads would take them
      // from each other.
      extra: { session: { intra_op: { allow_spinning: '0' } } },
    })
  } catch (error) {
    const what = error instanceof Error ? error.message : String(error)
    if (isOutOfMemory(what)) throw new OutOfMemoryError(what)
    if (gpu !== undefined && /cuda|cudnn|cublas|provider|backend/i.test(what))
      throw new Error(
        `ONNX Runtime cannot use GPU '${gpu}': ${what}; its CUDA provider needs CUDA 12 and cuDNN 9, and comes with ` +
          `'ONNXRUNTIME_NODE_INSTALL=cuda12 npm install ${runtimeName}@1.30.0'; or run on CPU`,
      )
    throw new ModelError(
      `${typeof model === 'string' ? `'${model}'` : 'the built-in graph'} does not load: ${what}`,
      'check it with onnx.checker, and export it again for an opset that ONNX Runtime 1.30 supports',
    )
  }
}

/** Recognises the messages of ONNX Runtime and CUDA. */
export const isOutOfMemory = (message: string): boolean =>
  /failed to allocate memory|out of memory|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED|bad_alloc/i.test(
    message,
  )

/** The engines of the built-in predictor, each loaded on demand. */
import type { CreateEngine } from '../engine.ts'

/** Where an engine runs, and its module, loaded on demand. */
interface EngineEntry {
  /**
   * 'process': one process per instance, each computing by itself.
   * 'thread': one thread for all instances, which take turns on one device.
   */
  readonly place: 'process' | 'thread'
  readonly load: () => Promise<{ readonly createEngine: CreateEngine }>
}

export type TensorEngineName = 'tfjs' | 'onnx' | 'emulated'

export const engines: Readonly<Record<TensorEngineName, EngineEntry>> = {
  tfjs: { place: 'process', load: () => import('./tfjs.ts') },
  onnx: { place: 'process', load: () => import('./onnx.ts') },
  emulated: { place: 'thread', load: () => import('./emulated.ts') },
}

/** `gguf` runs language models (`llm/gguf`), not batches of tensors. */
export type EngineName = TensorEngineName | 'gguf'
export const engineNames: readonly EngineName[] = [
  ...(Object.keys(engines) as TensorEngineName[]),
  'gguf',
]

/** What a model is to the engine that runs it: named tensors in, named tensors out. */
import type { NamedTensorMap } from '@tensorflow/tfjs-core'
import type { EngineInfo } from '../engine.ts'

export interface Model extends Pick<EngineInfo, 'task' | 'inputs' | 'outputs'> {
  readonly name: string
  /** Weights, count. */
  readonly parameters: number
  /** True when the weights are seeded numbers rather than trained ones. */
  readonly seeded: boolean
  /**
   * Runs one batch; the caller owns what comes back. Intermediate tensors are the caller's to tidy
   * when it returns at once.
   */
  run(inputs: NamedTensorMap): NamedTensorMap | Promise<NamedTensorMap>
  dispose(): void
}

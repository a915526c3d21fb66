/** The model interface of the tfjs engine: named tensors in, named tensors out. */
import type { NamedTensorMap } from '@tensorflow/tfjs-core'
import type { EngineInfo } from '../engine.ts'

export interface Model extends Pick<EngineInfo, 'task' | 'inputs' | 'outputs'> {
  readonly name: string
  /** Weights, count. */
  readonly parameters: number
  /** True when the weights are seeded numbers rather than trained ones. */
  readonly seeded: boolean
  /**
   * Runs one batch; the caller owns the outputs. For synchronous runs, the caller also frees
   * intermediate tensors.
   */
  run(inputs: NamedTensorMap): NamedTensorMap | Promise<NamedTensorMap>
  dispose(): void
}

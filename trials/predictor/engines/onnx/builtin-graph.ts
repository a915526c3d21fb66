/**
 * The built-in models as ONNX graphs with seeded weights, which ONNX Runtime can run on a GPU with
 * its CUDA provider.
 */

import type { EngineOptions } from '../../engine.ts'
import { resolveModel } from '../../models/model-registry.ts'
import { createConvnetGraph } from './convnet-graph.ts'
import { createEncoderGraph } from './encoder-graph.ts'

/**
 * @throws ModelError for a model that is not built in, RangeError for an unsupported sequence
 * length
 */
export function createBuiltinGraph({
  model,
  sequenceLength,
  seed,
  precision,
}: EngineOptions): Uint8Array {
  const architecture = resolveModel(model)
  const half = precision === 'fp16'
  if (architecture.kind === 'convnet') return createConvnetGraph(architecture, seed, half)
  if (sequenceLength < 2 || sequenceLength > architecture.maxSequenceLength)
    throw new RangeError(
      `sequence length ${sequenceLength} does not fit ${architecture.name}: it takes 2 to ${architecture.maxSequenceLength}`,
    )
  return createEncoderGraph(architecture, sequenceLength, seed, half)
}

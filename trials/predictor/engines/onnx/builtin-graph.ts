/**
 * The built-in models as ONNX graphs with seeded weights: what gives them a GPU where ONNX Runtime
 * has its CUDA provider.
 */
import type { EngineOptions } from '../../engine.ts'
import { resolveModel } from '../../models/model-registry.ts'
import { convnetGraph } from './convnet-graph.ts'
import { encoderGraph } from './encoder-graph.ts'

/** @throws ModelError for a model that is not built in, RangeError for a sequence length that it does not take */
export function builtinGraph({
  model,
  sequenceLength,
  seed,
  precision,
}: EngineOptions): Uint8Array {
  const architecture = resolveModel(model)
  const half = precision === 'fp16'
  if (architecture.kind === 'convnet') return convnetGraph(architecture, seed, half)
  if (sequenceLength < 2 || sequenceLength > architecture.maxSequenceLength)
    throw new RangeError(
      `sequence length ${sequenceLength} does not fit ${architecture.name}: it takes 2 to ${architecture.maxSequenceLength}`,
    )
  return encoderGraph(architecture, sequenceLength, seed, half)
}

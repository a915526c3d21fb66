/** Images of the built-in predictor, as deploy/README.md builds them. */
import type { BuiltinTemplate } from './template.ts'

/** The image for CPU; it also generates load. */
export const builtinImage = 'tune-predictor:0.1.0'

/**
 * Chooses the image for an engine: '-onnx' is built with PEERS=onnxruntime-node, '-gguf' with
 * PEERS=node-llama-cpp, '-cuda' with deploy/predictor-cuda.Dockerfile. Undefined: no image has that
 * engine with CUDA, because each engine needs another CUDA release.
 */
export function chooseBuiltinImage({
  engine,
  gpu,
}: {
  readonly engine: BuiltinTemplate['engine']
  readonly gpu: boolean
}): string | undefined {
  if (engine === 'onnx' || engine === 'gguf') return gpu ? undefined : `${builtinImage}-${engine}`
  return gpu ? `${builtinImage}-cuda` : builtinImage
}

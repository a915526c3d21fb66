/** Images of the built-in predictor, as deploy/README.md has them built. */
import type { BuiltinTemplate } from './template.ts'

/** On CPU; it makes load too. */
export const builtinImage = 'tune-predictor:0.1.0'

/**
 * The one that has what a configuration needs: '-onnx' is built with PEERS=onnxruntime-node,
 * '-gguf' with PEERS=node-llama-cpp, '-cuda' with deploy/predictor-cuda.Dockerfile. Undefined: none
 * has that engine and CUDA, for each wants a release of its own.
 */
export function builtinImageFor({
  engine,
  gpu,
}: {
  readonly engine: BuiltinTemplate['engine']
  readonly gpu: boolean
}): string | undefined {
  if (engine === 'onnx' || engine === 'gguf') return gpu ? undefined : `${builtinImage}-${engine}`
  return gpu ? `${builtinImage}-cuda` : builtinImage
}

/** Images of the built-in predictor, as deploy/README.md has them built. */

/** On CPU; it makes load too. */
export const builtinImage = 'tune-predictor:0.1.0'

/**
 * The one that has what a configuration needs: '-onnx' is built with PEERS=onnxruntime-node, '-cuda' with deploy/predictor-cuda.Dockerfile. Undefined: none
 * holds both, for they want different CUDA releases.
 */
export function builtinImageFor(needs: { readonly onnx: boolean; readonly gpu: boolean }): string | undefined {
  if (needs.onnx) return needs.gpu ? undefined : `${builtinImage}-onnx`
  return needs.gpu ? `${builtinImage}-cuda` : builtinImage
}

/** The GPU part of a deployment spec: the schemes that trials use on a cluster. */
import {
  defaultScheme,
  type GpuScheme,
  GpuSchemeError,
  type GpuSelection,
  gpuSelection as selection,
} from '../../trials/kubernetes/gpu-selection.ts'
import type { Resources } from '../../trials/resources.ts'
import { SpecError } from './serving.ts'

export {
  defaultScheme,
  type GpuScheme,
  type GpuSelection,
  gpuSchemes,
  type NodeRequirement,
  productsOf,
} from '../../trials/kubernetes/gpu-selection.ts'

/**
 * The pod's part of a GPU share under a scheme.
 * @throws SpecError when the scheme cannot give that share.
 */
export function gpuSelection(resources: Resources, scheme: GpuScheme | undefined = defaultScheme(resources)): GpuSelection {
  try {
    return selection(resources, scheme)
  } catch (error) {
    if (error instanceof GpuSchemeError) throw new SpecError(error.message, error.hint)
    throw error
  }
}

/** Deployment specs by target. */
import { composeSpec, raySpec, torchserveSpec, vllmSpec } from './frameworks.ts'
import { type KserveVariant, kserveSpec } from './kserve.ts'
import { kubedlSpec } from './kubedl.ts'
import { type KubernetesOptions, kubernetesSpec } from './kubernetes-deployment.ts'
import type { SpecFile } from './manifest.ts'
import { seldonSpec } from './seldon.ts'
import type { Serving } from './serving.ts'
import { tfservingSpec } from './tfserving-deployment.ts'
import { tritonSpec } from './triton-config.ts'

export const specTargets = [
  'kubernetes',
  'kserve',
  'seldon',
  'kubedl',
  'tfserving',
  'triton',
  'torchserve',
  'vllm',
  'ray',
  'compose',
] as const
export type SpecTarget = (typeof specTargets)[number]

export interface SpecOptions {
  /** kubernetes: how it scales. Default 'hpa'. */
  readonly autoscaler?: KubernetesOptions['autoscaler']
  /** kserve: deployment mode. Default 'standard'. */
  readonly variant?: KserveVariant
  /** Where KEDA asks for the request rate. */
  readonly prometheus?: string
  /** triton: the model's backend. */
  readonly backend?: string
  /** ray: module:variable of the application. */
  readonly importPath?: string
}

/** The files of a spec. Throws SpecError where the target cannot say what was tuned. */
export function renderSpec(target: SpecTarget, serving: Serving, options: SpecOptions = {}): SpecFile[] {
  switch (target) {
    case 'kubernetes':
      return kubernetesSpec(serving, { autoscaler: options.autoscaler ?? 'hpa', prometheus: options.prometheus })
    case 'kserve':
      return kserveSpec(serving, { variant: options.variant ?? 'standard', prometheus: options.prometheus, backend: options.backend })
    case 'seldon':
      return seldonSpec(serving, options.backend)
    case 'kubedl':
      return kubedlSpec(serving, options.backend)
    case 'tfserving':
      return tfservingSpec(serving)
    case 'triton':
      return tritonSpec(serving, options.backend)
    case 'torchserve':
      return torchserveSpec(serving)
    case 'vllm':
      return vllmSpec(serving)
    case 'ray':
      return raySpec(serving, options.importPath)
    case 'compose':
      return composeSpec(serving)
  }
}

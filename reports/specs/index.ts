/** Deployment specs by target. */
import { createSpecFile } from './provenance.ts'
import type { Serving } from './serving.ts'
import {
  checkOptions,
  checkServing,
  type SpecFile,
  type SpecOptions,
  type SpecTarget,
} from './target.ts'

/** The targets: each is one module, loaded when it is requested. */
const registry = {
  kubernetes: () => import('./targets/kubernetes.ts'),
  rollout: () => import('./targets/rollout.ts'),
  kserve: () => import('./targets/kserve.ts'),
  seldon: () => import('./targets/seldon.ts'),
  kubedl: () => import('./targets/kubedl.ts'),
  tfserving: () => import('./targets/tfserving.ts'),
  triton: () => import('./targets/triton.ts'),
  vllm: () => import('./targets/vllm.ts'),
  rayservice: () => import('./targets/rayservice.ts'),
  lws: () => import('./targets/lws.ts'),
  compose: () => import('./targets/compose.ts'),
} as const satisfies Readonly<Record<string, () => Promise<{ readonly target: SpecTarget }>>>

export type SpecTargetName = keyof typeof registry
export const specTargets = Object.keys(registry) as SpecTargetName[]

/** Targets that deploy pipelines. */
export const pipelineTargets = [
  'kubernetes',
  'kserve',
  'compose',
] as const satisfies readonly SpecTargetName[]

export const loadTarget = async (name: SpecTargetName): Promise<SpecTarget> =>
  (await registry[name]()).target

/**
 * Renders the files of a spec.
 * @throws SpecError if the target cannot deploy what was measured, or
 * cannot express what was tuned
 */
export async function renderSpec(
  name: SpecTargetName,
  serving: Serving,
  options: SpecOptions = {},
): Promise<SpecFile[]> {
  const target = await loadTarget(name)
  checkServing(target, serving)
  checkOptions(target, serving, options)
  const reachable = { ...serving, host: target.host?.(serving, options) }
  return [target.render(reachable, options)]
    .flat()
    .map((content) => createSpecFile(reachable, content))
}

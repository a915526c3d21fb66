/** Deployment specs by target. */
import type { SpecFile } from './manifest.ts'
import type { Serving } from './serving.ts'
import { checkOptions, checkServing, type SpecOptions, type SpecTarget } from './target.ts'

/** Each is one file, loaded when it is asked for. */
const registry = {
  kubernetes: () => import('./kubernetes-deployment.ts'),
  rollout: () => import('./rollout.ts'),
  kserve: () => import('./kserve.ts'),
  seldon: () => import('./seldon.ts'),
  kubedl: () => import('./kubedl.ts'),
  tfserving: () => import('./tfserving-deployment.ts'),
  triton: () => import('./triton-config.ts'),
  vllm: () => import('./vllm-script.ts'),
  rayservice: () => import('./ray-service.ts'),
  lws: () => import('./leader-worker-set.ts'),
  compose: () => import('./compose-file.ts'),
} as const satisfies Readonly<Record<string, () => Promise<{ readonly target: SpecTarget }>>>

export type SpecTargetName = keyof typeof registry
export const specTargets = Object.keys(registry) as SpecTargetName[]

/** What a target can deploy. */
export const specTarget = async (name: SpecTargetName): Promise<SpecTarget> =>
  (await registry[name]()).target

/**
 * The files of a spec. Throws SpecError where the target cannot deploy what was measured, or cannot
 * say what was tuned.
 */
export async function renderSpec(
  name: SpecTargetName,
  serving: Serving,
  options: SpecOptions = {},
): Promise<SpecFile[]> {
  const target = await specTarget(name)
  checkServing(target, serving)
  checkOptions(target, serving, options)
  return target.render({ ...serving, host: target.host?.(serving, options) }, options)
}

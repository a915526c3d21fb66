/**
 * What a cluster will be asked for, tried on its API server before the first trial: nothing is
 * made.
 */
import { defaultValue } from '../../search/space/space.ts'
import type { SearchSpace } from '../../search/types.ts'
import { type Api, ApiError } from '../../trials/launchers/kubernetes/api/api.ts'
import type { KubernetesLauncher } from '../../trials/launchers/kubernetes/kubernetes-launcher.ts'
import {
  classifyPodRefusal,
  findNamespaceError,
  type PolicyKey,
} from '../../trials/launchers/kubernetes/launch/failures.ts'
import { planLoadJob } from '../../trials/launchers/kubernetes/launch/load-run.ts'
import type { TrialObjects } from '../../trials/launchers/kubernetes/launch/planned-objects.ts'
import type { Json } from '../../trials/launchers/kubernetes/manifests/manifests.ts'
import type { PayloadMap } from '../../trials/launchers/kubernetes/manifests/payload-map.ts'
import { dryRun } from '../../trials/launchers/kubernetes/manifests/server-dry-run.ts'
import { InfeasibleError, LaunchError } from '../../trials/types.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import type { JobBase } from './load-from-inside.ts'

/** Stands for the owner in objects that are checked and not made. */
const checkOwner = { name: 'tune-check', uid: 'check' }

/**
 * Has the API server check every kind of object that trials are made of, so that a typo, a policy
 * or a quota costs no trial.
 * @param job absent where load does not come from inside the cluster
 * @throws UserError naming the fields that the server does not know; LaunchError where a policy or
 * a quota refuses, ApiError for what else it refuses
 */
export async function checkObjects(
  launcher: KubernetesLauncher,
  space: SearchSpace,
  job?: JobBase,
  files?: PayloadMap,
): Promise<void> {
  await dryRun(
    launcher.api,
    `/apis/batch/v1/namespaces/${launcher.api.namespace}/jobs`,
    launcher.ownerPlan('tune-check-lease'),
  ).catch((error: Error) => {
    throw findNamespaceError(error.message) ?? error
  })
  const pods = smallestPods(launcher, space)
  const load = job && loadPodOf(job)
  const unknown = [
    ...(await unknownInPods(launcher, pods)),
    ...(load ? await unknownInJob(launcher, load) : []),
  ]
  if (unknown.length > 0)
    throw new UserError(
      `the API server does not know ${[...new Set(unknown)].join(', ')}`,
      'correct kubernetes.pod',
      exitCodes.usage,
    )
  await refuseUnplaceable(launcher, pods, load?.pod)
  if (files)
    await dryRun(
      launcher.api,
      `/api/v1/namespaces/${launcher.api.namespace}/configmaps`,
      files.body(checkOwner),
    )
}

/**
 * The smallest predictor with each GPU model of the space. A model that the cluster's scheme cannot
 * give is left to its trials, which are infeasible.
 */
function smallestPods(launcher: KubernetesLauncher, { parameters }: SearchSpace): TrialObjects[] {
  const smallest = Object.fromEntries(
    parameters.map((parameter) => [parameter.name, defaultValue(parameter)]),
  )
  const gpu = parameters.find(({ name }) => name === 'gpu')
  const models = gpu?.kind === 'categorical' ? gpu.values : [undefined]
  return models.flatMap((model) => {
    try {
      const configuration = { ...smallest, ...(model !== undefined && { gpu: model }) }
      return launcher.objectsFor(configuration, 0, checkOwner, 'tune-check')
    } catch (error) {
      if (error instanceof InfeasibleError) return []
      throw error
    }
  })
}

/** @throws what a policy or a quota has against them, but for what is too large alone */
async function unknownInPods(
  { api }: KubernetesLauncher,
  objects: readonly TrialObjects[],
): Promise<string[]> {
  const unknown: string[] = []
  for (const { pod, secret, claimTemplate, service } of objects) {
    try {
      for (const field of await tryPod(api, pod, 'kubernetes.pod')) unknown.push(`pod ${field}`)
      if (secret !== undefined)
        await dryRun(api, `/api/v1/namespaces/${api.namespace}/secrets`, secret)
      if (service !== undefined)
        await dryRun(api, `/api/v1/namespaces/${api.namespace}/services`, service)
      if (claimTemplate === undefined) continue
      const path = `/apis/${claimTemplate.apiVersion}/namespaces/${api.namespace}/resourceclaimtemplates`
      for (const field of await dryRun(api, path, claimTemplate))
        unknown.push(`resource claim template ${field}`)
    } catch (error) {
      if (!(error instanceof InfeasibleError)) throw error
    }
  }
  return unknown
}

/** @throws LaunchError where not even the smallest predictor of any GPU model can have a place */
async function refuseUnplaceable(
  launcher: KubernetesLauncher,
  objects: readonly TrialObjects[],
  load: Json | undefined,
): Promise<void> {
  let reason: string | undefined
  for (const { pod } of objects) {
    reason = await launcher.explainUnschedulable(pod, load)
    if (reason === undefined) return
  }
  if (reason !== undefined)
    throw new LaunchError(
      `the cluster cannot place any trial, not even the smallest: ${reason}`,
      'correct the search space, kubernetes.pod or the quota; if an autoscaler adds nodes without reporting it, set kubernetes.scaleUpTimeout',
    )
}

/** A load Job, and the pod that the cluster would make of it. */
function loadPodOf(job: JobBase): { readonly job: Json; readonly pod: Json } {
  const body = planLoadJob(
    { ...job, trial: 0, owner: checkOwner, task: '{}', deadlineS: 60 },
    'tune-check-load',
  )
  const { metadata, spec } = (body.spec as { template: Json }).template as {
    metadata: Json
    spec: Json
  }
  const named = { ...metadata, name: 'tune-check-load' }
  return { job: body, pod: { apiVersion: 'v1', kind: 'Pod', metadata: named, spec } }
}

async function unknownInJob(
  { api }: KubernetesLauncher,
  { job, pod }: ReturnType<typeof loadPodOf>,
): Promise<string[]> {
  const fields = await dryRun(api, `/apis/batch/v1/namespaces/${api.namespace}/jobs`, job)
  // Policies and quotas look at pods, and the server makes none of a Job that is only tried.
  await tryPod(api, pod, 'kubernetes.job')
  return fields.map((field) => `job ${field}`)
}

/** @returns fields that the server does not know @throws what a policy or a quota has against the pod, and what to change; any other error as it is */
async function tryPod(api: Api, pod: Json, key: PolicyKey): Promise<string[]> {
  try {
    return await dryRun(api, `/api/v1/namespaces/${api.namespace}/pods`, pod)
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 403) throw error
    const refusal = classifyPodRefusal(error, key)
    throw refusal.kind === 'final'
      ? refusal.error
      : new LaunchError(
          refusal.what,
          'the quota of the namespace is used up: free some of it, or raise it',
        )
  }
}

/**
 * Dry runs of all objects of a run on the API server before the first trial. Nothing is created.
 */
import { getDefaultValue } from '../../search/space/space.ts'
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
import { requestDryRun } from '../../trials/launchers/kubernetes/manifests/server-dry-run.ts'
import { InfeasibleError, LaunchError } from '../../trials/types.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import type { JobBase } from './cluster-load.ts'

/** Placeholder owner of objects in dry runs. */
const dryRunOwner = { name: 'tune-check', uid: 'check' }

/**
 * Has the API server check every object of a trial, so that a typo, a policy or a quota costs no
 * trial.
 * @param job absent if the load does not come from inside the cluster
 * @throws UserError with the fields that the server does not know; LaunchError if a policy or quota
 * refuses; ApiError for other refusals
 */
export async function dryRunObjects(
  launcher: KubernetesLauncher,
  space: SearchSpace,
  job?: JobBase,
  files?: PayloadMap,
): Promise<void> {
  await requestDryRun(
    launcher.api,
    `/apis/batch/v1/namespaces/${launcher.api.namespace}/jobs`,
    launcher.ownerPlan('tune-check-lease'),
  ).catch((error: Error) => {
    throw findNamespaceError(error.message) ?? error
  })
  const trials = renderSmallestTrials(launcher, space)
  const load = job && renderLoadJob(job)
  const unknown = [
    ...(await findUnknownPodFields(launcher, trials.flat())),
    ...(load ? await findUnknownJobFields(launcher, load) : []),
  ]
  if (unknown.length > 0)
    throw new UserError(
      `the API server does not know ${[...new Set(unknown)].join(', ')}`,
      'correct kubernetes.pod',
      exitCodes.usage,
    )
  await requirePlaceable(launcher, trials, load?.pod)
  if (files)
    await requestDryRun(
      launcher.api,
      `/api/v1/namespaces/${launcher.api.namespace}/configmaps`,
      files.body(dryRunOwner),
    )
}

/**
 * Objects of the smallest predictor on each GPU model of the space, for a pipeline on each model of
 * every stage. Models that the cluster cannot provide are skipped: their trials are infeasible.
 */
function renderSmallestTrials(
  launcher: KubernetesLauncher,
  { parameters }: SearchSpace,
): (readonly TrialObjects[])[] {
  const smallest = Object.fromEntries(
    parameters.map((parameter) => [parameter.name, getDefaultValue(parameter)]),
  )
  const gpus = parameters.flatMap((parameter) =>
    parameter.kind === 'categorical' && /(^|\.)gpu$/.test(parameter.name) ? [parameter] : [],
  )
  const count = Math.max(1, ...gpus.map(({ values }) => values.length))
  return Array.from({ length: count }, (_, i) =>
    Object.fromEntries(
      gpus.map(({ name, values }) => [name, values[Math.min(i, values.length - 1)]!]),
    ),
  ).flatMap((models) => {
    try {
      return [launcher.objectsFor({ ...smallest, ...models }, 0, dryRunOwner, 'tune-check')]
    } catch (error) {
      if (error instanceof InfeasibleError) return []
      throw error
    }
  })
}

/** @throws the refusal of a policy or quota, except that a pod is too large */
async function findUnknownPodFields(
  { api }: KubernetesLauncher,
  objects: readonly TrialObjects[],
): Promise<string[]> {
  const unknown: string[] = []
  for (const { pod, secret, claimTemplate, service } of objects) {
    try {
      for (const field of await dryRunPod(api, pod, 'kubernetes.pod')) unknown.push(`pod ${field}`)
      if (secret !== undefined)
        await requestDryRun(api, `/api/v1/namespaces/${api.namespace}/secrets`, secret)
      if (service !== undefined)
        await requestDryRun(api, `/api/v1/namespaces/${api.namespace}/services`, service)
      if (claimTemplate === undefined) continue
      const path = `/apis/${claimTemplate.apiVersion}/namespaces/${api.namespace}/resourceclaimtemplates`
      for (const field of await requestDryRun(api, path, claimTemplate))
        unknown.push(`resource claim template ${field}`)
    } catch (error) {
      if (!(error instanceof InfeasibleError)) throw error
    }
  }
  return unknown
}

/** @throws LaunchError if not even the smallest predictor can be scheduled */
async function requirePlaceable(
  launcher: KubernetesLauncher,
  trials: readonly (readonly TrialObjects[])[],
  load: Json | undefined,
): Promise<void> {
  let reason: string | undefined
  for (const objects of trials) {
    reason = await launcher.explainUnschedulable(
      objects.map(({ pod }) => pod),
      load,
    )
    if (reason === undefined) return
  }
  if (reason !== undefined)
    throw new LaunchError(
      `the cluster cannot place any trial, not even the smallest: ${reason}`,
      'correct the search space, kubernetes.pod or the quota; if an autoscaler adds nodes without reporting it, set kubernetes.scaleUpTimeout',
    )
}

/** Renders a load Job, and the pod that the cluster would make of it. */
function renderLoadJob(job: JobBase): { readonly job: Json; readonly pod: Json } {
  const body = planLoadJob(
    { ...job, trial: 0, owner: dryRunOwner, task: '{}', deadlineS: 60 },
    'tune-check-load',
  )
  const { metadata, spec } = (body.spec as { template: Json }).template as {
    metadata: Json
    spec: Json
  }
  const podMetadata = { ...metadata, name: 'tune-check-load' }
  return { job: body, pod: { apiVersion: 'v1', kind: 'Pod', metadata: podMetadata, spec } }
}

async function findUnknownJobFields(
  { api }: KubernetesLauncher,
  { job, pod }: ReturnType<typeof renderLoadJob>,
): Promise<string[]> {
  const fields = await requestDryRun(api, `/apis/batch/v1/namespaces/${api.namespace}/jobs`, job)
  // Policies and quotas apply to pods, and a dry run of a Job creates none.
  await dryRunPod(api, pod, 'kubernetes.job')
  return fields.map((field) => `job ${field}`)
}

/**
 * @returns fields that the server does not know
 * @throws the refusal of a policy or quota with a hint; other errors unchanged
 */
async function dryRunPod(api: Api, pod: Json, key: PolicyKey): Promise<string[]> {
  try {
    return await requestDryRun(api, `/api/v1/namespaces/${api.namespace}/pods`, pod)
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

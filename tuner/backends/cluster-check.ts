/**
 * What a cluster will be asked for, tried on its API server before the first trial: nothing is
 * made.
 */
import { defaultValue } from '../../search/space.ts'
import type { SearchSpace } from '../../search/types.ts'
import { type Api, ApiError } from '../../trials/launchers/kubernetes/api.ts'
import {
  namespaceGone,
  type PolicyKey,
  podRefused,
} from '../../trials/launchers/kubernetes/failures.ts'
import type { KubernetesLauncher } from '../../trials/launchers/kubernetes/kubernetes-launcher.ts'
import { loadJobOf } from '../../trials/launchers/kubernetes/load-run.ts'
import type { Json } from '../../trials/launchers/kubernetes/manifests.ts'
import type { PayloadMap } from '../../trials/launchers/kubernetes/payload-map.ts'
import { dryRun } from '../../trials/launchers/kubernetes/server-dry-run.ts'
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
    throw namespaceGone(error.message) ?? error
  })
  const unknown = [
    ...(await unknownInPods(launcher, space)),
    ...(job ? await unknownInJob(launcher, job) : []),
  ]
  if (unknown.length > 0)
    throw new UserError(
      `the API server does not know ${[...new Set(unknown)].join(', ')}`,
      'correct kubernetes.pod',
      exitCodes.usage,
    )
  if (files)
    await dryRun(
      launcher.api,
      `/api/v1/namespaces/${launcher.api.namespace}/configmaps`,
      files.body(checkOwner),
    )
}

/**
 * One pod for each GPU model of the space. A model that the cluster's scheme cannot give is left to
 * its trials, which are infeasible.
 */
async function unknownInPods(
  launcher: KubernetesLauncher,
  { parameters }: SearchSpace,
): Promise<string[]> {
  const { api } = launcher
  const middle = Object.fromEntries(
    parameters.map((parameter) => [parameter.name, defaultValue(parameter)]),
  )
  const gpu = parameters.find(({ name }) => name === 'gpu')
  const unknown: string[] = []
  for (const model of gpu?.kind === 'categorical' ? gpu.values : [undefined]) {
    try {
      const configuration = { ...middle, ...(model !== undefined && { gpu: model }) }
      const { pod, secret, claimTemplate, service } = launcher.objectsFor(
        configuration,
        0,
        checkOwner,
        'tune-check',
      )
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

async function unknownInJob({ api }: KubernetesLauncher, job: JobBase): Promise<string[]> {
  const body = loadJobOf(
    { ...job, trial: 0, owner: checkOwner, task: '{}', deadlineS: 60 },
    'tune-check-load',
  )
  const fields = await dryRun(api, `/apis/batch/v1/namespaces/${api.namespace}/jobs`, body)
  // Policies and quotas look at pods, and the server makes none of a Job that is only tried.
  const { metadata, spec } = (body.spec as { template: Json }).template as {
    metadata: Json
    spec: Json
  }
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { ...metadata, name: 'tune-check-load' },
    spec,
  }
  await tryPod(api, pod, 'kubernetes.job')
  return fields.map((field) => `job ${field}`)
}

/** @returns fields that the server does not know @throws what a policy or a quota has against the pod, and what to change; any other error as it is */
async function tryPod(api: Api, pod: Json, key: PolicyKey): Promise<string[]> {
  try {
    return await dryRun(api, `/api/v1/namespaces/${api.namespace}/pods`, pod)
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 403) throw error
    const refusal = podRefused(error, key)
    throw refusal.kind === 'final'
      ? refusal.error
      : new LaunchError(
          refusal.what,
          'the quota of the namespace is used up: free some, or raise it',
        )
  }
}

/**
 * A Deployment on its way: until all its pods are the new ones and ready, or what keeps them from
 * it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { V1Pod } from '@kubernetes/client-node'
import { type Api, ApiError } from '../../../trials/launchers/kubernetes/api.ts'
import { existingObject, objectPath } from '../../../trials/launchers/kubernetes/field-manager.ts'
import { podState } from '../../../trials/launchers/kubernetes/pod-state.ts'
import { UserError } from '../../exit-codes.ts'
import { canaryLabel, canaryName, type DeploymentObject } from './canary-objects.ts'

const lookMs = 1000

/** Pods that a label selector finds, and that are not on their way out. */
export async function livePods(
  api: Api,
  labelSelector: string,
  signal: AbortSignal,
): Promise<readonly V1Pod[]> {
  const path = `/api/v1/namespaces/${api.namespace}/pods`
  const { items } = await api.request<{ readonly items: readonly V1Pod[] }>('GET', path, {
    query: { labelSelector },
    signal,
  })
  return items.filter(({ metadata }) => metadata?.deletionTimestamp === undefined)
}

export const isReady = ({ status }: V1Pod): boolean =>
  status?.podIP !== undefined &&
  status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true

/**
 * Why a pod will not serve, or has stopped to; undefined while it may. Lost pods are the cluster's
 * doing, and come again.
 */
export function podTrouble(pod: V1Pod): string | undefined {
  for (const { name } of pod.spec?.containers ?? []) {
    const state = podState(pod, name)
    if (state.kind === 'ended')
      return `${pod.metadata?.name}: container ${name} ended with exit code ${state.code}${state.outOfMemory ? ' (OOMKilled)' : ''}${state.message ? `: ${state.message.trim()}` : ''}`
    if (state.kind === 'broken' && state.final) return `${pod.metadata?.name}: ${state.what}`
  }
  return undefined
}

const waitsFor = (pods: readonly V1Pod[]): string => {
  for (const pod of pods) {
    const state = podState(pod, pod.spec?.containers[0]?.name ?? '')
    if (state.kind === 'unschedulable') return `: ${state.why}`
    if (state.kind === 'broken') return `: ${state.what}`
  }
  return pods.some((pod) => !isReady(pod)) ? ': its readiness probe does not succeed' : ''
}

/** Whether every replica is of the present template and available. */
export const isRolledOut = ({ metadata, spec, status }: DeploymentObject): boolean => {
  const replicas = spec.replicas ?? 1
  return (
    (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0) &&
    (status?.updatedReplicas ?? 0) === replicas &&
    (status?.replicas ?? 0) === replicas &&
    (status?.availableReplicas ?? 0) === replicas
  )
}

/**
 * Undefined once it is rolled out; else why it is not and will not be.
 * @param pods finds those of the new template
 */
export async function rolledOut(
  api: Api,
  name: string,
  pods: (signal: AbortSignal) => Promise<readonly V1Pod[]>,
  signal: AbortSignal,
): Promise<string | undefined> {
  for (;;) {
    const deployment = await existingObject<DeploymentObject>(api, 'Deployment', name, signal)
    if (deployment === undefined) return `Deployment ${name} was removed`
    const now = await pods(signal)
    const trouble = now.map(podTrouble).find((one) => one !== undefined)
    if (trouble !== undefined) return trouble
    if (isRolledOut(deployment)) return undefined
    const { conditions = [], observedGeneration = 0 } = deployment.status ?? {}
    if (observedGeneration >= (deployment.metadata.generation ?? 0)) {
      const late = conditions.find(
        ({ type, reason }) => type === 'Progressing' && reason === 'ProgressDeadlineExceeded',
      )
      const refused = conditions.find(
        ({ type, status }) => type === 'ReplicaFailure' && status === 'True',
      )
      if (late)
        return `${late.message ?? 'it made no progress in time'}${refused?.message ? `: ${refused.message}` : waitsFor(now)}`
    }
    await sleep(lookMs, undefined, { signal })
  }
}

/**
 * The canary beside a Deployment, if there is one. @throws UserError where what has its name is
 * somebody else's
 */
export async function existingCanary(
  api: Api,
  deployment: string,
  signal: AbortSignal,
): Promise<DeploymentObject | undefined> {
  const name = canaryName(deployment)
  const found = await existingObject<DeploymentObject>(api, 'Deployment', name, signal)
  if (found !== undefined && found.metadata.labels?.[canaryLabel] !== deployment)
    throw new UserError(
      `there is a Deployment ${name} in namespace ${api.namespace} that tune did not make`,
      'a canary would take its name: rename it',
    )
  return found
}

/** Resolves once there is no canary, and none of its pods. */
export async function removeCanary(
  api: Api,
  deployment: string,
  signal: AbortSignal,
): Promise<void> {
  if ((await existingCanary(api, deployment, signal)) !== undefined)
    await api
      .request('DELETE', objectPath(api, 'Deployment', canaryName(deployment)), {
        query: { propagationPolicy: 'Foreground' },
        signal,
      })
      .catch((error: unknown) => {
        if (!(error instanceof ApiError) || error.status !== 404) throw error
      })
  while (
    (await livePods(api, ofCanary(deployment), signal)).length > 0 ||
    (await existingCanary(api, deployment, signal)) !== undefined
  )
    await sleep(lookMs / 2, undefined, { signal })
}

/** Selects the canary's pods. */
export const ofCanary = (deployment: string): string => `${canaryLabel}=${deployment}`

/** Creates and removes the objects of a trial: its pod, Secret, Service and claim template. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { V1Pod } from '@kubernetes/client-node'
import { LaunchError, type OnWaiting } from '../../../types.ts'
import { type Api, ApiError } from '../api/api.ts'
import { graceSeconds, type Json } from '../manifests/manifests.ts'
import type { PodWatch } from '../watch/pod-watch.ts'
import { listPlacedPredictors, willOtherTrialsFreeQuota } from '../watch/trial-pods.ts'
import { classifyPodRefusal } from './failures.ts'

/** How long to wait for a removal; longer than the renewal of a watch. */
const removalTimeoutMs = 20_000

/**
 * Creates an object of the trial other than its pod.
 * @throws ApiError
 */
export const createObject = (
  api: Api,
  kind: 'resourceclaimtemplates' | 'secrets' | 'services' | 'configmaps',
  body: Json,
  signal?: AbortSignal,
): Promise<unknown> => {
  const group = body.apiVersion === 'v1' ? '/api/v1' : `/apis/${body.apiVersion}`
  return api.request('POST', `${group}/namespaces/${api.namespace}/${kind}`, { body, signal })
}

/** Creates a ConfigMap unless one of that name exists. */
export async function createConfigMap(api: Api, body: Json, signal?: AbortSignal): Promise<void> {
  await createObject(api, 'configmaps', body, signal).catch((error: unknown) => {
    if (!(error instanceof ApiError) || error.reason !== 'AlreadyExists') throw error
  })
}

interface PodCreation {
  readonly trial: number
  /** How long to wait for a quota that only foreign pods use, ms. */
  readonly maxForeignQuotaMs: number
  readonly signal: AbortSignal
  readonly onWaiting?: OnWaiting
}

/**
 * Waits while running pods use up the quota.
 * @throws LaunchError, InfeasibleError
 */
export async function createPod(
  api: Api,
  watch: PodWatch,
  body: Json,
  { trial, maxForeignQuotaMs, signal, onWaiting }: PodCreation,
): Promise<void> {
  const startedMs = performance.now()
  await watch.events.begin()
  for (let attempt = 1; ; attempt++) {
    try {
      watch.record(
        await api.request<V1Pod>('POST', `/api/v1/namespaces/${api.namespace}/pods`, {
          body,
          signal,
        }),
      )
      return
    } catch (error) {
      signal.throwIfAborted()
      const refusal = classifyPodRefusal(
        error,
        'kubernetes.pod',
        listPlacedPredictors(watch, trial),
      )
      if (refusal.kind === 'final') throw refusal.error
      const maxMs = willOtherTrialsFreeQuota(watch, trial) ? maxOwnQuotaMs : maxForeignQuotaMs
      if (performance.now() - startedMs > maxMs) {
        throw new LaunchError(
          refusal.what,
          'other pods use up the quota of the namespace: free some of it, or raise it',
          undefined,
          'run',
          true,
        )
      }
      // The quota counts an ended pod for a moment longer: report later.
      if (attempt === 3) onWaiting?.(`quota: ${refusal.what}`, 'room')
      await sleep(1_000, undefined, { signal }).catch(() => signal.throwIfAborted())
    }
  }
}

/** How long to wait while trials of the same experiment use up a quota, ms. */
const maxOwnQuotaMs = 10 * 60_000

/**
 * Ends a pod and waits until it is gone. Nodes take seconds to release an ended pod, so the object
 * is force-deleted once its containers have ended.
 * @throws ApiError if the server rejects the deletion; LaunchError if the pod remains
 */
export async function removePod(api: Api, watch: PodWatch, name: string): Promise<void> {
  watch.events.forget(name)
  const path = `/api/v1/namespaces/${api.namespace}/pods/${name}`
  const remove = (gracePeriodSeconds: number) =>
    api.request('DELETE', path, { query: { gracePeriodSeconds } }).then(
      () => true,
      (error) => {
        if (error instanceof ApiError && error.status === 404) return false
        throw error
      },
    )
  const statuses = () => watch.get(name)?.status?.containerStatuses ?? []
  const runs = () => statuses().some(({ state }) => state?.running)
  if (runs()) {
    if (!(await remove(graceSeconds))) return
    // A lost node never reports the end: force-delete anyway.
    await waitForCondition(watch, () => !runs())
  }
  if (!(await remove(0)) || (await waitForCondition(watch, () => watch.get(name) === undefined)))
    return
  throw new LaunchError(
    `pod ${name} cannot be removed`,
    `kubectl -n ${api.namespace} describe pod ${name}`,
  )
}

/** Whether the condition became true in time. */
async function waitForCondition(watch: PodWatch, holds: () => boolean): Promise<boolean> {
  const timeouts = AbortSignal.timeout(removalTimeoutMs)
  try {
    return await watch.until(() => (holds() ? true : undefined), timeouts)
  } catch (error) {
    if (!timeouts.aborted) throw error
    return false
  }
}

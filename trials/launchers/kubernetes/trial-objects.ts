/** Creates and removes the objects of a trial: its pod, Secret, Service and claim template. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { V1Pod } from '@kubernetes/client-node'
import { LaunchError, type OnWaiting } from '../../types.ts'
import { type Api, ApiError } from './api.ts'
import { podRefused } from './failures.ts'
import { graceSeconds, type Json } from './manifests.ts'
import type { PodWatch } from './pod-watch.ts'

/** Longer than a watch may be silent. */
const removalMs = 20_000

/** Creates an object of the trial beside its pod. @throws ApiError */
export const createObject = (
  api: Api,
  kind: 'resourceclaimtemplates' | 'secrets' | 'services' | 'configmaps',
  body: Json,
  signal?: AbortSignal,
): Promise<unknown> => {
  const group = body.apiVersion === 'v1' ? '/api/v1' : `/apis/${body.apiVersion}`
  return api.request('POST', `${group}/namespaces/${api.namespace}/${kind}`, { body, signal })
}

/** Makes a ConfigMap, unless one of that name is there. */
export async function createConfigMap(api: Api, body: Json, signal?: AbortSignal): Promise<void> {
  await createObject(api, 'configmaps', body, signal).catch((error: unknown) => {
    if (!(error instanceof ApiError) || error.reason !== 'AlreadyExists') throw error
  })
}

interface PodCreation {
  /** How long to wait for a quota that no pod of this experiment uses, ms. */
  readonly othersMs: number
  readonly signal: AbortSignal
  readonly onWaiting?: OnWaiting
}

/** Waits while running pods use up the quota. @throws LaunchError, InfeasibleError */
export async function createPod(
  api: Api,
  watch: PodWatch,
  body: Json,
  { othersMs, signal, onWaiting }: PodCreation,
): Promise<void> {
  const startedMs = performance.now()
  await watch.events.begin()
  for (let attempt = 1; ; attempt++) {
    try {
      watch.note(
        await api.request<V1Pod>('POST', `/api/v1/namespaces/${api.namespace}/pods`, {
          body,
          signal,
        }),
      )
      return
    } catch (error) {
      signal.throwIfAborted()
      const refusal = podRefused(error)
      if (refusal.kind === 'final') throw refusal.error
      const maxMs = watch.all().length === 0 ? othersMs : quotaMs
      if (performance.now() - startedMs > maxMs) {
        throw new LaunchError(
          refusal.what,
          'other pods use up the quota of the namespace: free some of it, or raise it',
          undefined,
          'run',
          true,
        )
      }
      // The quota counts a pod that has just ended for a moment longer.
      if (attempt === 3) onWaiting?.(`quota: ${refusal.what}`, 'room')
      await sleep(1_000, undefined, { signal }).catch(() => signal.throwIfAborted())
    }
  }
}

/** How long trials of the same experiment may use a quota up, ms. */
const quotaMs = 10 * 60_000

/**
 * Ends a pod and waits until it is gone. A node takes seconds to let go of a pod whose containers
 * have ended: the object is removed ahead of that.
 * @throws ApiError when the server does not take it; LaunchError when it is still there long after
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
    // A node that is lost never says so: then it is removed all the same.
    await waitFor(watch, () => !runs())
  }
  if (!(await remove(0)) || (await waitFor(watch, () => watch.get(name) === undefined))) return
  throw new LaunchError(
    `pod ${name} cannot be removed`,
    `kubectl -n ${api.namespace} describe pod ${name}`,
  )
}

/** Whether the condition held in time. */
async function waitFor(watch: PodWatch, holds: () => boolean): Promise<boolean> {
  const patience = AbortSignal.timeout(removalMs)
  try {
    return await watch.until(() => (holds() ? true : undefined), patience)
  } catch (error) {
    if (!patience.aborted) throw error
    return false
  }
}

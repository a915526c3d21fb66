/** Finds and removes the objects of experiments on a cluster, by their labels. */
import { setTimeout as sleep } from 'node:timers/promises'
import { LaunchError } from '../../../types.ts'
import { type Api, ApiError } from '../api/api.ts'
import { findDraVersion } from '../gpus/dra.ts'
import { graceSeconds, labelNames, manager } from '../manifests/manifests.ts'

const apiGroups = {
  pods: '/api/v1',
  configmaps: '/api/v1',
  jobs: '/apis/batch/v1',
  leases: '/apis/coordination.k8s.io/v1',
} as const
export type Kind = keyof typeof apiGroups | 'resourceclaimtemplates'
/**
 * Secrets and Services are removed by name, never listed: permission to list Secrets would reveal
 * all of a namespace. Those of a killed tuner go with the Job that owns them.
 */
type Removable = Kind | 'secrets' | 'services'

/** API path of a kind; undefined if the server lacks it. */
async function findKindPath(api: Api, kind: Removable): Promise<string | undefined> {
  if (kind === 'secrets' || kind === 'services')
    return `/api/v1/namespaces/${api.namespace}/${kind}`
  if (kind !== 'resourceclaimtemplates')
    return `${apiGroups[kind]}/namespaces/${api.namespace}/${kind}`
  const version = await findDraVersion(api)
  return version && `/apis/resource.k8s.io/${version}/namespaces/${api.namespace}/${kind}`
}

export interface FoundObject {
  readonly kind: Kind
  readonly name: string
  readonly experiment: string
  /** ISO 8601. */
  readonly createdAt: string
}

interface ObjectList {
  readonly items: readonly {
    readonly metadata: {
      readonly name: string
      readonly creationTimestamp: string
      readonly labels?: Record<string, string>
    }
  }[]
}

/** Finds the tuner's objects by a label selector. */
export async function findObjects(
  api: Api,
  selector: string,
  kinds: readonly Kind[],
  signal?: AbortSignal,
): Promise<FoundObject[]> {
  const lists = await Promise.all(
    kinds.map(async (kind) => {
      const path = await findKindPath(api, kind)
      if (path === undefined) return []
      const labelSelector = [`${labelNames.managedBy}=${manager}`, selector]
        .filter(Boolean)
        .join(',')
      const { items } = await api
        .request<ObjectList>('GET', path, { query: { labelSelector }, signal })
        .catch((error: unknown): ObjectList => {
          // Without permission to list claim templates, this tuner created none; others go with
          // their owner.
          if (
            kind === 'resourceclaimtemplates' &&
            error instanceof ApiError &&
            error.status === 403
          )
            return { items: [] }
          throw error
        })
      return items.map(({ metadata }) => ({
        kind,
        name: metadata.name,
        experiment: metadata.labels?.[labelNames.experiment] ?? '',
        createdAt: metadata.creationTimestamp,
      }))
    }),
  )
  return lists.flat()
}

interface Removal {
  /** Names of objects that are not removed. */
  readonly keep?: ReadonlySet<string>
  /** In the order of removal: Jobs before their pods, which they would recreate. */
  readonly kinds: readonly Kind[]
  readonly signal?: AbortSignal
}

/** Deletion is repeated after this many rounds, about every 10 s. */
const roundsPerDeletion = 40
/** Time until deleted objects must be gone, ms. Assumed. */
const removalTimeoutMs = 60_000

/**
 * Deletes objects and waits until they are gone.
 * @throws ApiError; LaunchError for objects that remain
 */
export async function removeObjects(
  api: Api,
  selector: string,
  { keep = new Set(), kinds, signal }: Removal,
): Promise<void> {
  const deadlineMs = performance.now() + removalTimeoutMs
  for (let round = 0; ; round++) {
    const objects = (await findObjects(api, selector, kinds, signal)).filter(
      ({ name }) => !keep.has(name),
    )
    if (objects.length === 0) return
    if (performance.now() > deadlineMs) {
      throw new LaunchError(
        `cannot remove ${objects.map(({ kind, name }) => `${kind}/${name}`).join(', ')} in namespace ${api.namespace}`,
      )
    }
    if (round % roundsPerDeletion === 0)
      for (const object of objects) await removeObject(api, object, signal)
    await sleep(Math.min(250, 20 * 2 ** round), undefined, { signal })
  }
}

export async function removeObject(
  api: Api,
  { kind, name }: { readonly kind: Removable; readonly name: string },
  signal?: AbortSignal,
): Promise<void> {
  const path = await findKindPath(api, kind)
  if (path === undefined) return
  try {
    await api.request('DELETE', `${path}/${name}`, {
      query: {
        propagationPolicy: 'Background',
        ...(kind === 'pods' && { gracePeriodSeconds: graceSeconds }),
      },
      signal,
    })
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error
  }
}

/**
 * Objects that serve on a cluster, changed by server-side apply: fields that another manager holds
 * are named, and taken only from those that the user names.
 */
import { type Api, ApiError } from './api.ts'
import { type Json, manager } from './manifests.ts'

const groups = {
  Deployment: '/apis/apps/v1',
  ConfigMap: '/api/v1',
  HorizontalPodAutoscaler: '/apis/autoscaling/v2',
} as const

/** Kinds that are changed. */
export type AppliedKind = keyof typeof groups
export const isAppliedKind = (kind: unknown): kind is AppliedKind =>
  typeof kind === 'string' && kind in groups

export const objectPath = (api: Api, kind: AppliedKind, name: string): string =>
  `${groups[kind]}/namespaces/${api.namespace}/${kind.toLowerCase()}s/${name}`

/** Undefined where there is no such object, or the server has no such kind. */
export const existingObject = async <T>(
  api: Api,
  kind: AppliedKind,
  name: string,
  signal?: AbortSignal,
): Promise<T | undefined> => {
  try {
    return await api.request<T>('GET', objectPath(api, kind, name), { signal })
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined
    throw error
  }
}

interface ApplyOptions {
  /** The server says what would become of it, and changes nothing. */
  readonly dryRun?: boolean
  /** Field managers that may lose fields to `tune`. */
  readonly takeOver?: readonly string[]
  readonly signal?: AbortSignal
}

/** Others hold fields that would change. */
export class FieldConflict extends Error {
  constructor(
    message: string,
    readonly managers: readonly string[],
  ) {
    super(message)
    this.name = 'FieldConflict'
  }
}

/** As the server has it then. @throws FieldConflict, ApiError, the signal's reason */
export async function applyObject(
  api: Api,
  object: Json,
  { dryRun, takeOver = [], signal }: ApplyOptions,
): Promise<Json> {
  const { name } = object.metadata as { readonly name: string }
  const send = (force: boolean) =>
    api.request<Json>('PATCH', objectPath(api, object.kind as AppliedKind, name), {
      patch: 'apply',
      body: object,
      query: {
        fieldManager: manager,
        force,
        fieldValidation: 'Strict',
        ...(dryRun && { dryRun: 'All' }),
      },
      signal,
    })
  try {
    return await send(false)
  } catch (error) {
    const managers =
      error instanceof ApiError && error.status === 409 ? conflictingManagers(error.message) : []
    if (managers.length === 0) throw error
    // What was put back by a patch is `tune`'s too, under another operation.
    const others = managers.filter((one) => one !== manager && !takeOver.includes(one))
    if (others.length > 0) throw new FieldConflict((error as ApiError).message, others)
    return await send(true)
  }
}

/**
 * 'Apply failed with 1 conflict: conflict with "kubectl" using apps/v1: .spec.replicas' → kubectl
 */
export const conflictingManagers = (message: string): string[] => [
  ...new Set([...message.matchAll(/conflicts? with "([^"]+)"/g)].map(([, name]) => name!)),
]

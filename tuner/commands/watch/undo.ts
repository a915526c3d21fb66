/** Takes a change of objects back, field by field, where nobody has changed them since. */
import { isDeepStrictEqual } from 'node:util'
import { type Api, ApiError } from '../../../trials/launchers/kubernetes/api.ts'
import { type AppliedKind, existingObject, objectPath } from '../../../trials/launchers/kubernetes/field-manager.ts'
import { type Json, manager } from '../../../trials/launchers/kubernetes/manifests.ts'

/** A field of an object before and after a change. Plain data, JSON-safe; null: it was not there. */
export interface Undoing {
  readonly kind: AppliedKind
  readonly name: string
  readonly path: readonly string[]
  readonly before: unknown
  readonly after: unknown
}

const at = (object: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>((inner, key) => (inner as Json | undefined)?.[key], object) ?? null

/** Those of these fields that a change makes different. @param before undefined: the object is made by the change, and stays */
export const undoing = (kind: AppliedKind, paths: readonly (readonly string[])[], before: Json | undefined, after: Json): Undoing[] =>
  before === undefined
    ? []
    : paths
        .map((path) => ({
          kind,
          name: (after.metadata as { readonly name: string }).name,
          path,
          before: at(before, path),
          after: at(after, path),
        }))
        .filter((one) => !isDeepStrictEqual(one.before, one.after))

/** What could not be put back, a sentence each. @throws ApiError, the signal's reason */
export async function undo(api: Api, changes: readonly Undoing[], signal: AbortSignal): Promise<readonly string[]> {
  const left: string[] = []
  for (const { kind, name, path, before, after } of changes) {
    const what = `${kind} ${name}: ${path.join('.')}`
    const live = await existingObject<Json>(api, kind, name, signal)
    const now = at(live, path)
    if (live === undefined) left.push(`${kind} ${name} is not there any more`)
    else if (isDeepStrictEqual(now, before)) continue
    else if (!isDeepStrictEqual(now, after) || !(await putBack(api, { kind, name, path, before, after }, signal)))
      left.push(`${what} was changed by somebody else since, and is left so`)
  }
  return left
}

/** False where it is not what it was a moment ago. */
async function putBack(api: Api, { kind, name, path, before, after }: Undoing, signal: AbortSignal): Promise<boolean> {
  const pointer = path.map((key) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
  const body = [
    { op: 'test', path: pointer, value: after },
    before === null ? { op: 'remove', path: pointer } : { op: 'add', path: pointer, value: before },
  ]
  try {
    await api.request('PATCH', objectPath(api, kind, name), { patch: 'operations', body, query: { fieldManager: manager }, signal })
    return true
  } catch (error) {
    if (error instanceof ApiError && (error.status === 422 || error.status === 409)) return false
    throw error
  }
}

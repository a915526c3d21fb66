/** Takes a change of objects back, field by field, where nobody has changed them since. */
import { isDeepStrictEqual } from 'node:util'
import { type Api, ApiError } from '../../../trials/launchers/kubernetes/api.ts'
import {
  type AppliedKind,
  existingObject,
  objectPath,
} from '../../../trials/launchers/kubernetes/field-manager.ts'
import { type Json, manager } from '../../../trials/launchers/kubernetes/manifests.ts'

/**
 * A field of an object before and after a change. Plain data, JSON-safe; null: it was not there.
 */
export interface Undoing {
  readonly kind: AppliedKind
  readonly name: string
  readonly path: readonly string[]
  readonly before: unknown
  readonly after: unknown
}

const at = (object: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>((inner, key) => (inner as Json | undefined)?.[key], object) ?? null

/**
 * Those of these fields that a change makes different. @param before undefined: the object is made
 * by the change, and stays
 */
export const undoing = (
  kind: AppliedKind,
  paths: readonly (readonly string[])[],
  before: Json | undefined,
  after: Json,
): Undoing[] =>
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
export async function undo(
  api: Api,
  changes: readonly Undoing[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const left: string[] = []
  for (const change of changes) {
    const why = await putBack(api, change, signal)
    if (why !== undefined) left.push(why)
  }
  return left
}

/** The status of an object changes all the time, and each such change is another version of it. */
const mostTries = 20

/** Why it is left as it is; undefined where it is as before. */
async function putBack(
  api: Api,
  { kind, name, path, before, after }: Undoing,
  signal: AbortSignal,
): Promise<string | undefined> {
  const pointer = path.map((key) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
  for (let tries = 1; ; tries++) {
    const live = await existingObject<Json>(api, kind, name, signal)
    if (live === undefined) return `${kind} ${name} is not there any more`
    const now = at(live, path)
    if (isDeepStrictEqual(now, before)) return undefined
    if (!isDeepStrictEqual(now, after))
      return `${kind} ${name}: ${path.join('.')} was changed by somebody else since, and is left so`
    // Of this version and no other. A test of the value itself fails on servers that compare how
    // strings are escaped.
    const { resourceVersion } = live.metadata as { readonly resourceVersion: string }
    const body = [
      { op: 'replace', path: '/metadata/resourceVersion', value: resourceVersion },
      before === null
        ? { op: 'remove', path: pointer }
        : { op: 'add', path: pointer, value: before },
    ]
    try {
      await api.request('PATCH', objectPath(api, kind, name), {
        patch: 'operations',
        body,
        query: { fieldManager: manager },
        signal,
      })
      return undefined
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 409 || tries === mostTries) throw error
    }
  }
}

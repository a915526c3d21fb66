/**
 * Fields of an object that a manager has by server-side apply: what it must apply again, lest they
 * are taken away.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Json } from './manifests.ts'

interface ManagedFields {
  readonly manager?: string
  readonly operation?: string
  readonly subresource?: string
  readonly fieldsV1?: Json
}

/**
 * The object as that manager last applied it, with the values that it has now; undefined where it
 * never did.
 */
export function ownedFields(object: Json, manager: string): Json | undefined {
  const { managedFields = [], name } = object.metadata as {
    readonly managedFields?: readonly ManagedFields[]
    readonly name: string
  }
  const entry = managedFields.find(
    (one) => one.manager === manager && one.operation === 'Apply' && !one.subresource,
  )
  if (entry?.fieldsV1 === undefined) return undefined
  const { metadata, ...fields } = owned(object, entry.fieldsV1) as Json
  return {
    apiVersion: object.apiVersion,
    kind: object.kind,
    ...fields,
    metadata: { ...(metadata as Json | undefined), name },
  }
}

/**
 * `fields` as in FieldsV1: 'f:NAME' a field, 'k:{...}' an item of a list by its keys, 'v:VALUE' an
 * item of a set, '.' the value itself; empty: all that is in it.
 */
function owned(value: unknown, fields: Json): unknown {
  const keys = Object.keys(fields)
  if (keys.length === 0) return value
  const of = (inner: unknown, key: string) => owned(inner, fields[key] as Json)
  if (Array.isArray(value))
    return keys.flatMap((key) => {
      if (key.startsWith('v:')) return [JSON.parse(key.slice(2)) as unknown]
      if (!key.startsWith('k:')) return []
      const by = JSON.parse(key.slice(2)) as Json
      const item = (value as Json[]).find((one) =>
        Object.entries(by).every(([name, is]) => isDeepStrictEqual(one[name], is)),
      )
      return item === undefined ? [] : [{ ...by, ...(of(item, key) as Json) }]
    })
  const parts = keys
    .filter((key) => key.startsWith('f:'))
    .map((key) => [key.slice(2), key, (value as Json | undefined)?.[key.slice(2)]] as const)
    .filter(([, , inner]) => inner !== undefined)
  return Object.fromEntries(parts.map(([name, key, inner]) => [name, of(inner, key)]))
}

/** Lists that server-side apply merges by a key; others are replaced whole. */
export const mergedBy: Readonly<Record<string, string>> = {
  containers: 'name',
  initContainers: 'name',
  env: 'name',
}

/** Two appliable objects in one: what both have, as the second has it. */
export function laidOnto(first: unknown, second: unknown, field = ''): unknown {
  const by = mergedBy[field]
  if (Array.isArray(first) && Array.isArray(second) && by !== undefined) {
    const others = (second as Json[]).filter(
      (item) => !(first as Json[]).some((one) => one[by] === item[by]),
    )
    return [
      ...(first as Json[]).map((item) =>
        laidOnto(
          item,
          (second as Json[]).find((one) => one[by] === item[by]),
        ),
      ),
      ...others,
    ]
  }
  if (second === undefined) return first
  if (!isObject(first) || !isObject(second)) return second
  return Object.fromEntries(
    [...new Set([...Object.keys(first), ...Object.keys(second)])].map((name) => [
      name,
      laidOnto(first[name], second[name], name),
    ]),
  )
}

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

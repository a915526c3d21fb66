/** Kubernetes objects as data, and YAML of them. */
import { stringify } from 'yaml'

export type Manifest = Readonly<Record<string, unknown>>

/**
 * A copy without fields that are undefined, so that a manifest can be written with optional fields.
 */
export const removeUndefined = <Data>(data: Data): Data => JSON.parse(JSON.stringify(data))

/** A list or an object as an optional field: undefined if it is empty. */
export const omitEmpty = <Part extends object>(part: Part): Part | undefined =>
  Object.keys(part).length > 0 ? part : undefined

/** Numbers in strings come out quoted, as quantities must. */
export const formatYaml = (data: unknown): string =>
  stringify(removeUndefined(data), { lineWidth: 0, version: '1.1' })

/**
 * Formats a document for each object.
 * @param namespace of every object; undefined: none is named
 */
export const formatManifests = (
  objects: readonly Manifest[],
  namespace: string | undefined,
): string =>
  objects
    .map((object) =>
      formatYaml({ ...object, metadata: { ...(object.metadata as Manifest), namespace } }),
    )
    .join('---\n')

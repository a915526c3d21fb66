/** Data of a manifest, and paths into it. */
export type Plain =
  | string
  | number
  | boolean
  | null
  | readonly Plain[]
  | { readonly [key: string]: Plain }
export type Path = readonly (string | number)[]

export const isPlainObject = (
  value: Plain | undefined,
): value is { readonly [key: string]: Plain } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Undefined where the path leads nowhere. */
export function valueAt(value: Plain | undefined, path: Path): Plain | undefined {
  return path.reduce<Plain | undefined>((inner, key) => {
    if (typeof inner !== 'object' || inner === null || !Object.hasOwn(inner, key)) return undefined
    return (inner as { readonly [key: string]: Plain })[key]
  }, value)
}

/** An empty list for anything else. */
export const listAt = (value: Plain | undefined, path: Path): readonly Plain[] => {
  const found = valueAt(value, path)
  return Array.isArray(found) ? found : []
}

/** No names for anything else. */
export const entriesAt = (value: Plain | undefined, path: Path): [string, Plain][] => {
  const found = valueAt(value, path)
  return isPlainObject(found) ? Object.entries(found) : []
}

/**
 * A copy with the value at a path; a whole number makes a list where there is none. Undefined
 * removes a named value.
 */
export function withValue(present: Plain | undefined, path: Path, value: Plain | undefined): Plain {
  const [key, ...rest] = path
  if (key === undefined) return value as Plain
  if (typeof key === 'number') {
    const list = Array.isArray(present) ? [...(present as Plain[])] : []
    list[key] = withValue(list[key], rest, value)
    return list
  }
  const named = isPlainObject(present) ? present : {}
  if (rest.length > 0 || value !== undefined)
    return { ...named, [key]: withValue(named[key], rest, value) }
  const { [key]: _, ...others } = named
  return others
}

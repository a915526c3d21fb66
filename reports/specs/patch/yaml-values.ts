/** Data of a manifest, and paths into it. */
export type YamlValue =
  | string
  | number
  | boolean
  | null
  | readonly YamlValue[]
  | { readonly [key: string]: YamlValue }
export type Path = readonly (string | number)[]

export const isYamlMap = (
  value: YamlValue | undefined,
): value is { readonly [key: string]: YamlValue } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Gets the value at a path; undefined if the path leads nowhere. */
export function getValueAt(value: YamlValue | undefined, path: Path): YamlValue | undefined {
  return path.reduce<YamlValue | undefined>((inner, key) => {
    if (typeof inner !== 'object' || inner === null || !Object.hasOwn(inner, key)) return undefined
    return (inner as { readonly [key: string]: YamlValue })[key]
  }, value)
}

/** Lists the list at a path; empty if there is none. */
export const listAt = (value: YamlValue | undefined, path: Path): readonly YamlValue[] => {
  const found = getValueAt(value, path)
  return Array.isArray(found) ? found : []
}

/** Names and values of the map at a path; empty if there is none. */
export const listEntriesAt = (value: YamlValue | undefined, path: Path): [string, YamlValue][] => {
  const found = getValueAt(value, path)
  return isYamlMap(found) ? Object.entries(found) : []
}

/**
 * A copy with the value at a path; a whole number makes a list where there is none. Undefined
 * removes a named value.
 */
export function setValueAt(
  present: YamlValue | undefined,
  path: Path,
  value: YamlValue | undefined,
): YamlValue {
  const [key, ...rest] = path
  if (key === undefined) return value as YamlValue
  if (typeof key === 'number') {
    const list = Array.isArray(present) ? [...(present as YamlValue[])] : []
    list[key] = setValueAt(list[key], rest, value)
    return list
  }
  const named = isYamlMap(present) ? present : {}
  if (rest.length > 0 || value !== undefined)
    return { ...named, [key]: setValueAt(named[key], rest, value) }
  const { [key]: _, ...others } = named
  return others
}

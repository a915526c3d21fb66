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
  const list = getValueAt(value, path)
  return Array.isArray(list) ? list : []
}

/** Lists the names and values of the map at a path; empty if there is none. */
export const listEntriesAt = (value: YamlValue | undefined, path: Path): [string, YamlValue][] => {
  const map = getValueAt(value, path)
  return isYamlMap(map) ? Object.entries(map) : []
}

/**
 * Copies a value with another value at a path; a whole number creates a list. Undefined
 * removes a named value.
 */
export function setValueAt(
  current: YamlValue | undefined,
  path: Path,
  value: YamlValue | undefined,
): YamlValue {
  const [key, ...rest] = path
  if (key === undefined) return value as YamlValue
  if (typeof key === 'number') {
    const list = Array.isArray(current) ? [...(current as YamlValue[])] : []
    list[key] = setValueAt(list[key], rest, value)
    return list
  }
  const currentMap = isYamlMap(current) ? current : {}
  if (rest.length > 0 || value !== undefined)
    return { ...currentMap, [key]: setValueAt(currentMap[key], rest, value) }
  const { [key]: _, ...others } = currentMap
  return others
}

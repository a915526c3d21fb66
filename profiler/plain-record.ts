/** Whether a value is a JSON object: no list, and not null. */
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Selects the strings of a list; empty for another value. */
export const selectStrings = (list: unknown): string[] =>
  Array.isArray(list) ? list.filter((value) => typeof value === 'string') : []

/** Selects the strings of one field in a list of records; empty for another value. */
export const pluckStrings = (name: string, list: unknown): string[] =>
  selectStrings(
    Array.isArray(list) ? list.map((row) => (isRecord(row) ? row[name] : undefined)) : undefined,
  )

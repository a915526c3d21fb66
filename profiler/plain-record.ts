/** Whether a value is an object of named values: no list, and not null. */
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The texts of a list; none where it is no list. */
export const textsIn = (list: unknown): string[] =>
  Array.isArray(list) ? list.filter((one) => typeof one === 'string') : []

/** The texts under a name in a list of records; none where it is no list. */
export const textsAt = (name: string, list: unknown): string[] =>
  textsIn(
    Array.isArray(list) ? list.map((one) => (isRecord(one) ? one[name] : undefined)) : undefined,
  )

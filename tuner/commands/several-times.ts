/** Reads a flag that may be given several times: all its values, in order. */
export const severalTimes = (value: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  value,
]

/**
 * A command as it runs on the cores of a list like `0,1` alone, by taskset (Linux); as it is where
 * no list is given.
 */
export const onCores = (
  cores: string | undefined,
  command: readonly [string, ...string[]],
): [string, ...string[]] =>
  cores === undefined ? [...command] : ['taskset', '-c', cores, ...command]

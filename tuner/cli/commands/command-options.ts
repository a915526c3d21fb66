/** Helpers for flags that several commands share. */
import { Option } from 'commander'
import { defaults } from '../../config/names.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'

/**
 * The value, if it is allowed.
 * @throws UserError with the allowed values
 */
export function parseChoice<T extends string>(
  value: string,
  allowed: readonly T[],
  flag: string,
): T {
  const match = allowed.find((a) => a === value)
  if (match === undefined)
    throw new UserError(
      `${flag}: unknown value ${value}`,
      `use one of ${allowed.join(', ')}`,
      exitCodes.usage,
    )
  return match
}

/** Collects the values of a repeatable flag in order. */
export const collectValues = (value: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  value,
]

/** Creates the flag `--db`; its default is TUNE_DB, as for runs. */
export const createStoreOption = (what = 'trial store (SQLite)'): Option =>
  new Option('--db <file>', what).default(process.env.TUNE_DB || defaults.db)

import { exitCodes, UserError } from '../exit-codes.ts'

/** The value, if it is one of those allowed. @throws UserError naming them. */
export function oneOf<T extends string>(value: string, allowed: readonly T[], flag: string): T {
  const found = allowed.find((a) => a === value)
  if (found === undefined)
    throw new UserError(
      `${flag}: unknown value ${value}`,
      `use one of ${allowed.join(', ')}`,
      exitCodes.usage,
    )
  return found
}

/** Reports damaged rows of a store. */
import type { Damage } from '../trials/store/index.ts'

const toStderr = (line: string): void => {
  process.stderr.write(`${line}\n`)
}

/**
 * Prints each damaged row that is left out, and once what to do about it.
 * @param say prints a line; default: to stderr
 */
export function createDamageReporter(
  path: string,
  say: (line: string) => void = toStderr,
): (damage: Damage) => void {
  let first = true
  return ({ where, what }) => {
    say(`tune: left out damaged data in ${path}: ${where}: ${what}`)
    if (first)
      say(
        `  hint: tune store check --db ${path} lists all damage; tune store backup NEW --db ${path} copies the rest into a new file`,
      )
    first = false
  }
}

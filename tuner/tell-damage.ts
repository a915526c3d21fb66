/** What of a store is damaged, told to whoever listens. */
import type { Damage } from '../trials/store/index.ts'

const toStderr = (line: string): void => {
  process.stderr.write(`${line}\n`)
}

/**
 * Says what of a store is left out, and once what to do about it. @param say what becomes of a
 * line, default stderr
 */
export function tellDamage(
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

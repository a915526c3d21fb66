/** What of a store is damaged, told on stderr. */
import type { Damage } from '../trials/store/index.ts'

/** Says what of a store is left out, and once what to do about it. */
export function tellDamage(path: string): (damage: Damage) => void {
  let first = true
  return ({ where, what }) => {
    process.stderr.write(`tune: damaged in ${path} and left out: ${where}: ${what}\n`)
    if (first)
      process.stderr.write(
        `  hint: tune store check --db ${path} names all; tune store repair --db ${path} makes a sound file of the rest\n`,
      )
    first = false
  }
}

/** The file of figures that the gate compares with. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import type { Cases, GateFigures } from './types.ts'

/** Enough to tell two runs apart, few enough to read. */
const digits = 6

/** Empty if there is no file. */
export const readBaseline = (file: string): GateFigures =>
  existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {}

/** Readings as the file has them, in the order of their names. */
export const roundCases = (cases: Cases): Cases =>
  Object.fromEntries(
    Object.keys(cases)
      .sort()
      .map((name) => [
        name,
        Object.fromEntries(
          Object.entries(cases[name]!).map(([reading, value]) => [
            reading,
            Number(value.toPrecision(digits)),
          ]),
        ),
      ]),
  )

/** @throws Error where the file has one of these parts, unless forced */
export function refuseToReplace(file: string, parts: readonly string[], force: boolean): void {
  const known = readBaseline(file)
  const there = parts.filter((part) => known[part] !== undefined)
  if (there.length > 0 && !force)
    throw new Error(
      `${file} has figures of ${there.join(', ')}: --force replaces them, and with them what every later version is judged by`,
    )
}

/**
 * Writes figures beside those of other parts that the file has.
 * @throws as refuseToReplace
 */
export function writeBaseline(file: string, figures: GateFigures, force: boolean): void {
  refuseToReplace(file, Object.keys(figures), force)
  writeFileSync(file, `${JSON.stringify({ ...readBaseline(file), ...figures }, null, 2)}\n`)
}

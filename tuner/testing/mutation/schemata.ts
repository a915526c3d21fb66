/**
 * Mutant schemata (Untch, Offutt and Harrold, ISSTA 1993): one source that holds all its mutants,
 * each behind a switch.
 */
import type { Analysis } from './operators.ts'

/**
 * @param first number of the first mutant; the others follow in order.
 * @returns the source in which `$switched(number)` chooses between each mutant and what stood
 * there.
 */
export function schemata(source: string, { mutants, statements }: Analysis, first: number): string {
  const places = new Map<string, { start: number; end: number; alternatives: string[] }>()
  for (const [i, mutant] of mutants.entries()) {
    const { at, value } = mutant.read ?? { at: [mutant], value: mutant.replacement }
    for (const { start, end } of at) {
      const key = `${start}-${end}`
      const place = places.get(key) ?? { start, end, alternatives: [] }
      place.alternatives.push(`$switched(${first + i})?(${value}):`)
      places.set(key, place)
    }
  }
  // Outer places first, so that at one position the outer opens before the inner and closes after
  // it.
  const outerFirst = [...places.values()].sort((a, b) => a.start - b.start || b.end - a.end)
  const opening = new Map<number, string>()
  const closing = new Map<number, string>()
  for (const { start, end, alternatives } of outerFirst) {
    opening.set(
      start,
      `${opening.get(start) ?? (statements.has(start) ? ';' : '')}(${alternatives.join('')}`,
    )
    closing.set(end, `)${closing.get(end) ?? ''}`)
  }
  let result = ''
  for (let at = 0; at <= source.length; at++)
    result += (closing.get(at) ?? '') + (opening.get(at) ?? '') + (source[at] ?? '')
  return `const $switched = globalThis.mutation.switched;${result}`
}

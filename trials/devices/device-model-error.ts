/**
 * A GPU, architecture, precision or slice that cannot be modelled as asked: the user's input is at
 * fault.
 */
export class DeviceModelError extends Error {
  /** Wrong input: the command line's exit code for usage. */
  readonly exitCode = 2

  constructor(
    message: string,
    readonly hint?: string,
    /** What cannot be had, where a decision depends on it. */
    readonly kind?: 'no-such-gpu',
  ) {
    super(hint === undefined ? message : `${message}; ${hint}`)
    this.name = 'DeviceModelError'
  }
}

/**
 * "did you mean X, Y?" for a name that is not among the known ones; lists every known name when
 * none is close.
 */
export function namesNear(name: string, known: readonly string[]): string {
  const near = closest(name, known)
  return near.length > 0 ? `did you mean ${near.join(', ')}?` : `known: ${known.join(', ')}`
}

const mostLetters = 100

/**
 * Up to four known names that share a prefix with the name or lie within a third of its length in
 * edits, nearest first.
 */
export function closest(name: string, known: readonly string[]): string[] {
  // No name is so long, and the time goes with the product of the lengths.
  const wanted = plain(name.slice(0, mostLetters)).slice(0, mostLetters)
  return known
    .map((candidate) => ({ candidate, distance: nearness(wanted, plain(candidate)) }))
    .filter(({ distance }) => distance <= Math.max(1, Math.floor(wanted.length / 3)))
    .sort((a, b) => a.distance - b.distance)
    .slice(0, 4)
    .map(({ candidate }) => candidate)
}

const plain = (name: string) => name.toLowerCase().replace(/[^a-z0-9]/g, '')

const nearness = (a: string, b: string) =>
  a.length > 1 && (b.startsWith(a) || a.startsWith(b)) ? 0.5 : editDistance(a, b)

/**
 * Edits between two texts, a swap of neighbours counting as one: optimal string alignment distance.
 */
function editDistance(a: string, b: string): number {
  let above: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const substituted = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      const swapped = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? above[j - 2]! + 1 : Infinity
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, substituted, swapped))
    }
    above = row
    row = next
  }
  return row[b.length]!
}

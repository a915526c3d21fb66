/** Compares an output that a page shows with what a command printed. Pure. */

/** Stands for any number of words in an output that is shown. */
const elision = '...'

/**
 * What a page shows and a command did not print; undefined if they agree. Figures, identifiers
 * and line breaks may differ, for they change with the seed, the machine and the terminal.
 */
export function findDifference(shown: string, printed: string): string | undefined {
  const said = maskWords(printed)
  const parts = splitAt(elision, maskWords(shown))
  let from = 0
  for (const [i, part] of parts.entries()) {
    const isFirst = i === 0
    const isLast = i === parts.length - 1
    const at = findPart(said, part, from, isFirst, isLast)
    if (at === undefined) return `not printed: ${describePart(said, part, from)}`
    from = at + part.length
  }
  return undefined
}

/**
 * Lines of an output of a real run whose first word was not printed at all. What a real run prints
 * depends on the machine, so that no more can be compared.
 */
export function findUnknownLines(shown: string, printed: string): string[] {
  const known = new Set(maskWords(printed))
  return shown.split('\n').filter((line) => {
    const [first] = maskWords(line)
    return first !== undefined && first !== elision && !known.has(first)
  })
}

/** Words with what changes from run to run masked. */
function maskWords(text: string): string[] {
  return text
    .replaceAll(/#token=[\w.-]+/g, '')
    .replaceAll(/-[0-9a-f]{4}(?:[0-9a-f]{4})?\b/g, '-ID')
    .replaceAll(/\d+(?:[.,:]\d+)*/g, '#')
    .replaceAll(/# (?:min|h) (?=# (?:s|min)\b)/g, '')
    .replaceAll(/# min\b/g, '# s')
    .split(/\s+/)
    .filter((word) => word !== '')
}

function splitAt(mark: string, words: readonly string[]): string[][] {
  const parts: string[][] = [[]]
  for (const word of words)
    if (word === mark) parts.push([])
    else parts.at(-1)!.push(word)
  return parts
}

/** The first place of these words from there on: at the very start or end where they must be. */
function findPart(
  said: readonly string[],
  part: readonly string[],
  from: number,
  isFirst: boolean,
  isLast: boolean,
): number | undefined {
  const lastStart = said.length - part.length
  const starts =
    isFirst && isLast && lastStart !== 0 ? [] : isFirst ? [0] : isLast ? [lastStart] : undefined
  const isAt = (start: number) => start >= from && part.every((word, i) => said[start + i] === word)
  if (starts) return starts.find(isAt)
  for (let start = from; start <= lastStart; start++) if (isAt(start)) return start
  return undefined
}

/** The part as far as it was printed, and what was shown instead of what came then. */
function describePart(said: readonly string[], part: readonly string[], from: number): string {
  let [best, length] = [from, 0]
  for (let start = from; start < said.length; start++) {
    let i = 0
    while (i < part.length && said[start + i] === part[i]) i++
    if (i > length) [best, length] = [start, i]
  }
  const shown = part.slice(Math.max(0, length - 5), length + 8).join(' ')
  const printed = said.slice(best + Math.max(0, length - 5), best + length + 8).join(' ')
  return `"${shown}", but "${printed}"`
}

/** Which mutants there are, and which tests come near each source. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { type Analysis, analyse, type Mutant } from './operators.ts'
import { decisions, equivalents, type NamedMutant, named } from './scope.ts'

export interface NumberedMutant extends Mutant {
  /** From 1, over all sources. */
  readonly number: number
  readonly file: string
  readonly name?: string
}

export interface MutatedSource {
  readonly file: string
  readonly analysis: Analysis
  /** The first mutant's number. */
  readonly first: number
  readonly mutants: readonly NumberedMutant[]
}

const isSource = (file: string) =>
  /\.tsx?$/.test(file) && !/\.(test|bench|contract|k8s-test)\.tsx?$|\/(bench|testing)\//.test(file)

/** Sources of the decisions, each folder without its subfolders, as they are listed one by one. */
function decisionSources(root: string): string[] {
  return decisions.flatMap((place) =>
    statSync(join(root, place)).isFile()
      ? [place]
      : readdirSync(join(root, place), { withFileTypes: true })
          .filter((entry) => entry.isFile() && isSource(`${place}/${entry.name}`))
          .map((entry) => `${place}/${entry.name}`),
  )
}

/**
 * Named faults that do not stand once in their source, and equivalent mutants whose expression is
 * gone from it: their entries in scope.ts are to be mended.
 */
export function strayEntries(root: string): string[] {
  const timesIn = ({ file, original }: Pick<NamedMutant, 'file' | 'original'>) =>
    existsSync(join(root, file))
      ? readFileSync(join(root, file), 'utf8').split(original).length - 1
      : 0
  return [
    ...named.filter((entry) => timesIn(entry) !== 1),
    ...equivalents.filter((entry) => timesIn(entry) === 0),
  ].map(({ file, original }) => `${file}: ${original}`)
}

/**
 * All mutants of the decisions whose path begins with one of `only`, numbered. Throws when an entry
 * of scope.ts has lost its expression.
 */
export function mutatedSources(root: string, only: readonly string[]): MutatedSource[] {
  const stray = strayEntries(root)
  if (stray.length > 0)
    throw new Error(
      `entries of tuner/testing/mutation/scope.ts that no longer stand (named ones: once) in their source:\n${stray.join('\n')}`,
    )
  let next = 1
  const sources: MutatedSource[] = []
  for (const file of decisionSources(root).filter(
    (f) => only.length === 0 || only.some((prefix) => f.startsWith(prefix)),
  )) {
    const text = readFileSync(join(root, file), 'utf8')
    const { statements, mutants: found } = analyse(text)
    const own = named
      .filter((n) => n.file === file)
      .map((n) => ({ ...placeOf(text, n), name: n.name }))
    const analysis = { statements, mutants: [...found, ...own] }
    const first = next
    const mutants = analysis.mutants.map((mutant) => ({ ...mutant, file, number: next++ }))
    sources.push({ file, analysis, first, mutants })
  }
  return sources
}

function placeOf(text: string, { original, replacement }: NamedMutant): Mutant {
  const start = text.indexOf(original)
  return {
    start,
    end: start + original.length,
    line: text.slice(0, start).split('\n').length,
    original,
    replacement,
    kind: 'named',
  }
}

/** Whether a mutant is known to change nothing. */
export const isEquivalent = (mutant: NumberedMutant): boolean =>
  equivalents.some(
    (e) =>
      e.file === mutant.file &&
      e.original === mutant.original &&
      e.replacement === mutant.replacement,
  )

/** For each source, the test files that import it, with the length of the shortest way. */
export function distances(
  root: string,
  tests: readonly string[],
  sources: readonly string[],
): Map<string, Map<string, number>> {
  const imports = new Map<string, string[]>()
  const importsOf = (file: string): string[] => {
    let found = imports.get(file)
    if (!found) {
      found = [
        ...readFileSync(join(root, file), 'utf8').matchAll(
          /(?:\bfrom|\bimport)\s*\(?\s*['"](\.[^'"]+)['"]/g,
        ),
      ]
        .map(([, from]) => relative(root, resolve(root, dirname(file), from!)))
        .filter((target) => /\.tsx?$/.test(target) && existsSync(join(root, target)))
      imports.set(file, found)
    }
    return found
  }
  const wanted = new Set(sources)
  const result = new Map(sources.map((file) => [file, new Map<string, number>()]))
  for (const test of tests) {
    let ring = [test]
    const seen = new Set(ring)
    for (let distance = 0; ring.length > 0; distance++) {
      for (const file of ring) if (wanted.has(file)) result.get(file)!.set(test, distance)
      ring = [...new Set(ring.flatMap(importsOf))].filter((file) => !seen.has(file))
      for (const file of ring) seen.add(file)
    }
  }
  return result
}

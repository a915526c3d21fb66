/**
 * Mutation testing of the decision code: `npm run mutation -- [--only PATH]... [--sample N] [--seed
 * S] [--budget SECONDS] [--steps N] [--survivors]`. Faults are put into the sources one at a time;
 * the share that the pure tests notice is the score, by folder. Exit code 1 below 85 % or when a
 * named fault lives. A mutant gets `--budget` seconds of tests, quick ones before slow ones and the
 * nearest first, from files that import its source over at most `--steps` others: what a test far
 * away would notice by chance, or one that takes longer, does not count. With `--tests` only files
 * whose path holds one of these texts are asked: a lower bound, in a part of the time.
 */

import { createHash } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type Fate, fatesOf } from './fates.ts'
import { isEquivalent, mutatedSources, type NumberedMutant } from './plan.ts'
import { decisions } from './scope.ts'

const leastScore = 0.85

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true, default: [] },
    sample: { type: 'string' },
    seed: { type: 'string', default: '1' },
    budget: { type: 'string', default: '2' },
    steps: { type: 'string', default: '2' },
    tests: { type: 'string', multiple: true, default: [] },
    survivors: { type: 'boolean', default: false },
  },
})

const root = fileURLToPath(new URL('../../..', import.meta.url))
const sources = mutatedSources(root, values.only)
const all = sources.flatMap((source) => source.mutants).filter((mutant) => !isEquivalent(mutant))
const chosen = values.sample === undefined ? all : sampled(all, Number(values.sample), values.seed)
console.error(`${chosen.length} of ${all.length} mutants in ${sources.length} sources`)
const fates = await fatesOf(root, sources, chosen, {
  budgetS: Number(values.budget),
  steps: Number(values.steps),
  tests: values.tests,
})
print(chosen, fates)

/** The same mutants for the same seed and text, wherever they stand. */
function sampled(
  mutants: readonly NumberedMutant[],
  count: number,
  seed: string,
): NumberedMutant[] {
  const rank = ({ file, start, end, replacement }: NumberedMutant) =>
    createHash('sha256').update([seed, file, start, end, replacement].join('\0')).digest('hex')
  return mutants
    .map((mutant) => ({ mutant, rank: mutant.name ? '' : rank(mutant) }))
    .sort((a, b) => (a.rank < b.rank ? -1 : 1))
    .slice(0, count)
    .map(({ mutant }) => mutant)
}

function print(mutants: readonly NumberedMutant[], fates: ReadonlyMap<number, Fate>): void {
  const fate = (mutant: NumberedMutant) => fates.get(mutant.number) ?? 'unreached'
  const dead = (mutant: NumberedMutant) => fate(mutant) === 'killed' || fate(mutant) === 'endless'
  const percent = (some: readonly NumberedMutant[]) =>
    `${((100 * some.filter(dead).length) / some.length).toFixed(1)} %`
  const of = (place: string) =>
    mutants.filter(
      ({ file }) =>
        file === place ||
        (file.startsWith(`${place}/`) && !file.slice(place.length + 1).includes('/')),
    )
  console.log('| decisions | mutants | killed | endless | survived | reached by no test | score |')
  console.log('|---|---|---|---|---|---|---|')
  const row = (name: string, some: readonly NumberedMutant[]) => {
    const count = (wanted: Fate) => some.filter((mutant) => fate(mutant) === wanted).length
    const counts = [
      some.length,
      count('killed'),
      count('endless'),
      count('survived'),
      count('unreached'),
    ]
    console.log(`| ${name} | ${counts.join(' | ')} | ${percent(some)} |`)
  }
  for (const place of decisions) if (of(place).length > 0) row(place, of(place))
  row('all', mutants)
  const names = mutants.filter((mutant) => mutant.name !== undefined)
  for (const mutant of names) console.log(`${fate(mutant)}: ${mutant.name}`)
  if (values.survivors) {
    for (const mutant of mutants.filter((m) => !dead(m)).sort((a, b) => a.number - b.number)) {
      const flat = (text: string) => text.replace(/\s+/g, ' ').slice(0, 100)
      console.log(
        `${mutant.file}:${mutant.line} ${fate(mutant)} ${mutant.kind}: ${flat(mutant.original)} => ${flat(mutant.replacement)}`,
      )
    }
  }
  process.exitCode =
    mutants.filter(dead).length / mutants.length < leastScore || !names.every(dead) ? 1 : 0
}

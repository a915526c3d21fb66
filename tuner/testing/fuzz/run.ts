/**
 * Fuzzing: `npm run fuzz -- MINUTES [--seed S] [--only NAME]...`. Inputs of every reader in
 * inputs.ts, from its seeds and the corpus, are mutated and read until the time is up. An input
 * that is read wrongly joins the corpus, which `npm test` reads again; exit code 1 then.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { seeded } from '../../../profiler/seeded-random.ts'
import { Draw } from '../chaos/draw.ts'
import { corpusFolder, kept } from './corpus.ts'
import { fuzzed } from './inputs.ts'
import { judged } from './judge.ts'
import { mutated } from './mutations.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    only: { type: 'string', multiple: true, default: [] },
  },
})
const minutes = Number(positionals[0] ?? 10)
if (!(minutes > 0)) throw new Error(`npm run fuzz -- MINUTES, not '${positionals[0]}'`)
const names = Object.keys(fuzzed).filter(
  (name) => values.only.length === 0 || values.only.includes(name),
)
if (names.length === 0)
  throw new Error(`there is no ${values.only.join(', ')}: ${Object.keys(fuzzed).join(', ')}`)

const draw = new Draw(seeded(Number(values.seed)))
const pools = new Map(
  names.map((name) => [
    name,
    [
      ...fuzzed[name]!.seeds.map((seed) => Buffer.from(seed)),
      ...kept(name).map(({ input }) => input),
    ],
  ]),
)
const tried = new Map(names.map((name) => [name, 0]))
const found = new Map<string, Set<string>>(names.map((name) => [name, new Set()]))
const mostPool = 500
console.error(`${minutes} minutes, ${names.length} readers; seed ${values.seed}`)

/** One fault is kept once, by what is said of it without its figures. */
const kindOf = (wrong: string): string => wrong.replace(/[\d.]+|'[^']*'|"[^"]*"/g, '#').slice(0, 60)

for (const untilMs = performance.now() + minutes * 60_000; performance.now() < untilMs; ) {
  const name = names[draw.whole(0, names.length - 1)]!
  const pool = pools.get(name)!
  const from = () => pool[draw.whole(0, pool.length - 1)]!
  const input = mutated(from(), draw, from())
  const wrong = await judged(fuzzed[name]!, input)
  tried.set(name, tried.get(name)! + 1)
  // Some are mutated further.
  if (wrong === undefined && input.length < 20_000 && draw.whole(0, 9) === 0) {
    if (pool.length < mostPool) pool.push(input)
    else pool[draw.whole(0, pool.length - 1)] = input
  }
  if (wrong === undefined || found.get(name)!.has(kindOf(wrong))) continue
  found.get(name)!.add(kindOf(wrong))
  const path = join(corpusFolder, name, createHash('sha1').update(input).digest('hex').slice(0, 12))
  mkdirSync(join(corpusFolder, name), { recursive: true })
  writeFileSync(path, input)
  console.error(`WRONG  ${name}: ${wrong}; kept as ${path}`)
}

console.log('| reader | inputs | faults |\n|---|---|---|')
for (const name of names) console.log(`| ${name} | ${tried.get(name)} | ${found.get(name)!.size} |`)
process.exitCode = [...found.values()].some(({ size }) => size > 0) ? 1 : 0

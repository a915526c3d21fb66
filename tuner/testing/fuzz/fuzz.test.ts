/**
 * Every reader of something from outside reads mutated inputs, or refuses them with an error for
 * users that says where. `npm run fuzz` draws many; `npm run fuzz -- -t NAME` for one reader.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Fuzzed, fuzzed } from './inputs.ts'
import { judge } from './judge.ts'
import { arbitraryInput } from './mutated-inputs.ts'

/** Mutated inputs for each reader. Few in an ordinary check, for some readers start servers. */
const runs = fc.readConfigureGlobal().numRuns ?? 5

/** Inputs that were once read wrongly: a folder for each reader. */
const corpus = fileURLToPath(new URL('./corpus', import.meta.url))

function readCorpus(folder: string): Buffer[] {
  return existsSync(folder)
    ? readdirSync(folder).map((name) => readFileSync(join(folder, name)))
    : []
}

/**
 * The shrunk input that is read wrongly, with its fault. Undefined if none is found.
 * @param examples are read as they are, before mutated ones
 */
async function findFault(
  reader: Fuzzed,
  examples: readonly Buffer[],
  mutatedRuns: number,
): Promise<{ readonly input: Buffer; readonly fault: string } | undefined> {
  const property = fc.asyncProperty(arbitraryInput(examples), async (input) => {
    const fault = await judge(reader, input)
    if (fault !== undefined) throw new Error(fault)
  })
  const { counterexample, errorInstance, seed, counterexamplePath } = await fc.check(property, {
    examples: examples.map((input) => [input]),
    numRuns: examples.length + mutatedRuns,
  })
  return counterexample === null
    ? undefined
    : {
        input: counterexample[0],
        fault: `${(errorInstance as Error).message} (seed ${seed}, path ${counterexamplePath})`,
      }
}

test.each(Object.entries(fuzzed))('%s', async (name, reader) => {
  const folder = join(corpus, name)
  const seeds = reader.seeds.map((seed) => Buffer.from(seed))
  const found = await findFault(reader, [...seeds, ...readCorpus(folder)], runs)
  if (found === undefined) return
  const file = join(folder, createHash('sha1').update(found.input).digest('hex').slice(0, 12))
  mkdirSync(folder, { recursive: true })
  writeFileSync(file, found.input)
  expect.fail(`${found.fault}; commit the input with the repair: ${file}`)
})

test('program faults and errors without a place are found and shrunk, errors with one pass', async () => {
  const named = (name: string, message: string) => Object.assign(new Error(message), { name })
  const throwing = (error: Error): Fuzzed => ({
    seeds: [],
    names: /input/,
    read: (input) => {
      if (/^b: .*[^\w, [\]]/m.test(input.toString('latin1'))) throw error
    },
  })
  const seeds = ['a: 1\nb: [2, 3]\n', 'c: d\n'].map((text) => Buffer.from(text))
  const find = (error: Error) => findFault(throwing(error), seeds, 200)
  const programFault = await find(new TypeError('x of undefined'))
  expect(programFault?.fault).toMatch(/throws TypeError/)
  expect(programFault?.input.length).toBeLessThan(20)
  expect((await find(named('ConfigError', 'bad')))?.fault).toMatch(/does not say where/)
  expect(await find(named('ConfigError', 'input:1: bad'))).toBeUndefined()
})

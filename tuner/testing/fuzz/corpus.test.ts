/**
 * Every input of the corpus, and every seed, is read as it should be; and a reader that fails is
 * seen to.
 */
import { describe, expect, test } from 'vitest'
import { seeded } from '../../../profiler/seeded-random.ts'
import { Draw } from '../chaos/draw.ts'
import { kept } from './corpus.ts'
import { fuzzed } from './inputs.ts'
import { judged } from './judge.ts'
import { mutated } from './mutations.ts'

describe.each(Object.keys(fuzzed))('%s', (name) => {
  const inputs = [
    ...fuzzed[name]!.seeds.map((input, i) => ({ file: `seed ${i}`, input: Buffer.from(input) })),
    ...kept(name),
  ]
  test.each(inputs)('$file', async ({ input }) =>
    expect(await judged(fuzzed[name]!, input)).toBeUndefined(),
  )
})

test('what is the program’s own mistake, or says not where, is seen', async () => {
  const throwing = (error: unknown) => ({
    seeds: [],
    names: /input/,
    read: () => {
      throw error
    },
  })
  const named = (name: string, message: string) => Object.assign(new Error(message), { name })
  expect(await judged(throwing(new TypeError('x of undefined')), Buffer.of())).toMatch(
    /throws TypeError/,
  )
  expect(await judged(throwing(named('ConfigError', 'bad')), Buffer.of())).toMatch(/says not where/)
  expect(await judged(throwing(named('ConfigError', 'input:1: bad')), Buffer.of())).toBeUndefined()
})

test('a seed draws the same mutations', () => {
  const draws = () => {
    const draw = new Draw(seeded(5))
    return Array.from({ length: 50 }, () =>
      mutated(Buffer.from('a: 1\nb: [2, 3]\n'), draw, Buffer.from('c: d')).toString('hex'),
    )
  }
  expect(draws()).toEqual(draws())
  expect(new Set(draws()).size).toBeGreaterThan(30)
})

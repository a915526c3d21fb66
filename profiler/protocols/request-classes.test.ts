import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createUniform } from '../seeded-random.ts'
import { makePrompts } from './prompts.ts'
import { apportionCounts, drawClasses } from './request-classes.ts'

const fixed = (tokens: number) => ({ kind: 'fixed', tokens }) as const
const chat = { name: 'chat', share: 0.7, inputTokens: fixed(30), outputTokens: fixed(20) }
const summary = { name: 'summary', share: 0.3, inputTokens: fixed(400), outputTokens: fixed(10) }

test('counts are whole, have the right sum, and are within one of their exact part', () => {
  const shares = fc.array(fc.double({ min: 0.001, max: 1, noNaN: true }), {
    minLength: 1,
    maxLength: 8,
  })
  fc.assert(
    fc.property(shares, fc.integer({ min: 1, max: 2000 }), (given, count) => {
      const counts = apportionCounts(given, count)
      const total = given.reduce((sum, share) => sum + share, 0)
      expect(counts.reduce((sum, each) => sum + each, 0)).toBe(count)
      for (const [i, each] of counts.entries()) {
        expect(Number.isInteger(each)).toBe(true)
        expect(Math.abs(each - (given[i]! / total) * count)).toBeLessThan(1 + 1e-6)
      }
    }),
  )
})

test('a part that is whole stays as it is', () => {
  expect(apportionCounts([0.7, 0.3], 10)).toEqual([7, 3])
  expect(apportionCounts([0.7, 0.2, 0.1], 1000)).toEqual([700, 200, 100])
})

describe('prompts of several classes', () => {
  const spec = { inputTokens: fixed(1), outputTokens: fixed(1), classes: [chat, summary] }

  test('have the lengths of their class, each class as often as its share says', () => {
    const prompts = makePrompts(spec, 3, 100)
    const lengths = prompts.map(({ inputTokens, outputTokens }) => `${inputTokens}/${outputTokens}`)
    expect(lengths.filter((each) => each === '30/20')).toHaveLength(70)
    expect(lengths.filter((each) => each === '400/10')).toHaveLength(30)
    for (const { text, inputTokens } of prompts) expect(text.split(' ')).toHaveLength(inputTokens)
  })

  test('come in a random order by the seed', () => {
    const names = (seed: number) =>
      drawClasses([chat, summary], 200, createUniform(seed)).map(({ name }) => name)
    expect(names(1)).toEqual(names(1))
    expect(names(1)).not.toEqual(names(2))
    // Neighbours as alike as chance has it: 0.7² + 0.3² of pairs, over 40 seeds to within a few
    // standard errors.
    const alike = Array.from(
      { length: 40 },
      (_, seed) => names(seed).filter((name, i, all) => name === all[i + 1]).length / 199,
    )
    expect(alike.reduce((sum, each) => sum + each, 0) / alike.length).toBeCloseTo(0.58, 1)
  })

  test('share their beginning across classes', () => {
    const prompts = makePrompts({ ...spec, sharedPrefixTokens: 12 }, 1, 20)
    expect(new Set(prompts.map(({ text }) => text.split(' ').slice(0, 12).join(' '))).size).toBe(1)
    expect(new Set(prompts.map(({ inputTokens }) => inputTokens))).toEqual(new Set([30, 400]))
  })
})

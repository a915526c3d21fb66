import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { computePrefixHashes } from './prompt.ts'
import { ContinuousBatcher, type Sequence, type Step } from './scheduler.ts'
import { computeMeanTokens, inferAcceptance } from './speculation.ts'

const limits = { maxSequences: 4, maxBatchedTokens: 64, cacheTokens: 1024, queueLimit: 100 }

const sequence = (promptTokens: number, outputTokens: number, prefix: readonly number[] = []) => {
  const tokens: number[] = []
  const ends: boolean[] = []
  const made: Sequence = {
    promptTokens,
    outputTokens,
    prefix,
    token: (index, last) => {
      tokens.push(index)
      ends.push(last)
    },
  }
  return { ...made, made, tokens, ends }
}
const step = (batcher: ContinuousBatcher): Step['work'] | undefined => {
  const scheduled = batcher.schedule()
  scheduled?.finish()
  return scheduled?.work
}

test('a long prompt is computed in chunks, then a token a step', () => {
  const batcher = new ContinuousBatcher(limits)
  const one = sequence(150, 3)
  batcher.add(one.made)
  const works = Array.from({ length: 6 }, () => step(batcher))
  expect(
    works.map((work) => work && [work.prefillTokens, work.decodes, work.decodeContext]),
  ).toEqual([[64, 0, 0], [64, 0, 0], [22, 0, 0], [0, 1, 151], [0, 1, 152], undefined])
  expect(one.tokens).toEqual([0, 1, 2])
  expect(one.ends).toEqual([false, false, true])
  expect(batcher.cacheUse).toBe(0)
})

test('newcomers join between steps: decodes come first, prompts get what is left', () => {
  const batcher = new ContinuousBatcher(limits)
  batcher.add(sequence(10, 50).made)
  step(batcher)
  batcher.add(sequence(100, 5).made)
  expect(step(batcher)).toEqual({
    prefillTokens: 63,
    prompts: 1,
    promptContext: 0,
    decodes: 1,
    decodeContext: 11,
    delayedDecodes: 0,
  })
  expect(step(batcher)).toEqual({
    prefillTokens: 37,
    prompts: 1,
    promptContext: 63,
    decodes: 1,
    decodeContext: 12,
    delayedDecodes: 0,
  })
  expect(step(batcher)).toEqual({
    prefillTokens: 0,
    prompts: 0,
    promptContext: 0,
    decodes: 2,
    decodeContext: 13 + 101,
    delayedDecodes: 0,
  })
})

describe('prompts in steps of their own', () => {
  const kinds = (batcher: ContinuousBatcher, count: number) =>
    Array.from({ length: count }, () => {
      const work = step(batcher)
      return (
        work &&
        (work.prefillTokens > 0
          ? `${work.prompts} prompts, ${work.delayedDecodes} held up`
          : `${work.decodes} decode`)
      )
    })

  test('hold up those that decode, at once where they are a share of them', () => {
    const batcher = new ContinuousBatcher({
      ...limits,
      separatePrefill: { waitingShare: 0, decodingSteps: 0 },
    })
    batcher.add(sequence(10, 5).made)
    expect(kinds(batcher, 2)).toEqual(['1 prompts, 0 held up', '1 decode'])
    batcher.add(sequence(10, 5).made)
    batcher.add(sequence(10, 5).made)
    expect(kinds(batcher, 2)).toEqual(['2 prompts, 1 held up', '3 decode'])
  })

  test('wait for company, and no longer than so many steps', () => {
    const batcher = new ContinuousBatcher({
      ...limits,
      separatePrefill: { waitingShare: 1, decodingSteps: 3 },
    })
    batcher.add(sequence(10, 20).made)
    batcher.add(sequence(10, 20).made)
    expect(kinds(batcher, 1)).toEqual(['2 prompts, 0 held up'])
    batcher.add(sequence(10, 20).made)
    expect(kinds(batcher, 4)).toEqual(['2 decode', '2 decode', '2 decode', '1 prompts, 2 held up'])
    // Two wait now, fewer than the three that decode; then a third comes.
    batcher.add(sequence(10, 20).made)
    expect(kinds(batcher, 1)).toEqual(['3 decode'])
  })
})

test('a server that reserves lets in only what finds room to its end, and none starts over', () => {
  const [free, reserving] = [false, true].map((reserves) => {
    const batcher = new ContinuousBatcher({ ...limits, cacheTokens: 160, reserves })
    for (let i = 0; i < 4; i++) batcher.add(sequence(16, 48).made)
    while (step(batcher)) {}
    return batcher.preemptions
  })
  expect([free! > 0, reserving]).toEqual([true, 0])
})

test('no more sequences than allowed are under way', () => {
  const batcher = new ContinuousBatcher(limits)
  for (let i = 0; i < 6; i++) batcher.add(sequence(4, 2).made)
  step(batcher)
  expect([batcher.running, batcher.waiting]).toEqual([4, 2])
})

test('a full cache makes the newest start over, and all are answered', () => {
  const batcher = new ContinuousBatcher({ ...limits, cacheTokens: 128 })
  const [old, young] = [sequence(48, 60), sequence(48, 60)]
  batcher.add(old.made)
  batcher.add(young.made)
  while (step(batcher)) {}
  expect(batcher.preemptions).toBeGreaterThan(0)
  expect(old.tokens).toHaveLength(60)
  expect(young.tokens).toEqual(Array.from({ length: 60 }, (_, i) => i))
})

test('a beginning that was computed before is not computed again', () => {
  const batcher = new ContinuousBatcher(limits)
  const words = Array.from({ length: 40 }, (_, i) => `w${i}`)
  const [first, second] = [
    computePrefixHashes(words),
    computePrefixHashes([...words.slice(0, 35), 'x', 'y', 'z', 'a', 'b']),
  ]
  expect(first.slice(0, 2)).toEqual(second.slice(0, 2))
  batcher.add(sequence(40, 1, first).made)
  expect(step(batcher)?.prefillTokens).toBe(40)
  batcher.add(sequence(40, 1, second).made)
  expect(step(batcher)?.prefillTokens).toBe(8)
  expect(batcher.prefixHitTokens).toBe(32)
})

test('a sequence whose client has gone frees its place, in the middle of a step too', () => {
  const batcher = new ContinuousBatcher(limits)
  const [gone, stays] = [sequence(20, 50), sequence(20, 2)]
  batcher.add(gone.made)
  batcher.add(stays.made)
  const scheduled = batcher.schedule()!
  batcher.remove(gone.made)
  scheduled.finish()
  expect(gone.tokens).toEqual([])
  while (step(batcher)) {}
  expect(stays.tokens).toEqual([0, 1])
  expect(batcher.cacheUse).toBe(0)
})

test('a full queue refuses', () => {
  const batcher = new ContinuousBatcher({ ...limits, queueLimit: 1 })
  expect([batcher.add(sequence(1, 1).made), batcher.add(sequence(1, 1).made)]).toEqual([
    true,
    false,
  ])
})

describe('property', () => {
  test('whatever comes, every sequence gets its tokens in order, and the limits hold', () => {
    const size = fc.record({
      prompt: fc.integer({ min: 1, max: 120 }),
      output: fc.integer({ min: 1, max: 60 }),
      after: fc.integer({ min: 0, max: 5 }),
    })
    fc.assert(
      fc.property(
        fc.array(size, { minLength: 1, maxLength: 25 }),
        fc.integer({ min: 192, max: 600 }),
        (sizes, cacheTokens) => {
          const batcher = new ContinuousBatcher({ ...limits, cacheTokens })
          const sequences = sizes.map(({ prompt, output }) => sequence(prompt, output))
          for (const [i, { after }] of sizes.entries()) {
            batcher.add(sequences[i]!.made)
            for (let n = 0; n < after; n++) step(batcher)
          }
          for (let n = 0; n < 20_000; n++) {
            const work = step(batcher)
            if (!work) break
            expect(work.prefillTokens + work.decodes).toBeLessThanOrEqual(limits.maxBatchedTokens)
            expect(batcher.running).toBeLessThanOrEqual(limits.maxSequences)
            expect(batcher.cacheUse).toBeLessThanOrEqual(1)
          }
          for (const { tokens, outputTokens } of sequences)
            expect(tokens).toEqual(Array.from({ length: outputTokens }, (_, i) => i))
          expect(batcher.cacheUse).toBe(0)
        },
      ),
      { numRuns: fc.readConfigureGlobal().numRuns ?? 60 },
    )
  })
})

test('steps that repeat, done as one, leave everything as one after the other', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.integer({ min: 1, max: 90 }), fc.integer({ min: 1, max: 40 })), {
        minLength: 1,
        maxLength: 8,
      }),
      (lengths) => {
        const play = (together: boolean) => {
          const batcher = new ContinuousBatcher({ ...limits, cacheTokens: 512 })
          const sequences = lengths.map(([prompt, output]) => sequence(prompt, output))
          for (const each of sequences) batcher.add(each.made)
          const ended: number[] = []
          let steps = 0
          for (let scheduled = batcher.schedule(); scheduled; scheduled = batcher.schedule()) {
            const times = together ? scheduled.repeats() : 1
            steps += times
            scheduled.finish(times)
            for (const [i, { ends }] of sequences.entries())
              if (ended[i] === undefined && ends.at(-1)) ended[i] = steps
          }
          return { ended, steps, preemptions: batcher.preemptions, cacheUse: batcher.cacheUse }
        }
        expect(play(true)).toEqual(play(false))
      },
    ),
  )
})

describe('with drafts', () => {
  const speculating = (acceptance: number, more: object = {}) =>
    new ContinuousBatcher({ ...limits, speculation: { tokens: 3, acceptance }, ...more })

  test.each([
    [0, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]],
    [1, [0, 4, 8, 9]],
  ])(
    'of which each is accepted with probability %d, an answer of ten tokens is told of at %j',
    (acceptance, told) => {
      const batcher = speculating(acceptance)
      const one = sequence(10, 10)
      batcher.add(one.made)
      const works = []
      for (let work = step(batcher); work; work = step(batcher)) works.push(work)
      expect(one.tokens).toEqual(told)
      expect(one.ends.filter(Boolean)).toEqual([true])
      expect(works[1]).toMatchObject({ decodes: 1, drafts: 3, decodeContext: 11 })
      // No more than the answer still lacks.
      expect(works.at(-1)!.drafts ?? 0).toBe(0)
      expect([batcher.cacheUse, batcher.acceptedTokens]).toEqual([0, acceptance === 0 ? 0 : 6])
    },
  )

  test('a step keeps as many as the law says, on average', () => {
    const batcher = speculating(0.6, { cacheTokens: 100_000 })
    for (let i = 0; i < 4; i++) batcher.add(sequence(4, 4000).made)
    let steps = 0
    while (step(batcher)) steps += 1
    expect(4000 / steps).toBeCloseTo(computeMeanTokens({ tokens: 3, acceptance: 0.6 }), 1)
    expect(inferAcceptance(batcher.acceptedTokens / batcher.draftings, 3)).toBeCloseTo(0.6, 1)
  })

  test('whatever comes, every answer comes to its end, in order, and the limits hold', () => {
    const size = fc.record({
      prompt: fc.integer({ min: 1, max: 120 }),
      output: fc.integer({ min: 1, max: 60 }),
      after: fc.integer({ min: 0, max: 5 }),
    })
    const servers = [
      {},
      { reserves: true },
      { reserves: true, separatePrefill: { waitingShare: 0.2, decodingSteps: 6 } },
    ]
    fc.assert(
      fc.property(
        fc.array(size, { minLength: 1, maxLength: 20 }),
        fc.integer({ min: 192, max: 600 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.constantFrom(...servers),
        (sizes, cacheTokens, acceptance, server) => {
          const batcher = speculating(acceptance, { cacheTokens, ...server })
          const sequences = sizes.map(({ prompt, output }) => sequence(prompt, output))
          const advance = () => {
            const work = step(batcher)
            if (!work) return false
            expect(work.prefillTokens + work.decodes + (work.drafts ?? 0)).toBeLessThanOrEqual(
              limits.maxBatchedTokens,
            )
            expect(batcher.cacheUse).toBeLessThanOrEqual(1)
            return true
          }
          for (const [i, { after }] of sizes.entries()) {
            batcher.add(sequences[i]!.made)
            for (let n = 0; n < after; n++) advance()
          }
          for (let n = 0; n < 20_000 && advance(); n++) {}
          for (const { tokens, ends, outputTokens } of sequences) {
            expect([tokens.at(-1), ends.at(-1)]).toEqual([outputTokens - 1, true])
            expect(
              tokens.every(
                (index, i) => i === 0 || (index > tokens[i - 1]! && index <= tokens[i - 1]! + 4),
              ),
            ).toBe(true)
          }
          expect(batcher.cacheUse).toBe(0)
        },
      ),
      { numRuns: fc.readConfigureGlobal().numRuns ?? 60 },
    )
  })
})

describe('a sequence whose prompt was computed elsewhere', () => {
  const moved = (promptTokens: number, outputTokens: number) => {
    const one = sequence(promptTokens, outputTokens)
    return { ...one, made: { ...one.made, computedTokens: promptTokens - 1 } }
  }

  test('makes its first token in a step of decoding, and holds its blocks', () => {
    const batcher = new ContinuousBatcher(limits)
    const one = moved(160, 3)
    batcher.add(one.made)
    const first = batcher.schedule()!
    expect(first.work).toMatchObject({
      prefillTokens: 0,
      prompts: 0,
      decodes: 1,
      decodeContext: 160,
    })
    expect(batcher.cacheUse).toBeCloseTo(10 / 64, 10)
    expect(first.repeats()).toBe(1)
    first.finish()
    const rest = batcher.schedule()!
    expect([rest.work.decodeContext, rest.repeats()]).toEqual([161, 2])
    rest.finish(2)
    expect([one.tokens, one.ends, batcher.cacheUse]).toEqual([[0, 2], [false, true], 0])
    expect(batcher.prefixHitTokens).toBe(0)
  })

  test('that has to give up its place loses what was moved, and computes it', () => {
    const batcher = new ContinuousBatcher({ ...limits, cacheTokens: 160 })
    const [old, young] = [moved(78, 20), moved(70, 20)]
    batcher.add(old.made)
    batcher.add(young.made)
    const works: Step['work'][] = []
    for (let work = step(batcher); work !== undefined; work = step(batcher)) works.push(work)
    expect(batcher.preemptions).toBeGreaterThan(0)
    expect(works.reduce((sum, { prefillTokens }) => sum + prefillTokens, 0)).toBeGreaterThanOrEqual(
      70,
    )
    for (const one of [old, young])
      expect(one.tokens).toEqual(Array.from({ length: 20 }, (_, i) => i))
  })
})

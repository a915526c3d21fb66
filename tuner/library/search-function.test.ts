import { describe, expect, test } from 'vitest'
import { ConfigError } from '../config/types.ts'
import { type SearchOptions, type SearchTrial, search } from './search-function.ts'

/** Least, 2, at workers 8 in mode fast. */
const cost = (workers: unknown, mode: unknown) =>
  2 + Math.log2(Number(workers) / 8) ** 2 + (mode === 'fast' ? 0 : 3)
const space = { workers: [1, 2, 4, 8, 16, 32], mode: ['fast', 'safe'] }

describe('search', () => {
  test('finds the least of a function, and says why it stopped and how sure it is', async () => {
    const { best, trials, reason, probabilityBetterExists } = await search({
      space,
      evaluate: ({ workers, mode }) => cost(workers, mode),
      maxTrials: 20,
    })
    expect(best).toEqual({ configuration: { workers: 8, mode: 'fast' }, value: 2 })
    expect(reason).toMatch(/certain|space-exhausted/)
    expect(probabilityBetterExists).toBeLessThanOrEqual(0.05)
    expect(new Set(trials.map((t) => JSON.stringify(t.configuration))).size).toBe(trials.length)
  })

  test('finds the greatest, of any sign, and the same seed asks for the same', async () => {
    const run = () =>
      search({
        space,
        goal: 'max',
        evaluate: async ({ workers, mode }) => 1 - cost(workers, mode),
        maxTrials: 12,
        seed: 3,
      })
    const [one, other] = await Promise.all([run(), run()])
    expect(one.best).toEqual({ configuration: { workers: 8, mode: 'fast' }, value: -1 })
    expect(other).toEqual(one)
  })

  test('learns what cannot be measured, and keeps the conditions', async () => {
    const seen: SearchTrial[] = []
    const { best, trials } = await search({
      space: { workers: '1..6', queue: { min: 1, max: 6, step: 1 } },
      constraints: ['workers <= queue'],
      evaluate: ({ workers }) =>
        Number(workers) > 4 ? { infeasible: 'out of memory' } : -Number(workers),
      maxTrials: 15,
      onTrial: (trial) => seen.push(trial),
    })
    expect(best?.configuration.workers).toBe(4)
    expect(seen).toEqual(trials)
    expect(trials.every(({ configuration: c }) => Number(c.workers) <= Number(c.queue))).toBe(true)
    const nothing = await search({
      space: { n: [1, 2] },
      evaluate: () => ({ infeasible: 'never' }),
    })
    expect(nothing).toMatchObject({ reason: 'space-exhausted', trials: { length: 2 } })
    expect(nothing).not.toHaveProperty('best')
  })

  test('an abort ends it with what it has, also while it evaluates', async () => {
    const between = new AbortController()
    const kept = await search({
      space,
      signal: between.signal,
      evaluate: () => 1,
      onTrial: () => between.abort(),
    })
    expect(kept).toMatchObject({ reason: 'interrupted', trials: { length: 1 }, best: { value: 1 } })
    const within = new AbortController()
    const { reason, trials } = await search({
      space,
      signal: within.signal,
      evaluate: (_, signal) => {
        within.abort(new Error('enough'))
        signal.throwIfAborted()
        return 1
      },
    })
    expect({ reason, trials }).toEqual({ reason: 'interrupted', trials: [] })
  })

  test('names all that is wrong with a space, and a value that is none', async () => {
    const wrong = search({
      space: { 'a b': [1], n: { min: 5, max: 1 } },
      constraints: ['m > 1'],
      evaluate: () => 1,
    })
    await expect(wrong).rejects.toThrow(ConfigError)
    await expect(wrong).rejects.toThrow(
      /'a b' is not a valid parameter name[\s\S]*min 5 is above max 1/,
    )
    const untyped = {
      space,
      evaluate: () => 1,
      goal: 'mid',
      sampler: 'best',
      maxTrials: 0,
    } as unknown as SearchOptions
    await expect(search(untyped)).rejects.toMatchObject({
      problems: [{ where: 'goal' }, { where: 'sampler' }, { where: 'maxTrials' }],
    })
    await expect(search({ space: {}, evaluate: () => 1 })).rejects.toThrow('space: no parameters')
    await expect(search({ space: { n: [1] }, evaluate: () => Number.NaN })).rejects.toThrow(
      'evaluate returned NaN for {"n":1}',
    )
    await expect(
      search({
        space: { n: [1] },
        evaluate: () => {
          throw new TypeError('mine')
        },
      }),
    ).rejects.toThrow(TypeError)
  })
})

import { describe, expect, test } from 'vitest'
import type { Configuration } from '../types.ts'
import { climb, selectTop } from './maximise.ts'

const at = (x: number, y = 0): Configuration => ({ x, y })
const score = (value: (c: Configuration) => number) => {
  const scoredLists: (readonly Configuration[])[] = []
  return {
    scoredLists,
    score: (candidates: readonly Configuration[]) => {
      scoredLists.push(candidates)
      return { candidates, scores: Float64Array.from(candidates, value) }
    },
  }
}
const steps = ({ x, y }: Configuration) => [
  at(Number(x) - 1, Number(y)),
  at(Number(x) + 1, Number(y)),
  at(Number(x), Number(y) + 1),
]

describe('selectTop', () => {
  test('the best first, ties in order, at most all', () => {
    const scored = {
      candidates: [at(0), at(1), at(2), at(3)],
      scores: Float64Array.of(1, 3, -Infinity, 3),
    }
    expect(selectTop(scored, 3)).toEqual([at(1), at(3), at(0)])
    expect(selectTop(scored, 1)).toEqual([at(1)])
    expect(selectTop(scored, 9)).toHaveLength(4)
  })
})

describe('climb', () => {
  const peak = (c: Configuration) => -((Number(c.x) - 4) ** 2) - (Number(c.y) - 2) ** 2
  const sample = (value: (c: Configuration) => number, ...xs: number[]) => ({
    candidates: xs.map((x) => at(x)),
    scores: Float64Array.from(xs, (x) => value(at(x))),
  })

  test('reaches a peak outside the sample, and scores nothing twice in a step', () => {
    const { scoredLists, score: counted } = score(peak)
    const { candidates, scores } = climb(sample(peak, -9, 0, 9), steps, counted)
    const best = Math.max(...scores)
    expect(best).toBeCloseTo(0, 12)
    expect(candidates[scores.indexOf(best)]).toEqual(at(4, 2))
    for (const candidates of scoredLists)
      expect(new Set(candidates.map((c) => `${c.x} ${c.y}`)).size).toBe(candidates.length)
    // Six steps up, one to see that there is no more, and the sample.
    expect(scoredLists).toHaveLength(8)
  })

  test('starts from the five best of the sample, and continues from the five best', () => {
    const { scoredLists, score: counted } = score(peak)
    climb(sample(peak, -9, -8, -7, 0, 1, 2, 3), steps, counted)
    expect(scoredLists[0]).toEqual([at(3), at(2), at(1), at(0), at(-7)])
    // Of those and what surrounds them: -2, -4, -5 twice, -8.
    expect(scoredLists[2]!.slice(0, 5)).toEqual([at(3, 1), at(4), at(3), at(2, 1), at(2)])
  })

  test('ends after twelve steps, or where no neighbour is better', () => {
    const ramp = (c: Configuration) => Number(c.x)
    const far = score(ramp)
    expect(Math.max(...climb(sample(ramp, 0), steps, far.score).scores)).toBe(12)
    expect(far.scoredLists).toHaveLength(13)
    const flat = score(() => 1)
    expect(
      climb(
        sample(() => 1, 0),
        steps,
        flat.score,
      ).candidates,
    ).toEqual([at(0)])
    expect(flat.scoredLists).toHaveLength(2)
  })

  test('stays in place without neighbours', () => {
    const { scoredLists, score: counted } = score(peak)
    expect(climb(sample(peak, 0), () => [], counted).candidates).toEqual([at(0)])
    expect(scoredLists).toHaveLength(2)
  })
})

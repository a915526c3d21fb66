import { expect, test } from 'vitest'
import { type Programme, solve } from './integer-programme.ts'

/** Twelve integers of which every three sum to at least two, at minimal cost. */
const triples = Array.from({ length: 12 }, (_, i) => i)
const cover: Programme = {
  cost: triples.map((i) => [1 + (i % 5) / 7, `v${i}`]),
  rows: triples.flatMap((i) =>
    triples.slice(i + 1).map(
      (j) =>
        [
          [
            [1, `v${i}`],
            [1, `v${j}`],
            [1, `v${(i + j) % 12}`],
          ],
          '>= 2',
        ] as const,
    ),
  ),
}

test('without time the start is returned; with time the optimum is found from any start', async () => {
  const start = new Map(triples.map((i) => [`v${i}`, 2]))
  const begun = await solve(cover, 0, start)
  expect(begun).toMatchObject({ values: Array(12).fill(2) })
  const costOf = (found: typeof begun) =>
    found === 'infeasible'
      ? Number.NaN
      : found.values.reduce((sum, value, i) => sum + value * cover.cost[i]![0], 0)
  const best = await solve(cover, 10)
  expect(costOf(await solve(cover, 10, start))).toBeCloseTo(costOf(best), 9)
  expect(costOf(best)).toBeLessThan(costOf(begun))
  // An infeasible start is ignored.
  expect(costOf(await solve(cover, 10, new Map()))).toBeCloseTo(costOf(best), 9)
})

import { expect, test } from 'vitest'
import { type Programme, solve } from './programme.ts'

/** The least of 12 numbers of which every three come to two at the least. */
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
  integers: triples.map((i) => `v${i}`),
}

test('a programme that has no time gives back what it began with, and with time it finds the best from there as from nothing', async () => {
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
  // What keeps no row is no beginning.
  expect(costOf(await solve(cover, 10, new Map()))).toBeCloseTo(costOf(best), 9)
})

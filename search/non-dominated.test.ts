import fc from 'fast-check'
import { expect, test } from 'vitest'
import { paretoFront } from './non-dominated.ts'

test('keeps what nothing dominates, equals included, NaN excluded', () => {
  expect(
    paretoFront(
      [
        [1, 5],
        [2, 4],
        [2, 6],
        [5, 1],
        [1, 5],
        [Number.NaN, 0],
      ],
      (v) => v,
    ),
  ).toEqual([
    [1, 5],
    [2, 4],
    [5, 1],
    [1, 5],
  ])
})

test('every point left out is dominated by one of the front', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.integer({ min: 0, max: 9 }), fc.integer({ min: 0, max: 9 })), { minLength: 1 }), (points) => {
      const front = paretoFront(points, (p) => p)
      expect(front.length).toBeGreaterThan(0)
      for (const p of points) expect(front.some((f) => f[0] <= p[0] && f[1] <= p[1])).toBe(true)
    }),
  )
})

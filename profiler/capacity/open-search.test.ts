import { expect, test } from 'vitest'
import { withinReach } from './open-search.ts'

const posterior = (medianRps: number, ci90Rps: [number, number]) => ({ medianRps, ci90Rps, below: () => 0.5 })

test('a posterior near what was served stays as it is', () => {
  expect(withinReach(posterior(1000, [900, 1100]), 1050)).toMatchObject({ medianRps: 1000, ci90Rps: [900, 1100] })
})

test('what goes far beyond the highest rate served is cut: the median a little beyond it, the interval around that', () => {
  const { medianRps, ci90Rps } = withinReach(posterior(6834, [1981, 14880]), 1772)
  expect(medianRps).toBeCloseTo(2037.8, 1)
  expect(ci90Rps[0]).toBe(1772)
  expect(ci90Rps[1]).toBeCloseTo(2658, 0)
})

test('of a posterior that lies beyond all that was served, what was served is the lower bound', () => {
  const { medianRps, ci90Rps } = withinReach(posterior(9000, [8000, 9900]), 1000)
  expect(medianRps).toBeCloseTo(1150, 6)
  expect(ci90Rps[0]).toBe(1000)
  expect(ci90Rps[1]).toBeCloseTo(1500, 6)
})

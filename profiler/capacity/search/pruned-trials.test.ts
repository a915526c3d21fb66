/**
 * When a search against a rate that has to be beaten is given up; the rest of what it decides is in
 * open-search-decisions.test.ts.
 */
import { describe, expect, test } from 'vitest'
import {
  missing,
  posterior,
  rates,
  type Script,
  searched,
  windowOf,
} from '../../testing/scripted-search.ts'

describe('pruning', () => {
  const racing = (below: number, more: Script = {}) =>
    searched({
      options: { capacityToBeatRps: 1200 },
      estimate: (_, windows) =>
        posterior(600, 0.1, {
          computeProbabilityBelow: (rps) => (rps === 1200 && windows > 1 ? below : 0.99),
        }),
      window: (load) => (load.rateRps > 800 ? missing(load) : windowOf(load)),
      ...more,
    })

  test('needs two windows, 98 % probability of a lower capacity, and a violated probe a quarter above the interval', async () => {
    const lost = await racing(0.981)
    expect(rates(lost.asked).slice(1)).toEqual([600, expect.closeTo(825, 9)])
    expect(lost.found).toMatchObject({
      outcome: 'pruned',
      capacityRps: expect.closeTo(660, 9),
      bounds: 'upper',
    })
    expect(lost.found.capacityCi90Rps).toEqual([0, expect.closeTo(660, 9)])
    expect(lost.found.detail).toBe('stopped early: cannot reach the 1,200 req/s needed to win')
    expect((await racing(0.98)).found.outcome).not.toBe('pruned')
  })

  test('is refused where the probe meets the SLO', async () => {
    const { asked, found } = await racing(0.981, { window: (load) => windowOf(load) })
    expect(rates(asked)[2]).toBeCloseTo(825, 9)
    expect(found.outcome).not.toBe('pruned')
  })

  test('needs no probe where the loss was expected, or where the rate to beat is near', async () => {
    const expected = await racing(0.981, { options: { capacityToBeatRps: 1200, expectedRps: 650 } })
    expect(rates(expected.asked)).not.toContainEqual(expect.closeTo(825, 9))
    const near = await racing(0.981, {
      options: { capacityToBeatRps: 810 },
      estimate: () => posterior(600, 0.1, { computeProbabilityBelow: () => 0.99 }),
    })
    expect([near.found.outcome, near.asked.length]).toEqual(['pruned', 2])
  })

  test('is refused where the interval reaches the rate to beat, or a window clearly met it', async () => {
    const wide = { estimate: () => posterior(600, 0.99, { computeProbabilityBelow: () => 0.99 }) }
    expect((await racing(0.99, wide)).found.outcome).toBe('pruned')
    expect(
      (
        await racing(0.99, {
          estimate: () =>
            posterior(600, 1.1, {
              capacityCi90Rps: [500, 1200],
              computeProbabilityBelow: () => 0.99,
            }),
        })
      ).found.outcome,
    ).not.toBe('pruned')
    const held = (rps: number) =>
      racing(0.99, {
        options: { capacityToBeatRps: 700 },
        estimate: () =>
          posterior(rps, 0.001, {
            computeProbabilityBelow: () => 0.99,
            capacityCi90Rps: [400, 500],
          }),
      })
    expect((await held(650)).found).toMatchObject({ outcome: 'pruned', capacityRps: 650 })
    expect((await held(700)).found.outcome).not.toBe('pruned')
  })
})

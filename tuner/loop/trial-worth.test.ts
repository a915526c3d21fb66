import { describe, expect, test } from 'vitest'
import type { FinishedTrial } from '../../trials/types.ts'
import { trialsUntilIdle, worthOfTrial } from './trial-worth.ts'

const trial = (seconds: number) => ({ seconds }) as FinishedTrial
const asked = { stop: { tolerance: 0.05, certainty: 0.95 }, objective: { kind: 'price-per-request' } } as const
const best = { cost: 0.08, pricePerHour: 1 }

describe('a trial is worth it', () => {
  test('from a third of the tolerance on, two thirds of it over all that come, where it costs next to nothing', () => {
    const { leastGain, because } = worthOfTrial(asked, { trials: [trial(4), trial(6)], spent: 0.001, best })
    expect(leastGain).toBeCloseTo(0.05 / 3, 12)
    expect(because).toBe('all that come would gain about 2 times as much together: two thirds of a tolerance of 5 %')
    const finer = { ...asked, stop: { ...asked.stop, tolerance: 0.01 } }
    expect(worthOfTrial(finer, { trials: [], spent: 0, best }).leastGain).toBeCloseTo(0.01 / 3, 12)
  })

  // Two trials of half an hour: $3 each of the price book, and half an hour of waiting at $60.
  const spending = { trials: [trial(1800), trial(1800)], spent: 6, best: { cost: 0.08, pricePerHour: 0.1 } }
  test.each([
    ['of one replica for a year', asked, 33 / 876],
    [
      'of the demand for a year',
      { ...asked, objective: { kind: 'price-for-demand', demandRps: 100, headroom: 0.2 } } as const,
      33 / (0.08 * 8760),
    ],
    ['that is said', { ...asked, stop: { ...asked.stop, yearlyBill: 1100 } }, 0.03],
  ])('from what it costs on, its time counted, as a share of the bill %s', (_, experiment, leastGain) => {
    const worth = worthOfTrial(experiment, spending)
    expect(worth.leastGain).toBeCloseTo(leastGain, 12)
    expect(worth.because).toContain('it costs $33.00, its time counted, of a bill of $')
  })

  test('and not for a metric, which no bill falls with', () => {
    const metric = { kind: 'min-metric', metric: 'depth' } as const
    expect(worthOfTrial({ ...asked, objective: metric }, spending).because).not.toContain('$')
  })

  test('from the tolerance on however large the bill', () => {
    expect(worthOfTrial({ ...asked, stop: { ...asked.stop, yearlyBill: 1e9 } }, spending).leastGain).toBeCloseTo(0.05 / 3, 12)
  })
})

test.each([
  [0.012, 0],
  [0.0125, 1],
  [0.0249, 1],
  [0.025, 2],
  [0.11, 4],
])('a next one that is expected to gain %d, of 0.0125 that it is worth, comes with as many as %d', (gain, trials) => {
  expect(trialsUntilIdle(gain, 0.0125)).toBe(trials)
})

import { describe, expect, test } from 'vitest'
import type { FinishedTrial } from '../../trials/types.ts'
import { notWorth, trialsUntilIdle, worthOfTrial } from './trial-worth.ts'

const trial = (seconds: number) => ({ seconds }) as FinishedTrial
const asked = {
  stop: { tolerance: 0.05, certainty: 0.95 },
  objective: { kind: 'price-per-request' },
} as const
const best = { cost: 0.08, pricePerHour: 1 }

describe('another trial is worth it', () => {
  test('while all that come are expected to gain two thirds of the tolerance together', () => {
    const worth = worthOfTrial(asked, { trials: [trial(4), trial(6)], spent: 0.001, best })
    expect(notWorth({ minTrials: 0, gain: 0.01, regret: 0.034 }, worth)).toBeUndefined()
    // Nothing is told by the next alone: of many that are untried each is unlikely to be much
    // better, and one of them is likely to be.
    expect(notWorth({ minTrials: 0, gain: 0.005, regret: 0.1 }, worth)).toBeUndefined()
    expect(notWorth({ minTrials: 0, gain: 0.01, regret: 0.033 }, worth)).toBe(
      'the best untried configuration is expected to save 3.3 %, less than two thirds of the tolerance of 5 %',
    )
    const finer = worthOfTrial(
      { ...asked, stop: { ...asked.stop, tolerance: 0.01 } },
      { trials: [], spent: 0, best },
    )
    expect(notWorth({ minTrials: 0, gain: 0.01, regret: 0.033 }, finer)).toBeUndefined()
    expect(notWorth({ minTrials: 1, gain: 0, regret: 0 }, worth)).toBeUndefined()
  })

  // Two trials of half an hour: $3 each of the price book, and half an hour of waiting at $60.
  const spending = {
    trials: [trial(1800), trial(1800)],
    spent: 6,
    best: { cost: 0.08, pricePerHour: 0.1 },
  }
  test.each([
    ['of one replica for a year', asked, 33 / 876],
    [
      'of the demand for a year',
      { ...asked, objective: { kind: 'price-for-demand', demandRps: 100, headroom: 0.2 } } as const,
      33 / (0.08 * 8760),
    ],
    ['that is said', { ...asked, stop: { ...asked.stop, yearlyBill: 1100 } }, 0.03],
  ])(
    'and while the next gains what it costs, its time counted, as a share of the bill %s',
    (_, experiment, leastGain) => {
      const worth = worthOfTrial(experiment, spending)
      expect(worth.paid!.leastGain).toBeCloseTo(leastGain, 12)
      expect(
        notWorth({ minTrials: 0, gain: 1.001 * leastGain, regret: 0.2 }, worth),
      ).toBeUndefined()
      expect(notWorth({ minTrials: 0, gain: 0.999 * leastGain, regret: 0.2 }, worth)).toContain(
        'it costs $33.00 including time, of a yearly bill of $',
      )
    },
  )

  test('and not for a metric, which no bill falls with', () => {
    const metric = { kind: 'min-metric', metric: 'depth' } as const
    expect(worthOfTrial({ ...asked, objective: metric }, spending)).toEqual({ tolerance: 0.05 })
  })
})

describe('how many more trials there will be', () => {
  const worth = { tolerance: 0.05 }
  test.each([
    [0.033, 0],
    [0.034, 1],
    [0.0416, 1],
    [0.042, 2],
    [0.1, 5],
  ])(
    'each leaves four fifths: where all that is untried is expected to gain %d, as many as %d',
    (regret, trials) => {
      expect(trialsUntilIdle({ minTrials: 0, gain: 0.01, regret }, worth)).toBe(trials)
      expect(trialsUntilIdle({ minTrials: 7, gain: 0.01, regret }, worth)).toBe(7)
    },
  )

  test('fewer where the next ones do not pay', () => {
    const dear = { ...worth, paid: { leastGain: 0.02, because: 'the bill' } }
    expect(trialsUntilIdle({ minTrials: 0, gain: 0.01, regret: 0.2 }, dear)).toBe(0)
    expect(trialsUntilIdle({ minTrials: 0, gain: 0.021, regret: 0.2 }, dear)).toBe(1)
    expect(trialsUntilIdle({ minTrials: 0, gain: 0.2, regret: 0.034 }, dear)).toBe(1)
  })
})

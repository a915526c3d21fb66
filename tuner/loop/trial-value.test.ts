import { describe, expect, test } from 'vitest'
import type { FinishedTrial } from '../../trials/types.ts'
import { computeRequiredGain, estimateTrialsLeft, explainNotWorthwhile } from './trial-value.ts'

const trial = (seconds: number) => ({ seconds }) as FinishedTrial
const experiment = {
  stop: { tolerance: 0.05, certainty: 0.95 },
  objective: { kind: 'price-per-request' },
} as const
const best = { cost: 0.08, pricePerHour: 1 }

describe('a further trial is worthwhile', () => {
  test('while all further trials together are expected to gain two fifths of the tolerance', () => {
    const required = computeRequiredGain(experiment, {
      trials: [trial(4), trial(6)],
      spentUsd: 0.001,
      best,
    })
    expect(
      explainNotWorthwhile({ minTrials: 0, gain: 0.01, regret: 0.021 }, required),
    ).toBeUndefined()
    // The gain of the next trial alone does not decide: each of many untried configurations is
    // unlikely to be much better, but one of them is likely to be.
    expect(
      explainNotWorthwhile({ minTrials: 0, gain: 0.005, regret: 0.1 }, required),
    ).toBeUndefined()
    expect(explainNotWorthwhile({ minTrials: 0, gain: 0.01, regret: 0.019 }, required)).toBe(
      'the best untried configuration is expected to save 1.9 % where a saving within the tolerance of 5 % counts as none',
    )
    const finer = computeRequiredGain(
      { ...experiment, stop: { ...experiment.stop, tolerance: 0.01 } },
      { trials: [], spentUsd: 0, best },
    )
    expect(explainNotWorthwhile({ minTrials: 0, gain: 0.01, regret: 0.019 }, finer)).toBeUndefined()
    expect(explainNotWorthwhile({ minTrials: 1, gain: 0, regret: 0 }, required)).toBeUndefined()
  })

  // Two trials of half an hour: $3 each of the price book, and half an hour of waiting at $60.
  const spending = {
    trials: [trial(1800), trial(1800)],
    spentUsd: 6,
    best: { cost: 0.08, pricePerHour: 0.1 },
  }
  test.each([
    ['of one replica', experiment, 33 / 876],
    [
      'of the demand',
      {
        ...experiment,
        objective: { kind: 'price-for-demand', demandRps: 100, headroom: 0.2 },
      } as const,
      33 / (0.08 * 8760),
    ],
    ['of the user', { ...experiment, stop: { ...experiment.stop, yearlyBill: 1100 } }, 0.03],
  ])(
    'while the next one gains its cost, including waiting time, as a share of the yearly bill %s',
    (_, priced, minGain) => {
      const required = computeRequiredGain(priced, spending)
      expect(required.payback!.minGain).toBeCloseTo(minGain, 12)
      expect(
        explainNotWorthwhile({ minTrials: 0, gain: 1.001 * minGain, regret: 0.2 }, required),
      ).toBeUndefined()
      expect(
        explainNotWorthwhile({ minTrials: 0, gain: 0.999 * minGain, regret: 0.2 }, required),
      ).toContain('it costs $33.00 including time, of a yearly bill of $')
    },
  )

  test('without regard to its cost where the objective is a metric', () => {
    const metric = { kind: 'min-metric', metric: 'depth' } as const
    expect(computeRequiredGain({ ...experiment, objective: metric }, spending)).toEqual({
      tolerance: 0.05,
    })
  })
})

describe('the predicted number of further trials', () => {
  const required = { tolerance: 0.05 }
  test.each([
    [0.0199, 0],
    [0.0201, 1],
    [0.0249, 1],
    [0.0251, 2],
    [0.1, 8],
  ])(
    'with four fifths of the gain left after each: a gain of %d takes %d trials',
    (regret, trials) => {
      expect(estimateTrialsLeft({ minTrials: 0, gain: 0.01, regret }, required)).toBe(trials)
      expect(estimateTrialsLeft({ minTrials: 9, gain: 0.01, regret }, required)).toBe(9)
    },
  )

  test('is lower where the next trials do not pay', () => {
    const dear = { ...required, payback: { minGain: 0.02, reason: 'the bill' } }
    expect(estimateTrialsLeft({ minTrials: 0, gain: 0.01, regret: 0.2 }, dear)).toBe(0)
    expect(estimateTrialsLeft({ minTrials: 0, gain: 0.021, regret: 0.2 }, dear)).toBe(1)
    expect(estimateTrialsLeft({ minTrials: 0, gain: 0.2, regret: 0.021 }, dear)).toBe(1)
  })
})

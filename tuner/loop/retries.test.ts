import { describe, expect, test } from 'vitest'
import type { FinishedTrial } from '../../trials/types.ts'
import { measurement } from '../testing/fakes.ts'
import { countNextAttempt, planRetries } from './retries.ts'

const trial = (batchSize: number, rest: object = {}): FinishedTrial =>
  ({
    number: 1,
    configuration: { batchSize },
    why: 'next in order',
    startedAt: '2026-01-01T00:00:00Z',
    seconds: 5,
    state: 'complete',
    measurement: measurement(100),
    ...rest,
  }) as FinishedTrial
const failed = (batchSize: number, rest: object = {}) =>
  trial(batchSize, { state: 'failed', error: 'no port', ...rest })
const disturbed = (batchSize: number) =>
  trial(batchSize, {
    measurement: { ...measurement(0), outcome: 'host-interference', bounds: 'none' },
  })

const plan = (...trials: FinishedTrial[]) => {
  const { next, deferred, givenUp } = planRetries(trials)
  const batches = (configurations: readonly { readonly configuration: object }[]) =>
    configurations.map(({ configuration }) => (configuration as { batchSize: number }).batchSize)
  return {
    next: batches(next),
    deferred: batches(deferred),
    givenUp: batches(givenUp.map((configuration) => ({ configuration }))),
  }
}

describe('a failed trial', () => {
  test('is retried twice, then its configuration is given up', () => {
    const one = failed(1)
    expect(plan(one)).toEqual({ next: [1], deferred: [], givenUp: [] })
    expect(plan(one, one)).toEqual({ next: [1], deferred: [], givenUp: [] })
    expect(plan(one, one, one)).toEqual({ next: [], deferred: [], givenUp: [1] })
  })

  test('is not retried where the failure is final, nor after a success', () => {
    expect(plan(failed(1, { final: 'configuration' })).givenUp).toEqual([1])
    expect(plan(failed(1), trial(1))).toEqual({ next: [], deferred: [], givenUp: [] })
  })

  test('keeps its reason, prediction and purpose in the retry, with the next attempt', () => {
    const predicted = { rate: 90, low: 80, high: 110, feasible: 1 }
    expect(planRetries([failed(1, { predicted, purpose: 'default' })]).next).toEqual([
      {
        configuration: { batchSize: 1 },
        why: 'next in order',
        predicted,
        purpose: 'default',
        attempt: 2,
      },
    ])
  })
})

describe('a disturbed trial', () => {
  test('is retried at once, then deferred, and given up after four attempts', () => {
    const one = disturbed(1)
    expect(plan(one).next).toEqual([1])
    expect(plan(one, one)).toEqual({ next: [], deferred: [1], givenUp: [] })
    expect(plan(one, one, one).deferred).toEqual([1])
    expect(plan(one, one, one, one)).toEqual({ next: [], deferred: [], givenUp: [1] })
  })

  test('is next again once another trial was measured undisturbed', () => {
    expect(plan(disturbed(1), disturbed(1), trial(2)).next).toEqual([1])
  })
})

test('confirmations are no attempts', () => {
  const confirmation = { purpose: 'confirmation' }
  expect(plan(failed(1, confirmation))).toEqual({ next: [], deferred: [], givenUp: [] })
  expect(countNextAttempt([failed(1, confirmation), failed(1), failed(2)], { batchSize: 1 })).toBe(
    2,
  )
})

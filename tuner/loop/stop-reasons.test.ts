import { describe, expect, test } from 'vitest'
import type { FinishedTrial } from '../../trials/types.ts'
import { measurement } from '../testing/fakes.ts'
import {
  addUnplacedCount,
  findReasonToStop,
  reportSpaceExhausted,
  type SearchState,
} from './stop-reasons.ts'

const base = (number: number) => ({
  number,
  configuration: {},
  why: '',
  startedAt: '2026-01-01T00:00:00Z',
  seconds: 10,
})
const complete = (number: number): FinishedTrial => ({
  ...base(number),
  state: 'complete',
  measurement: measurement(100),
})
const failed = (number: number, final?: 'experiment' | 'configuration' | 'run'): FinishedTrial => ({
  ...base(number),
  state: 'failed',
  error: `error ${number}`,
  ...(final && { final }),
})
const infeasible = (
  number: number,
  reason: 'crashed' | 'requests-fail' | 'never-ready' | 'out-of-memory',
): FinishedTrial => ({
  ...base(number),
  state: 'infeasible',
  reason,
  detail: `detail ${number}`,
})
const disturbedTrial = (number: number): FinishedTrial => ({
  ...base(number),
  state: 'complete',
  measurement: { ...measurement(0), outcome: 'host-interference', bounds: 'none' },
})
/** `trials` are this run's, after those of `earlier`. */
const state = (
  trials: FinishedTrial[],
  rest: Partial<SearchState> = {},
  earlier: FinishedTrial[] = [],
): SearchState => ({
  trials: [...earlier, ...trials],
  trialsOfRun: trials,
  countedTrials: trials.filter((t) => t.state !== 'failed').length,
  spentUsd: 0,
  elapsedS: 0,
  ...rest,
})
const budget = { maxTrials: 10 }
const uncertain = { probabilityBetterExists: 0.2, tolerance: 0.05, stop: false }
const requiredGain = { tolerance: 0.05, payback: { minGain: 0.002, reason: 'the bill' } }
const certain = { probabilityBetterExists: 0.031, tolerance: 0.05, stop: true }

describe('the reason to stop', () => {
  test('is none without a failure, a reached goal or an exhausted budget', () => {
    expect(findReasonToStop(state([]), budget)).toBeUndefined()
    expect(
      findReasonToStop(state([complete(1)], { assessment: { ...certain, stop: false } }), budget),
    ).toBeUndefined()
  })

  test.each([
    ['four violations, the last trial predicted as infeasible', 4, 0.001, 0, 'slo-unattainable'],
    ['only three violations', 3, 0.001, 0, undefined],
    ['the last trial was predicted as possibly feasible', 4, 0.2, 0, undefined],
    ['a sampler without predictions', 4, undefined, 0, undefined],
    ['one configuration meets the SLO at some rate', 4, 0.001, 20, undefined],
  ])('an SLO below the unloaded latency: %s', (_, count, feasible, firstRps, reason) => {
    const slow = (number: number): FinishedTrial => {
      const { unloaded, ...rest } = measurement(number === 1 ? firstRps : 0)
      const ms = (rest.slo.limitMs * (10 + number)) / 10
      const percentiles = { p50Ms: ms, p90Ms: ms, p95Ms: ms, p99Ms: ms, p999Ms: ms, maxMs: ms }
      return {
        ...base(number),
        state: 'complete',
        measurement: { ...rest, unloaded: { ...unloaded, ...percentiles } },
        ...(feasible !== undefined && { predicted: { rate: 1, low: 1, high: 2, feasible } }),
      }
    }
    const trials = Array.from({ length: count }, (_, i) => slow(i + 1))
    const ending = findReasonToStop(state(trials), budget)
    expect(ending?.reason).toBe(reason)
    if (reason) expect(ending?.detail).toMatch(/unloaded latency.*trial 1/)
  })

  test('unplaced trials do not fail a run that measured others, and are mentioned at its end', () => {
    const unplaced = [2, 3, 4, 5].map((number) => failed(number, 'run'))
    expect(findReasonToStop(state([complete(1), ...unplaced]), budget)).toBeUndefined()
    expect(
      findReasonToStop(
        state([complete(1), ...[2, 3, 4, 5].map((number) => failed(number))]),
        budget,
      )?.reason,
    ).toBe('failed')
    expect(findReasonToStop(state(unplaced), budget)).toMatchObject({
      reason: 'failed',
      detail: expect.stringContaining('error 5'),
    })
    expect(
      addUnplacedCount({ reason: 'certain', detail: 'enough' }, [complete(1), ...unplaced]),
    ).toEqual({
      reason: 'certain',
      detail:
        'enough; 4 configurations that fitted on no node are not measured: tune resume tries them again',
    })
  })

  test('six disturbed trials from the first one on fail the run, unless one trial was measured', () => {
    const disturbed = disturbedTrial
    const five = [1, 2, 3, 4, 5].map(disturbed)
    expect(findReasonToStop(state(five), budget)).toBeUndefined()
    expect(findReasonToStop(state([...five, disturbed(6)]), budget)).toEqual({
      reason: 'failed',
      detail:
        'the machine was too busy in each of 6 trials; run tune resume once the machine is free of other work',
    })
    expect(
      findReasonToStop(state([complete(1), ...[2, 3, 4, 5, 6, 7].map(disturbed)]), budget),
    ).toBeUndefined()
    expect(findReasonToStop(state(five, {}, [disturbed(6)]), budget)).toBeUndefined()
  })

  test.each<[string, number, FinishedTrial[], string | undefined]>([
    ['as many as the maximum number of trials', 10, [complete(1)], 'machine-busy'],
    ['one fewer', 9, [complete(1)], undefined],
    ['and no other result', 10, [failed(1)], 'failed'],
  ])('disturbed attempts: %s', (_, count, others, reason) => {
    const busy = Array.from({ length: count }, (_, i) => disturbedTrial(i + 2))
    const countedTrials = 1
    expect(findReasonToStop(state([...others, ...busy], { countedTrials }), budget)?.reason).toBe(
      reason,
    )
    // Confirmations do not count, nor do trials of a run that ended.
    const confirmations = busy.map((trial) => ({ ...trial, purpose: 'confirmation' as const }))
    expect(
      findReasonToStop(state([complete(1), ...confirmations], { countedTrials }), budget),
    ).toBeUndefined()
    expect(findReasonToStop(state([complete(1)], { countedTrials }, busy), budget)).toBeUndefined()
  })

  test.each([
    [9, undefined],
    [10, 'max-trials'],
    [11, 'max-trials'],
  ])('%d trials of at most ten: %s', (countedTrials, reason) => {
    expect(findReasonToStop(state([], { countedTrials }), budget)?.reason).toBe(reason)
  })

  test.each([
    [59.9, undefined],
    [60, 'time-limit'],
  ])('%d s of a minute: %s', (elapsedS, reason) => {
    expect(findReasonToStop(state([], { elapsedS }), { ...budget, timeLimitS: 60 })?.reason).toBe(
      reason,
    )
  })

  test.each([
    [0.99, undefined],
    [1, 'budget'],
  ])('$%d of one dollar: %s', (spentUsd, reason) => {
    expect(findReasonToStop(state([], { spentUsd }), { ...budget, maxCost: 1 })?.reason).toBe(
      reason,
    )
    expect(findReasonToStop(state([], { spentUsd }), budget)).toBeUndefined()
  })

  test('the time limit and the budget are reported before the number of trials', () => {
    const both = { ...budget, timeLimitS: 60, maxCost: 1 }
    expect(findReasonToStop(state([], { countedTrials: 10, elapsedS: 60 }), both)).toEqual({
      reason: 'time-limit',
      detail: '60 s of 60 s',
    })
    expect(findReasonToStop(state([], { countedTrials: 10, spentUsd: 1 }), both)?.reason).toBe(
      'budget',
    )
    expect(
      findReasonToStop(state([], { countedTrials: 10, elapsedS: 59, spentUsd: 0.5 }), both)?.reason,
    ).toBe('max-trials')
  })

  test('certainty is reported rounded down', () => {
    expect(findReasonToStop(state([complete(1)], { assessment: certain }), budget)).toEqual({
      reason: 'certain',
      detail: '96 % likely that no untried configuration is over 5 % better (model estimate)',
    })
    const fine = { ...certain, tolerance: 0.005 }
    expect(findReasonToStop(state([complete(1)], { assessment: fine }), budget)?.detail).toContain(
      'over 0.5 % better',
    )
  })

  test.each([
    [0.0019, 'not-worthwhile'],
    [0.002, undefined],
  ])('an expected gain of %d with a required gain of 0.002: %s', (gain, reason) => {
    const outlook = { minTrials: 0, gain, regret: 0.2 }
    const assessment = { ...uncertain, outlook }
    expect(
      findReasonToStop(state([complete(1)], { assessment, requiredGain }), budget)?.reason,
    ).toBe(reason)
    expect(findReasonToStop(state([complete(1)], { assessment }), budget)).toBeUndefined()
    expect(
      findReasonToStop(state([complete(1)], { assessment: uncertain, requiredGain }), budget),
    ).toBeUndefined()
    expect(
      findReasonToStop(
        state([complete(1)], {
          assessment: { ...uncertain, outlook: { ...outlook, minTrials: 1 } },
          requiredGain,
        }),
        budget,
      ),
    ).toBeUndefined()
  })

  test('the detail has the expected gain, the required gain with its reason, and the certainty', () => {
    const because = (gain: number, regret: number) =>
      findReasonToStop(
        state([complete(1)], {
          assessment: { ...uncertain, outlook: { minTrials: 0, gain, regret } },
          requiredGain,
        }),
        budget,
      )?.detail
    expect(because(0.00034, 0.05)).toBe(
      'another trial is expected to save 0.034 %, less than the 0.2 % that would pay for it (the bill); 80 % likely that no untried configuration is over 5 % better (model estimate)',
    )
    expect(because(0.01, 0.019)).toBe(
      'the best untried configuration is expected to save 1.9 % where a saving within the tolerance of 5 % counts as none; 80 % likely that no untried configuration is over 5 % better (model estimate)',
    )
  })

  test('the certainty has the same rounding as in the recommendation', () => {
    // 1 - 0.43 is 0.57, and a hundred times that 56.99999999999999.
    expect(
      findReasonToStop(
        state([complete(1)], { assessment: { ...certain, probabilityBetterExists: 0.43 } }),
        budget,
      )?.detail,
    ).toContain('57 % likely')
  })

  test('the tolerance is printed without floating-point error', () => {
    // 0.29 x 100 is 28.999999999999996.
    expect(
      findReasonToStop(
        state([complete(1)], { assessment: { ...certain, tolerance: 0.29 } }),
        budget,
      )?.detail,
    ).toContain('over 29 % better')
  })

  test('four failures in a row fail the run; three do not, nor do four with a success between them', () => {
    expect(findReasonToStop(state([failed(1), failed(2), failed(3)]), budget)).toBeUndefined()
    expect(
      findReasonToStop(state([failed(1), failed(2), complete(3), failed(4)]), budget),
    ).toBeUndefined()
    expect(
      findReasonToStop(state([complete(1), failed(2), failed(3), failed(4), failed(5)]), budget),
    ).toEqual({
      reason: 'failed',
      detail: '4 trials failed in a row; the last: error 5',
    })
  })

  test('failures of a run that ended do not count', () => {
    const earlier = [failed(1), failed(2), failed(3)]
    expect(findReasonToStop(state([failed(4)], {}, earlier), budget)).toBeUndefined()
    expect(findReasonToStop(state([], {}, [failed(1, 'experiment')]), budget)).toBeUndefined()
  })

  test('one failure that is final for the experiment fails the run', () => {
    expect(findReasonToStop(state([complete(1), failed(2, 'experiment')]), budget)).toEqual({
      reason: 'failed',
      detail: 'every other trial would fail like trial 2',
    })
    expect(findReasonToStop(state([failed(2, 'configuration')]), budget)).toBeUndefined()
  })

  test('four predictors that never served fail the run; one that ran out of memory counts as started', () => {
    const never = [infeasible(1, 'crashed'), infeasible(2, 'never-ready'), failed(3)]
    expect(findReasonToStop(state([...never, infeasible(4, 'crashed')]), budget)).toEqual({
      reason: 'failed',
      detail: 'none of 4 predictors ever served; the last: detail 4',
    })
    expect(
      findReasonToStop(state([...never, infeasible(4, 'out-of-memory')]), budget),
    ).toBeUndefined()
    expect(
      findReasonToStop(state([...never, infeasible(4, 'crashed')], {}, [complete(0)]), budget),
    ).toBeUndefined()
  })

  test('a search without any predictor that served ends as failed, even with one trial', () => {
    const never = (number: number): FinishedTrial => ({
      ...infeasible(number, 'crashed'),
      configuration: { number },
    })
    expect(findReasonToStop(state([never(1)], { assessment: certain }), budget)).toBeUndefined()
    const ended = {
      reason: 'failed',
      detail: 'none of 2 predictors ever served; the last: detail 2',
    }
    expect(
      findReasonToStop(
        state([never(1), never(2)], { countedTrials: 10, assessment: certain }),
        budget,
      ),
    ).toEqual(ended)
    expect(reportSpaceExhausted(state([never(1), never(2)]))).toEqual(ended)
    expect(reportSpaceExhausted(state([never(1)]))).toEqual({
      reason: 'failed',
      detail: 'the only predictor never served; it: detail 1',
    })
    expect(
      reportSpaceExhausted(state([never(1), { ...complete(2), configuration: { batch: 2 } }])),
    ).toEqual({
      reason: 'space-exhausted',
      detail: 'all 2 configurations tried',
    })
  })

  test('repeated attempts count as one configuration', () => {
    expect(
      reportSpaceExhausted(state([complete(1), complete(2), failed(3), complete(4)])).detail,
    ).toBe('the one configuration tried')
  })

  test.each(['crashed', 'requests-fail'] as const)(
    'predictors that served first and then ended as %s fail the run with other words',
    (reason) => {
      const died = [1, 2, 3, 4].map(
        (number): FinishedTrial => ({ ...infeasible(number, reason), served: true }),
      )
      const ended = {
        reason: 'failed',
        detail: 'none of 4 predictors ever completed its trial; the last: detail 4',
      }
      expect(findReasonToStop(state(died), budget)).toEqual(ended)
      expect(reportSpaceExhausted(state(died))).toEqual(ended)
      expect(findReasonToStop(state([...died, complete(5)]), budget)).toBeUndefined()
    },
  )

  test('a failure is reported before certainty, and certainty before an exhausted budget', () => {
    const exhausted = { countedTrials: 10, assessment: certain }
    expect(findReasonToStop(state([failed(1, 'experiment')], exhausted), budget)?.reason).toBe(
      'failed',
    )
    expect(findReasonToStop(state([complete(1)], exhausted), budget)?.reason).toBe('certain')
  })
})

import { describe, expect, test } from 'vitest'
import type { FinishedTrial } from '../../trials/types.ts'
import { measurement } from '../testing/fakes.ts'
import { type SearchState, spaceExhausted, whyStop, withUnplaced } from './why-stop.ts'

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
  ofRun: trials,
  counted: trials.filter((t) => t.state !== 'failed').length,
  spent: 0,
  elapsedS: 0,
  ...rest,
})
const budget = { maxTrials: 10 }
const unsure = { probabilityBetterExists: 0.2, tolerance: 0.05, stop: false }
const worth = { tolerance: 0.05, paid: { leastGain: 0.002, because: 'the bill' } }
const sure = { probabilityBetterExists: 0.031, tolerance: 0.05, stop: true }

describe('why a search stops', () => {
  test('it goes on while nothing says otherwise', () => {
    expect(whyStop(state([]), budget)).toBeUndefined()
    expect(
      whyStop(state([complete(1)], { assessment: { ...sure, stop: false } }), budget),
    ).toBeUndefined()
  })

  test.each([
    [
      'four that violate it unloaded, the last as unlikely to meet it as any',
      4,
      0.001,
      0,
      'slo-unattainable',
    ],
    ['three are too few', 3, 0.001, 0, undefined],
    ['the last may have met it', 4, 0.2, 0, undefined],
    ['the search predicts nothing', 4, undefined, 0, undefined],
    ['one meets it at some rate', 4, 0.001, 20, undefined],
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
    const ending = whyStop(state(trials), budget)
    expect(ending?.reason).toBe(reason)
    if (reason) expect(ending?.detail).toMatch(/unloaded latency.*trial 1/)
  })

  test('what no node has a place for fails nothing while others are measured, and is said at the end', () => {
    const unplaced = [2, 3, 4, 5].map((number) => failed(number, 'run'))
    expect(whyStop(state([complete(1), ...unplaced]), budget)).toBeUndefined()
    expect(
      whyStop(state([complete(1), ...[2, 3, 4, 5].map((number) => failed(number))]), budget)
        ?.reason,
    ).toBe('failed')
    expect(whyStop(state(unplaced), budget)).toMatchObject({
      reason: 'failed',
      detail: expect.stringContaining('error 5'),
    })
    expect(withUnplaced({ reason: 'certain', detail: 'sure' }, [complete(1), ...unplaced])).toEqual(
      {
        reason: 'certain',
        detail:
          'sure; 4 configurations that fitted on no node are not measured: tune resume tries them again',
      },
    )
  })

  test('a machine that disturbs every trial from the first on ends it; one that was measured keeps it going', () => {
    const disturbed = disturbedTrial
    const five = [1, 2, 3, 4, 5].map(disturbed)
    expect(whyStop(state(five), budget)).toBeUndefined()
    expect(whyStop(state([...five, disturbed(6)]), budget)).toEqual({
      reason: 'failed',
      detail:
        'the machine was too busy in each of 6 trials; run tune resume once the machine is free of other work',
    })
    expect(
      whyStop(state([complete(1), ...[2, 3, 4, 5, 6, 7].map(disturbed)]), budget),
    ).toBeUndefined()
    expect(whyStop(state(five, {}, [disturbed(6)]), budget)).toBeUndefined()
  })

  test.each<[string, number, FinishedTrial[], string | undefined]>([
    ['as many as trials may run', 10, [complete(1)], 'machine-busy'],
    ['one fewer', 9, [complete(1)], undefined],
    ['of nothing but failures', 10, [failed(1)], 'failed'],
  ])('attempts that the machine disturbed: %s', (_, count, others, reason) => {
    const busy = Array.from({ length: count }, (_, i) => disturbedTrial(i + 2))
    const counted = 1
    expect(whyStop(state([...others, ...busy], { counted }), budget)?.reason).toBe(reason)
    // Confirmations are none of them, nor is what came before the last end.
    const confirmations = busy.map((trial) => ({ ...trial, purpose: 'confirmation' as const }))
    expect(whyStop(state([complete(1), ...confirmations], { counted }), budget)).toBeUndefined()
    expect(whyStop(state([complete(1)], { counted }, busy), budget)).toBeUndefined()
  })

  test.each([
    [9, undefined],
    [10, 'max-trials'],
    [11, 'max-trials'],
  ])('%d trials of at most ten: %s', (counted, reason) => {
    expect(whyStop(state([], { counted }), budget)?.reason).toBe(reason)
  })

  test.each([
    [59.9, undefined],
    [60, 'time-limit'],
  ])('%d s of a minute: %s', (elapsedS, reason) => {
    expect(whyStop(state([], { elapsedS }), { ...budget, timeLimitS: 60 })?.reason).toBe(reason)
  })

  test.each([
    [0.99, undefined],
    [1, 'budget'],
  ])('$%d of one dollar: %s', (spent, reason) => {
    expect(whyStop(state([], { spent }), { ...budget, maxCost: 1 })?.reason).toBe(reason)
    expect(whyStop(state([], { spent }), budget)).toBeUndefined()
  })

  test('spent time or money ends it before the count of trials does: the yardstick is not begun after them', () => {
    const both = { ...budget, timeLimitS: 60, maxCost: 1 }
    expect(whyStop(state([], { counted: 10, elapsedS: 60 }), both)).toEqual({
      reason: 'time-limit',
      detail: '60 s of 60 s',
    })
    expect(whyStop(state([], { counted: 10, spent: 1 }), both)?.reason).toBe('budget')
    expect(whyStop(state([], { counted: 10, elapsedS: 59, spent: 0.5 }), both)?.reason).toBe(
      'max-trials',
    )
  })

  test('it says how sure it is, rounded down', () => {
    expect(whyStop(state([complete(1)], { assessment: sure }), budget)).toEqual({
      reason: 'certain',
      detail: '96 % likely that no untried configuration is over 5 % better (model estimate)',
    })
    const fine = { ...sure, tolerance: 0.005 }
    expect(whyStop(state([complete(1)], { assessment: fine }), budget)?.detail).toContain(
      'over 0.5 % better',
    )
  })

  test.each([
    [0.0019, 'not-worthwhile'],
    [0.002, undefined],
  ])('not certain, and %d to be gained of 0.002 that a trial is worth: %s', (gain, reason) => {
    const outlook = { minTrials: 0, gain, regret: 0.2 }
    const assessment = { ...unsure, outlook }
    expect(whyStop(state([complete(1)], { assessment, worth }), budget)?.reason).toBe(reason)
    expect(whyStop(state([complete(1)], { assessment }), budget)).toBeUndefined()
    expect(whyStop(state([complete(1)], { assessment: unsure, worth }), budget)).toBeUndefined()
    expect(
      whyStop(
        state([complete(1)], {
          assessment: { ...unsure, outlook: { ...outlook, minTrials: 1 } },
          worth,
        }),
        budget,
      ),
    ).toBeUndefined()
  })

  test('it says what there is to gain, what there would have to be, why, and how sure the search is', () => {
    const because = (gain: number, regret: number) =>
      whyStop(
        state([complete(1)], {
          assessment: { ...unsure, outlook: { minTrials: 0, gain, regret } },
          worth,
        }),
        budget,
      )?.detail
    expect(because(0.00034, 0.05)).toBe(
      'another trial is expected to save 0.034 %, less than the 0.2 % that would pay for it (the bill); 80 % likely that no untried configuration is over 5 % better (model estimate)',
    )
    expect(because(0.01, 0.021)).toBe(
      'the best untried configuration is expected to save 2.1 %, less than two thirds of the tolerance of 5 %; 80 % likely that no untried configuration is over 5 % better (model estimate)',
    )
  })

  test('as sure as the recommendation says', () => {
    // 1 - 0.43 is 0.57, and a hundred times that 56.99999999999999.
    expect(
      whyStop(
        state([complete(1)], { assessment: { ...sure, probabilityBetterExists: 0.43 } }),
        budget,
      )?.detail,
    ).toContain('57 % likely')
  })

  test('its tolerance in whole percent, however a computer holds it', () => {
    // 0.29 x 100 is 28.999999999999996.
    expect(
      whyStop(state([complete(1)], { assessment: { ...sure, tolerance: 0.29 } }), budget)?.detail,
    ).toContain('over 29 % better')
  })

  test('four failures in a row, not three, nor four with a success between', () => {
    expect(whyStop(state([failed(1), failed(2), failed(3)]), budget)).toBeUndefined()
    expect(whyStop(state([failed(1), failed(2), complete(3), failed(4)]), budget)).toBeUndefined()
    expect(
      whyStop(state([complete(1), failed(2), failed(3), failed(4), failed(5)]), budget),
    ).toEqual({
      reason: 'failed',
      detail: '4 trials failed in a row; the last: error 5',
    })
  })

  test('what failed in an earlier run may have been mended since', () => {
    const earlier = [failed(1), failed(2), failed(3)]
    expect(whyStop(state([failed(4)], {}, earlier), budget)).toBeUndefined()
    expect(whyStop(state([], {}, [failed(1, 'experiment')]), budget)).toBeUndefined()
  })

  test('one failure that every trial would meet', () => {
    expect(whyStop(state([complete(1), failed(2, 'experiment')]), budget)).toEqual({
      reason: 'failed',
      detail: 'every other trial would fail like trial 2',
    })
    expect(whyStop(state([failed(2, 'configuration')]), budget)).toBeUndefined()
  })

  test('four predictors of which none ever served: one that ran out of memory did start', () => {
    const never = [infeasible(1, 'crashed'), infeasible(2, 'never-ready'), failed(3)]
    expect(whyStop(state([...never, infeasible(4, 'crashed')]), budget)).toEqual({
      reason: 'failed',
      detail: 'none of 4 predictors ever served; the last: detail 4',
    })
    expect(whyStop(state([...never, infeasible(4, 'out-of-memory')]), budget)).toBeUndefined()
    expect(
      whyStop(state([...never, infeasible(4, 'crashed')], {}, [complete(0)]), budget),
    ).toBeUndefined()
  })

  test('a search whose predictors never started does not end well, however few there are', () => {
    const never = (number: number): FinishedTrial => ({
      ...infeasible(number, 'crashed'),
      configuration: { number },
    })
    expect(whyStop(state([never(1)], { assessment: sure }), budget)).toBeUndefined()
    const ended = {
      reason: 'failed',
      detail: 'none of 2 predictors ever served; the last: detail 2',
    }
    expect(whyStop(state([never(1), never(2)], { counted: 10, assessment: sure }), budget)).toEqual(
      ended,
    )
    expect(spaceExhausted(state([never(1), never(2)]))).toEqual(ended)
    expect(spaceExhausted(state([never(1)]))).toEqual({
      reason: 'failed',
      detail: 'the only predictor never served; it: detail 1',
    })
    expect(
      spaceExhausted(state([never(1), { ...complete(2), configuration: { batch: 2 } }])),
    ).toEqual({
      reason: 'space-exhausted',
      detail: 'all 2 configurations tried',
    })
  })

  test('a configuration that was tried again and again is one', () => {
    expect(spaceExhausted(state([complete(1), complete(2), failed(3), complete(4)])).detail).toBe(
      'the one configuration tried',
    )
  })

  test.each(['crashed', 'requests-fail'] as const)(
    'predictors that served before they %s: it is a failure in other words',
    (reason) => {
      const died = [1, 2, 3, 4].map(
        (number): FinishedTrial => ({ ...infeasible(number, reason), served: true }),
      )
      const ended = {
        reason: 'failed',
        detail: 'none of 4 predictors ever completed its trial; the last: detail 4',
      }
      expect(whyStop(state(died), budget)).toEqual(ended)
      expect(spaceExhausted(state(died))).toEqual(ended)
      expect(whyStop(state([...died, complete(5)]), budget)).toBeUndefined()
    },
  )

  test('what is wrong comes before what is reached, and that before a spent budget', () => {
    const spent = { counted: 10, assessment: sure }
    expect(whyStop(state([failed(1, 'experiment')], spent), budget)?.reason).toBe('failed')
    expect(whyStop(state([complete(1)], spent), budget)?.reason).toBe('certain')
  })
})

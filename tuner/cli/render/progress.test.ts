import { expect, test } from 'vitest'
import { measurement } from '../../testing/fakes.ts'
import {
  applyEvent,
  countTrials,
  estimateRemainingSeconds,
  initialProgress,
  type Progress,
  type Row,
  type RunningTrial,
} from './progress.ts'

const row = {
  trial: { state: 'complete', measurement: measurement(100) },
  turnSeconds: 6,
} as Row
const running = (startedAtMs: number, confirming = false) =>
  ({ startedAtMs, confirming }) as RunningTrial
const progress = (part: Partial<Progress>): Progress => ({
  ...initialProgress,
  slo: { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 },
  maxTrials: 12,
  ...part,
})

test('trials that failed or were disturbed and confirmations take no place of those that may run', () => {
  const failed = { trial: { state: 'failed' } } as Row
  const disturbed = {
    trial: { state: 'complete', measurement: { ...measurement(0), outcome: 'host-interference' } },
  } as Row
  const confirmation = { trial: { state: 'complete', purpose: 'confirmation' } } as Row
  expect(
    countTrials(progress({ countedTrials: 2, rows: [row, failed, disturbed, confirmation, row] })),
  ).toBe(4)
})

test('nothing is known before the first trial is done', () => {
  expect(estimateRemainingSeconds(progress({ confirmSeconds: 30 }), 0)).toBeUndefined()
})

test('the trials that may come, and the confirmation', () => {
  const state = progress({ rows: [row, row], running: [running(1000)] })
  expect(estimateRemainingSeconds(state, 3000)).toBe(58)
  expect(estimateRemainingSeconds({ ...state, confirmSeconds: 30 }, 3000)).toBe(77)
})

test('a confirmation starts its server as the last trial did; trials at once share the time', () => {
  const at = '2026-01-01T00:00:00Z'
  const suggestion = { configuration: {}, why: '' }
  const started = (number: number) =>
    ({
      type: 'trial-started',
      at,
      number,
      label: '',
      pricePerHour: 1,
      suggestion,
      attempt: 1,
    }) as const
  const ready = { type: 'predictor-ready', at, number: 1, isolation: 'none', seconds: 40 } as const
  const state = [started(1), started(2), ready].reduce<Progress>(
    applyEvent,
    progress({ rows: [row, row], confirmSeconds: 30 }),
  )
  expect(estimateRemainingSeconds(state, Date.parse(at))).toBe((10 * 6) / 2 + 15 + 2 + 40)
})

test('only the trials that are foretold, where that was done', () => {
  const assessed = {
    type: 'stop-assessed',
    at: '2026-01-01T00:00:00Z',
    assessment: { probabilityBetterExists: 0.5, tolerance: 0.05, stop: false },
  } as const
  const state = progress({ rows: [row, row], running: [running(1000)] })
  expect(
    estimateRemainingSeconds(
      applyEvent(state, { ...assessed, afterTrials: 2, trialsLeft: 3 }),
      3000,
    ),
  ).toBe(16)
  // The next one is done, and nothing new is known yet.
  expect(
    estimateRemainingSeconds(
      {
        ...applyEvent(state, { ...assessed, afterTrials: 2, trialsLeft: 3 }),
        rows: [row, row, row],
      },
      3000,
    ),
  ).toBe(10)
  expect(estimateRemainingSeconds(applyEvent(state, { ...assessed, afterTrials: 2 }), 3000)).toBe(
    58,
  )
})

test('while it is confirmed, what is left of that; nothing is claimed once it takes longer', () => {
  const state = progress({ rows: [row], confirmSeconds: 30, running: [running(0, true)] })
  expect(estimateRemainingSeconds(state, 10_000)).toBe(9)
  expect(estimateRemainingSeconds(state, 40_000)).toBeUndefined()
})

test('a confirmation of few requests lasts until a queue would have grown', () => {
  const measured = (capacityRps: number) =>
    ({ ...row, trial: { ...row.trial, number: 3, measurement: { capacityRps } } }) as Row
  const state = (capacityRps: number, limitMs: number) =>
    progress({
      ...{
        confirmSeconds: 30,
        running: [running(0, true)],
        best: { number: 3, label: '', costLabel: '' },
        rows: [measured(capacityRps)],
      },
      slo: { percentile: 0.99, limitMs, maxErrorRate: 0.001 },
    })
  // Twenty times the limit, with its loops and its start; twice its time at the most.
  expect(estimateRemainingSeconds(state(10, 2000), 0)).toBe(44)
  expect(estimateRemainingSeconds(state(1, 10_000), 0)).toBe(64)
  expect(estimateRemainingSeconds(state(1000, 2000), 0)).toBe(19)
})

test('a finished trial keeps the number of its attempt', () => {
  const at = '2026-01-01T00:00:00Z'
  const suggestion = { configuration: {}, why: '' }
  const trial = { number: 4, state: 'failed' } as Row['trial']
  const state = [
    { type: 'trial-started', at, number: 4, label: '', pricePerHour: 1, suggestion, attempt: 2 },
    { type: 'trial-finished', at, trial, label: '', pricePerHour: 1, retry: false, spent: 0 },
  ] as const
  expect(state.reduce<Progress>(applyEvent, progress({})).rows.at(-1)).toMatchObject({ attempt: 2 })
})

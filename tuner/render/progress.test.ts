import { expect, test } from 'vitest'
import { etaSeconds, noProgress, type Progress, type Row, type RunningTrial } from './progress.ts'

const row = { trial: { state: 'complete', seconds: 6 } } as Row
const running = (startedAtMs: number, confirming = false) => ({ startedAtMs, confirming }) as RunningTrial
const progress = (part: Partial<Progress>): Progress => ({ ...noProgress, maxTrials: 12, ...part })

test('nothing is known before the first trial is done', () => {
  expect(etaSeconds(progress({ confirmSeconds: 30 }), 0)).toBeUndefined()
})

test('the trials that may come, and the confirmation', () => {
  const state = progress({ rows: [row, row], running: [running(1000)] })
  expect(etaSeconds(state, 3000)).toBe(58)
  expect(etaSeconds({ ...state, confirmSeconds: 30 }, 3000)).toBe(92)
})

test('while it is confirmed, what is left of that; nothing is claimed once it takes longer', () => {
  const state = progress({ rows: [row], confirmSeconds: 30, running: [running(0, true)] })
  expect(etaSeconds(state, 10_000)).toBe(24)
  expect(etaSeconds(state, 40_000)).toBeUndefined()
})

import { expect, test } from 'vitest'
import { describeConfidence } from '../../reports/recommendation/verdict.ts'
import type { ExperimentRecord } from '../../trials/types.ts'
import { readStopPosterior } from './reevaluation.ts'

const record = (result?: unknown): ExperimentRecord => ({
  id: 'bert-7f3a',
  name: 'bert',
  createdAt: '2026-01-01T00:00:00Z',
  spec: {},
  provenance: 'measured',
  seed: 1,
  state: 'done',
  result,
})

const objective = { kind: 'price-per-request' } as const

test('the stop belief of a stored recommendation gives the same confidence again', () => {
  for (const belief of [
    { probabilityBetterExists: 0.04, tolerance: 0.1 },
    { probabilityBetterExists: 1, tolerance: 0.05 },
    undefined,
  ]) {
    const confidence = describeConfidence(objective, belief)
    expect(describeConfidence(objective, readStopPosterior(record({ confidence })))).toEqual(
      confidence,
    )
  }
})

test('there is no stop belief before the end of an experiment, or without an assessment', () => {
  expect(readStopPosterior(record())).toBeUndefined()
  const confidence = { tolerance: 0.05, statement: 'not assessed' }
  expect(readStopPosterior(record({ confidence }))).toBeUndefined()
})

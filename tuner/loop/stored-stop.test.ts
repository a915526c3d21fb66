import { expect, test } from 'vitest'
import { confidenceOf } from '../../reports/recommendation/verdict.ts'
import type { ExperimentRecord } from '../../trials/types.ts'
import { stopOf } from './stored-stop.ts'

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

test('what is read back says what was said', () => {
  for (const given of [
    { probabilityBetterExists: 0.04, tolerance: 0.1 },
    { probabilityBetterExists: 1, tolerance: 0.05 },
    undefined,
  ]) {
    const said = confidenceOf(objective, given)
    expect(confidenceOf(objective, stopOf(record({ confidence: said })))).toEqual(said)
  }
})

test('nothing, of an experiment that did not end or of an older version', () => {
  expect(stopOf(record())).toBeUndefined()
  expect(
    stopOf(
      record({
        confidence: { tolerance: 0.05, statement: 'not assessed' },
      }),
    ),
  ).toBeUndefined()
})

import { expect, test } from 'vitest'
import { createServing } from './create-serving.ts'
import { found, recommendation, serving } from './spec-samples.contract.ts'

test('refuses a trial that cannot serve, and numbers that cannot be', () => {
  const dead = recommendation.alternatives.find((a) => a.trial === 5)!
  expect(() => createServing({ ...found, candidate: dead }, { headroom: 0 })).toThrow(
    /out of memory/,
  )
  expect(() => serving({ headroom: 1 })).toThrow(/headroom/)
  expect(() => serving({ minReplicas: 5, maxReplicas: 2 })).toThrow(/not a valid range/)
})

import { expect, test } from 'vitest'
import { createRng } from '../rng.ts'
import type { Parameter, Problem } from '../types.ts'
import { gridSampler } from './grid.ts'

const problemOf = (...parameters: readonly Parameter[]): Problem => ({
  space: { parameters, constraints: [] },
  objective: { kind: 'price' },
  pricePerHour: () => 1,
})
const batch: Parameter = {
  name: 'batch',
  category: 'server',
  kind: 'ordinal',
  values: [1, 2],
  scale: 'log',
}
const cores: Parameter = {
  name: 'cores',
  category: 'resource',
  kind: 'int',
  min: 1,
  max: 2,
  scale: 'linear',
}

test('walks the grid in order without pending trials, to its end', () => {
  const given = problemOf(cores, batch)
  const pending = [{ cores: 1, batch: 2 }]
  const tried = { configuration: { cores: 1, batch: 1 }, state: 'infeasible', reason: '' } as const
  expect(gridSampler.suggest(given, [], [], createRng(1))).toEqual({
    configuration: { cores: 1, batch: 1 },
    why: 'grid 1 of 4',
  })
  expect(gridSampler.suggest(given, [tried], pending, createRng(1))).toEqual({
    configuration: { cores: 2, batch: 1 },
    why: 'grid 3 of 4',
  })
  const last = [...pending, { cores: 2, batch: 1 }, { cores: 2, batch: 2 }]
  expect(gridSampler.suggest(given, [tried], last, createRng(1))).toBeUndefined()
})

test('warns where the space is sampled', () => {
  const suggestion = gridSampler.suggest(
    problemOf({ ...cores, kind: 'float' }),
    [],
    [],
    createRng(1),
  )!
  expect(suggestion.why).toBe('quasi-random grid')
  expect(suggestion.warning).toMatch(/Infinity configurations is too large/)
})

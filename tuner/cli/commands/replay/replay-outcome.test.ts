import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readOwnTable } from '../../../../reports/imports/own-table.ts'
import { parseReplayTask } from '../../../../reports/imports/replay-task-schema.ts'
import { configurationKey, createRng } from '../../../../search/index.ts'
import { createRecordedTable } from '../../../../search/replay/table.ts'
import {
  computeTrueCosts,
  type ReplayOptions,
  searchAtRandom,
  searchTable,
  summariseLookUps,
} from './replay-outcome.ts'

const options: ReplayOptions = { sampler: 'gp', maxTrials: 12, noisy: false }

function outcomeOf(task: object, csv: string, given: ReplayOptions = options, seed = 1) {
  const { task: read, rows } = readOwnTable(
    parseReplayTask({ file: 'task.json', text: JSON.stringify(task) }),
    {
      file: 'runs.csv',
      text: csv,
    },
  )
  const recorded = createRecordedTable(given.noisy ? { ...read, relativeNoise: 0.1 } : read, rows)
  const truth = computeTrueCosts(recorded)
  return { recorded, truth, run: searchTable(recorded, truth, seed, given) }
}

const taskOf = (parameters: readonly object[], objective = 'pricePerRequest') => ({
  parameters,
  price: 'price',
  objective,
  rate: 'rps',
  constraint: { metric: 'ms', max: 50 },
  infeasibleColumn: 'failed',
})

describe('tables of which a grid would have many more configurations', () => {
  const columns = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
  const rng = createRng('sparse table')
  const rows = Array.from({ length: 120 }, () => {
    const values = columns.map(() => 1 + rng.int(10))
    const ms = 10 + values.reduce((a, b) => a + b) + values[0]!
    return [...values, ms, 100 + 20 * values[1]!, 0.2 + 0.1 * values[2]!, 0].join(',')
  })
  const csv = `${columns.join(',')},ms,rps,price,failed\n${rows.join('\n')}\n`

  test.each(['gp', 'random', 'grid', 'sobol', 'halton'])(
    '%s searches 120 rows of ten million, and only those',
    (sampler) => {
      const { recorded, run } = outcomeOf(taskOf(columns.map((name) => ({ name }))), csv, {
        ...options,
        sampler,
        maxTrials: 8,
      })
      const there = new Set(recorded.configurations.map(configurationKey))
      // A sample of the grid hits none to three of them.
      expect(run.observations.length).toBeGreaterThan(6)
      for (const { configuration } of run.observations)
        expect(there).toContain(configurationKey(configuration))
    },
  )

  test('the search comes near the cheapest sooner than random search', () => {
    const given = { ...options, maxTrials: 30 }
    const { recorded, truth } = outcomeOf(taskOf(columns.map((name) => ({ name }))), csv, {
      ...options,
      maxTrials: 1,
    })
    const seeds = [1, 2, 3]
    const ours = summariseLookUps(
      seeds.map((seed) => searchTable(recorded, truth, seed, given).lookUpsToWithin5Percent),
    )
    const random = summariseLookUps(
      seeds.map((seed) => searchAtRandom(recorded, truth, seed, given)),
    )
    expect(ours.median).toBeLessThan(random.median)
  })
})

test('what it recommends under noise is judged by the recorded figures', () => {
  const csv = 'a,ms,rps,price,failed\n1,20,100,1,0\n2,49.9,200,1,0\n3,50.1,210,1,0\n4,80,220,1,0\n'
  for (const seed of [1, 2, 3, 4, 5, 6]) {
    const { run } = outcomeOf(taskOf([{ name: 'a' }]), csv, { ...options, noisy: true }, seed)
    const { a } = run.best!.configuration
    expect(run.regret === undefined).toBe(Number(a) >= 3)
    if (a === 2) expect(run.regret).toBe(0)
    if (a === 1) expect(run.regret).toBeCloseTo(1, 9)
  }
})

test('median and 90th percentile of look-ups, those that never came near last', () => {
  expect(summariseLookUps([3, Infinity, 1, 2])).toEqual({ median: 2, p90: Infinity, reached: 0.75 })
})

const rowOf = (count: number) =>
  fc.record({
    values: fc.array(fc.oneof(fc.integer({ min: 0, max: 9 }), fc.constantFrom(0.25, 1.5, -3)), {
      minLength: count,
      maxLength: count,
    }),
    ms: fc.oneof(fc.double({ min: 0, max: 200, noNaN: true }), fc.constantFrom(0, 50, 1e-9, 1e9)),
    rps: fc.oneof(fc.double({ min: 1e-3, max: 1e4, noNaN: true }), fc.constantFrom(1, 1e-9, 1e9)),
    price: fc.oneof(
      fc.double({ min: 0.01, max: 100, noNaN: true }),
      fc.constantFrom(1, 1, 1e-9, 1e9),
    ),
    failed: fc.constantFrom(0, 0, 0, 1),
  })
const few = { minLength: 1, maxLength: 20 }
const many = { minLength: 20, maxLength: 60, size: 'max' } as const

/**
 * Random tables: ordinal and named parameters, some failed launches, repeats where chance has them.
 */
const tables = fc.integer({ min: 1, max: 6 }).chain((count) =>
  fc.record({
    count: fc.constant(count),
    numeric: fc.array(fc.boolean(), { minLength: count, maxLength: count }),
    objective: fc.constantFrom('price', 'pricePerRequest'),
    noisy: fc.boolean(),
    sampler: fc.constantFrom('gp', 'gp', 'gp', 'random', 'grid', 'sobol', 'halton'),
    rows: fc.oneof(
      { weight: 3, arbitrary: fc.array(rowOf(count), few) },
      { weight: 1, arbitrary: fc.array(rowOf(count), many) },
    ),
  }),
)

test('every table ends: a recorded row that is recommended, or none that keeps the limit', {
  timeout: 120_000,
}, () => {
  fc.assert(
    fc.property(tables, ({ count, numeric, objective, noisy, sampler, rows }) => {
      const names = Array.from({ length: count }, (_, i) => `p${i}`)
      const lines = rows.map(({ values, ms, rps, price, failed }) =>
        [
          ...values.map((v, i) => (numeric[i] ? v : `n${v}`)),
          failed ? '' : ms,
          failed ? '' : rps,
          price,
          failed,
        ].join(','),
      )
      const csv = `${names.join(',')},ms,rps,price,failed\n${lines.join('\n')}\n`
      const { recorded, truth, run } = outcomeOf(
        taskOf(
          names.map((name) => ({ name })),
          objective,
        ),
        csv,
        { sampler, maxTrials: 12, noisy },
      )
      expect(run.observations.length).toBeGreaterThan(0)
      const there = new Set(recorded.configurations.map(configurationKey))
      for (const { configuration } of run.observations)
        expect(there.has(configurationKey(configuration))).toBe(true)
      if (run.best) expect(run.regret ?? 0).toBeGreaterThanOrEqual(0)
      else expect(noisy || truth.feasible < recorded.configurations.length).toBe(true)
      if (truth.feasible === 0) expect(run.regret).toBeUndefined()
    }),
  )
})

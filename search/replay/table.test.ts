import { describe, expect, test } from 'vitest'
import { createSampler } from '../index.ts'
import { createRng } from '../rng.ts'
import { configurationKey } from '../space/space.ts'
import { computeTrueLogCosts, createRecordedTable, replaySearch } from './table.ts'
import type { ReplayRow, ReplayTask } from './task.ts'

const task: ReplayTask = {
  name: 'toy',
  parameters: [
    { name: 'gpu', kind: 'categorical', values: ['T4', 'A10'] },
    { name: 'batch', kind: 'ordinal', values: [1, 2, 4] },
  ],
  price: 'pricePerHour',
  objective: 'pricePerRequest',
  constraint: { metric: 'latencyMs', max: 30 },
  infeasibleColumn: 'infeasible',
  relativeNoise: 0.03,
}
const row = (gpu: string, batch: number, latencyMs: number | '', infeasible = 0): ReplayRow => ({
  gpu,
  batch: String(batch),
  latencyMs,
  throughputRps: latencyMs === '' ? '' : (1000 * batch) / latencyMs,
  pricePerHour: gpu === 'T4' ? 0.5 : 1,
  infeasible,
})
const rows = [
  row('T4', 1, 10),
  row('T4', 2, 18),
  row('T4', 4, '', 1),
  row('A10', 1, 6),
  row('A10', 2, 9),
  row('A10', 4, 40),
]

describe('createRecordedTable', () => {
  test('looks trials up, simulates noise only with an rng, and reports infeasible ones', () => {
    const table = createRecordedTable(task, rows)
    expect(table.measure({ gpu: 'T4', batch: 2 })).toMatchObject({
      state: 'complete',
      constraint: { value: 18, logSd: 0.03 },
    })
    expect(table.measure({ gpu: 'T4', batch: 2 }, createRng(1))).not.toMatchObject({
      constraint: { value: 18 },
    })
    expect(table.measure({ gpu: 'T4', batch: 4 })).toMatchObject({ state: 'infeasible' })
    expect(computeTrueLogCosts(table).get(configurationKey({ gpu: 'A10', batch: 4 }))).toBe(
      Infinity,
    )
  })
  test('names every fault of a table at once', () => {
    expect(() => createRecordedTable(task, [])).toThrow('it has no rows')
    expect(() => createRecordedTable({ ...task, price: 'dollars' }, rows)).toThrow(
      /no column 'dollars' \(it has gpu, batch/,
    )
    expect(() =>
      createRecordedTable(task, [
        row('T4', 1, 10),
        { ...row('T4', 2, 10), latencyMs: 'fast', pricePerHour: '' },
      ]),
    ).toThrow("row 2: pricePerHour is '', not a number; row 2: latencyMs is 'fast', not a number")
  })
})

test.each(['gp', 'random', 'grid', 'sobol', 'halton'])('%s replays a table to its end', (name) => {
  const { observations, assessments } = replaySearch(
    createRecordedTable(task, rows),
    createSampler(name),
    createRng(1),
    {
      maxTrials: 10,
      stop: 'assess',
    },
  )
  expect(observations).toHaveLength(6)
  const last = assessments.at(-1)!
  expect(last).toMatchObject({ tolerance: 0.05, stop: true })
  expect(last.probabilityBetterExists).toBeLessThanOrEqual(0.05)
})

describe('a recorded table as a problem', () => {
  const { problem, configurations, measure } = createRecordedTable(task, [...rows].reverse())

  test('has only the recorded rows, in grid order', () => {
    expect(configurations.map((c) => `${c.gpu} ${c.batch}`)).toEqual([
      'T4 1',
      'T4 2',
      'T4 4',
      'A10 1',
      'A10 2',
      'A10 4',
    ])
    const sparse = createRecordedTable(task, rows.slice(1, 4))
    expect(sparse.problem.space.constraints[0]!.holds({ gpu: 'A10', batch: 4 })).toBe(false)
    expect(sparse.problem.space.constraints[0]!.holds({ gpu: 'T4', batch: 2 })).toBe(true)
    expect(() => sparse.measure({ gpu: 'A10', batch: 4 })).toThrow(
      'table of toy has no row for gpu=A10 batch=4',
    )
  })
  test('has the prices, the limit and the objective of the task', () => {
    expect(problem).toMatchObject({
      objective: { kind: 'price-per-request' },
      constraintLimit: 30,
      constraintAtRate: true,
    })
    expect(problem.pricePerHour({ gpu: 'A10', batch: 1 })).toBe(1)
    const priced = createRecordedTable(
      { ...task, objective: 'price', relativeNoise: undefined },
      rows,
    )
    expect(priced.problem).toMatchObject({ objective: { kind: 'price' }, constraintAtRate: false })
    expect(priced.measure({ gpu: 'T4', batch: 1 }, createRng(1))).toEqual({
      configuration: { gpu: 'T4', batch: 1 },
      state: 'complete',
      constraint: { value: 10 },
    })
  })
  test('returns the recorded values, with noise around them', () => {
    expect(measure({ gpu: 'T4', batch: 1 })).toEqual({
      configuration: { gpu: 'T4', batch: 1 },
      state: 'complete',
      rate: { value: 100, logSd: 0.03 },
      constraint: { value: 10, logSd: 0.03 },
    })
    const rng = createRng(4)
    const logs = Array.from({ length: 400 }, () => {
      const o = measure({ gpu: 'T4', batch: 1 }, rng)
      return o.state === 'complete' ? Math.log(o.rate!.value / 100) : Number.NaN
    })
    const sd = Math.sqrt(logs.reduce((sum, v) => sum + v * v, 0) / 400)
    expect(sd / 0.03).toBeCloseTo(1, 0.8)
  })
  test('recognises concurrency by name, and log axes by their values', () => {
    const parameterOf = (name: string, values = [1, 2], concurrency?: boolean) => {
      const given = {
        ...task,
        parameters: [{ name, kind: 'ordinal' as const, values, concurrency }],
      }
      return createRecordedTable(
        given,
        values.map((v) => ({ ...row('T4', 1, 10), [name]: v })),
      ).problem.space.parameters[0]!
    }
    const names = [
      'batch',
      'batchSize',
      'max_batch_size',
      'max-num-seqs',
      'concurrency',
      'instanceCount',
      'workers',
      'cores',
      'memory',
      'batches',
    ]
    expect(names.map((name) => parameterOf(name).concurrency)).toEqual([
      true,
      true,
      true,
      true,
      true,
      true,
      true,
      false,
      false,
      false,
    ])
    expect([
      parameterOf('batch', [1, 2], false).concurrency,
      parameterOf('cores', [1, 2], true).concurrency,
    ]).toEqual([false, true])
    expect([parameterOf('cores'), parameterOf('cores', [0, 1])]).toMatchObject([
      { scale: 'log' },
      { scale: 'linear' },
    ])
  })
  test('the true cost of each is its noise-free cost', () => {
    const costs = computeTrueLogCosts(createRecordedTable(task, rows))
    expect(costs.get(configurationKey({ gpu: 'T4', batch: 1 }))).toBeCloseTo(
      Math.log((0.5 / 3600 / 100) * 1e6),
      12,
    )
    expect([...costs.values()].filter((v) => v === Infinity)).toHaveLength(2)
  })
})

describe('a replay', () => {
  const table = createRecordedTable({ ...task, relativeNoise: undefined }, rows)
  const run = (options: Parameters<typeof replaySearch>[3]) =>
    replaySearch(table, createSampler('grid'), createRng(1), options)

  test('ends at maxTrials, at `until`, or by the stop rule', () => {
    expect(run({ maxTrials: 3, stop: 'never' }).observations.map((o) => o.configuration)).toEqual(
      table.configurations.slice(0, 3),
    )
    const waited = run({
      maxTrials: 6,
      stop: 'assess',
      until: (seen, assessments) => seen.length === 4 && assessments.length === 4,
    })
    expect(waited.observations).toHaveLength(4)
    expect(run({ maxTrials: 9, stop: 'never' })).toMatchObject({
      observations: { length: 6 },
      assessments: [],
    })
    const { observations, assessments } = run({ maxTrials: 9 })
    expect(assessments.findIndex((a) => a.stop)).toBe(observations.length - 1)
    const assessed = run({ maxTrials: 9, stop: 'assess' })
    expect(assessed.observations).toHaveLength(6)
    expect(assessed.assessments).toEqual(assessments)
  })
  test('draws the noise of the task where it is asked for', () => {
    const noisy = createRecordedTable({ ...task, relativeNoise: 0.2 }, rows)
    const measurements = (draws: boolean) =>
      replaySearch(noisy, createSampler('grid'), createRng(1), {
        maxTrials: 2,
        stop: 'never',
        noisy: draws,
      }).observations.map((o) => o.state === 'complete' && o.constraint!.value)
    expect(measurements(false)).toEqual([10, 18])
    expect(measurements(true)).toEqual(measurements(true))
    expect(measurements(true)[0]).not.toBe(10)
    expect(Math.log(Number(measurements(true)[0]) / 10)).not.toBeCloseTo(
      Math.log(Number(measurements(true)[1]) / 18),
      6,
    )
  })
})

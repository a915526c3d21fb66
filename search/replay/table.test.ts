import { describe, expect, test } from 'vitest'
import { createSampler } from '../index.ts'
import { createRng } from '../rng.ts'
import { configurationKey } from '../space/space.ts'
import { recordedTable, replay, trueLogCosts } from './table.ts'
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

describe('recordedTable', () => {
  test('looks trials up, draws noise only with an rng, and keeps infeasible ones', () => {
    const table = recordedTable(task, rows)
    expect(table.measure({ gpu: 'T4', batch: 2 })).toMatchObject({
      state: 'complete',
      constraint: { value: 18, logSd: 0.03 },
    })
    expect(table.measure({ gpu: 'T4', batch: 2 }, createRng(1))).not.toMatchObject({
      constraint: { value: 18 },
    })
    expect(table.measure({ gpu: 'T4', batch: 4 })).toMatchObject({ state: 'infeasible' })
    expect(trueLogCosts(table).get(configurationKey({ gpu: 'A10', batch: 4 }))).toBe(Infinity)
  })
  test('names every fault of a table at once', () => {
    expect(() => recordedTable(task, [])).toThrow('it has no rows')
    expect(() => recordedTable({ ...task, price: 'dollars' }, rows)).toThrow(
      /no column 'dollars' \(it has gpu, batch/,
    )
    expect(() =>
      recordedTable(task, [
        row('T4', 1, 10),
        { ...row('T4', 2, 10), latencyMs: 'fast', pricePerHour: '' },
      ]),
    ).toThrow("row 2: pricePerHour is '', not a number; row 2: latencyMs is 'fast', not a number")
  })
})

test.each(['gp', 'random', 'grid', 'sobol', 'halton'])('%s replays a table to its end', (name) => {
  const { observations, assessments } = replay(
    recordedTable(task, rows),
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
  const { problem, configurations, measure } = recordedTable(task, [...rows].reverse())

  test('has the recorded rows alone, as a grid lists them', () => {
    expect(configurations.map((c) => `${c.gpu} ${c.batch}`)).toEqual([
      'T4 1',
      'T4 2',
      'T4 4',
      'A10 1',
      'A10 2',
      'A10 4',
    ])
    const sparse = recordedTable(task, rows.slice(1, 4))
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
    const priced = recordedTable({ ...task, objective: 'price', relativeNoise: undefined }, rows)
    expect(priced.problem).toMatchObject({ objective: { kind: 'price' }, constraintAtRate: false })
    expect(priced.measure({ gpu: 'T4', batch: 1 }, createRng(1))).toEqual({
      configuration: { gpu: 'T4', batch: 1 },
      state: 'complete',
      constraint: { value: 10 },
    })
  })
  test('reads what was recorded; with noise, around it', () => {
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
  test('knows by its name what sets how many are served at once, and whether an axis is of ratios', () => {
    const parameterOf = (name: string, values = [1, 2], concurrency?: boolean) => {
      const asked = {
        ...task,
        parameters: [{ name, kind: 'ordinal' as const, values, concurrency }],
      }
      return recordedTable(
        asked,
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
  test('the true cost of each is what it costs as measured', () => {
    const costs = trueLogCosts(recordedTable(task, rows))
    expect(costs.get(configurationKey({ gpu: 'T4', batch: 1 }))).toBeCloseTo(
      Math.log((0.5 / 3600 / 100) * 1e6),
      12,
    )
    expect([...costs.values()].filter((v) => v === Infinity)).toHaveLength(2)
  })
})

describe('a replay', () => {
  const table = recordedTable({ ...task, relativeNoise: undefined }, rows)
  const run = (options: Parameters<typeof replay>[3]) =>
    replay(table, createSampler('grid'), createRng(1), options)

  test('ends at its most trials, at what it waits for, or where the stop rule says so', () => {
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
    const noisy = recordedTable({ ...task, relativeNoise: 0.2 }, rows)
    const readings = (draws: boolean) =>
      replay(noisy, createSampler('grid'), createRng(1), {
        maxTrials: 2,
        stop: 'never',
        noisy: draws,
      }).observations.map((o) => o.state === 'complete' && o.constraint!.value)
    expect(readings(false)).toEqual([10, 18])
    expect(readings(true)).toEqual(readings(true))
    expect(readings(true)[0]).not.toBe(10)
    expect(Math.log(Number(readings(true)[0]) / 10)).not.toBeCloseTo(
      Math.log(Number(readings(true)[1]) / 18),
      6,
    )
  })
})

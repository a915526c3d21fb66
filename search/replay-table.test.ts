import { describe, expect, test } from 'vitest'
import { createSampler } from './index.ts'
import { recordedTable, replay, trueLogCosts } from './replay-table.ts'
import type { ReplayRow, ReplayTask } from './replay-task.ts'
import { createRng } from './rng.ts'
import { configurationKey } from './space.ts'

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
const rows = [row('T4', 1, 10), row('T4', 2, 18), row('T4', 4, '', 1), row('A10', 1, 6), row('A10', 2, 9), row('A10', 4, 40)]

describe('recordedTable', () => {
  test('looks trials up, draws noise only with an rng, and keeps infeasible ones', () => {
    const table = recordedTable(task, rows)
    expect(table.measure({ gpu: 'T4', batch: 2 })).toMatchObject({ state: 'complete', constraint: { value: 18, logSd: 0.03 } })
    expect(table.measure({ gpu: 'T4', batch: 2 }, createRng(1))).not.toMatchObject({ constraint: { value: 18 } })
    expect(table.measure({ gpu: 'T4', batch: 4 })).toMatchObject({ state: 'infeasible' })
    expect(trueLogCosts(table).get(configurationKey({ gpu: 'A10', batch: 4 }))).toBe(Infinity)
  })
  test('names every fault of a table at once', () => {
    expect(() => recordedTable(task, [])).toThrow('it has no rows')
    expect(() => recordedTable({ ...task, price: 'dollars' }, rows)).toThrow(/no column 'dollars' \(it has gpu, batch/)
    expect(() => recordedTable(task, [row('T4', 1, 10), { ...row('T4', 2, 10), latencyMs: 'fast', pricePerHour: '' }])).toThrow(
      "row 2: pricePerHour is '', not a number; row 2: latencyMs is 'fast', not a number",
    )
  })
})

test.each(['gp', 'random', 'grid', 'sobol', 'halton'])('%s replays a table to its end', (name) => {
  const { observations, assessments } = replay(recordedTable(task, rows), createSampler(name), createRng(1), {
    maxTrials: 10,
    stop: 'assess',
  })
  expect(observations).toHaveLength(6)
  expect(assessments.at(-1)).toEqual({ probabilityBetterExists: 0, tolerance: 0.05, stop: true })
})

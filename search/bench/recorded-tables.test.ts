import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { computeTrueLogCosts, createRecordedTable } from '../replay/table.ts'
import { type ReplayTask, taskObjectives } from '../replay/task.ts'
import { readTasks } from './recorded-tables.ts'

/** What a task tells its judge. */
type Judged = ReplayTask & {
  readonly configurations: number
  readonly feasible: number
  readonly within5Percent: number
  readonly bestCost: number
}

const read = (folder: string) => readTasks(fileURLToPath(new URL(folder, import.meta.url)))
const heldOut = read('./held-out')

test.each(heldOut.map((t) => [t.task.name, t] as const))(
  '%s is as it says of itself',
  (_, { task, rows }) => {
    const judged = task as Judged
    const costs = [...computeTrueLogCosts(createRecordedTable(task, rows)).values()]
    const best = Math.min(...costs)
    expect(costs).toHaveLength(judged.configurations)
    expect(costs.filter((cost) => cost < Infinity)).toHaveLength(judged.feasible)
    expect(costs.filter((cost) => cost <= best + Math.log(1.05))).toHaveLength(
      judged.within5Percent,
    )
    expect(
      Math.exp(best) / taskObjectives[task.objective].costFactor / judged.bestCost,
    ).toBeCloseTo(1, 6)
  },
)

test('held-out families are none of those used for choices', () => {
  const families = new Set(read('./tables').map((t) => t.family))
  expect(heldOut.filter((t) => families.has(t.family))).toEqual([])
  expect(new Set(heldOut.map((t) => t.family)).size).toBeGreaterThanOrEqual(3)
})

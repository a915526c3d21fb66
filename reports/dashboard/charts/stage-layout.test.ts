import { expect, test } from 'vitest'
import { arrangeStages } from './stage-layout.ts'

test('every caller stands left of what it calls, and no two stages in one place', () => {
  const call = (...names: string[]) => names.map((stage) => ({ stage, ratio: 1 }))
  const placed = arrangeStages([
    { name: 'a', calls: call('b', 'c', 'd'), parallelCalls: false },
    { name: 'b', calls: call('c'), parallelCalls: false },
    { name: 'c', calls: [], parallelCalls: false },
    { name: 'd', calls: [], parallelCalls: false },
  ])
  expect(placed.map(({ name, column, row }) => [name, column, row])).toEqual([
    ['a', 0, 0],
    ['b', 1, 0],
    ['c', 2, 0],
    ['d', 1, 1],
  ])
})

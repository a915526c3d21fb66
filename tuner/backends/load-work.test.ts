import { expect, test } from 'vitest'
import { chooseEffort } from './load-work.ts'

test('more time under load buys a finer measurement, never a longer one than allowed', () => {
  const windows = [2, 3, 15, 120].map((seconds) => ({ seconds, effort: chooseEffort(seconds) }))
  for (const { seconds, effort } of windows) expect(effort.budgetS).toBe(seconds)
  const precision = windows.map(({ effort }) => effort.precision)
  expect(precision).toEqual([...precision].sort((a, b) => b - a))
})

test('no finer than it has to be', () => {
  expect(chooseEffort(120, 0.05)).toEqual({ ...chooseEffort(120), precision: 0.05 })
  expect(chooseEffort(3, 0.01)).toEqual(chooseEffort(3))
})

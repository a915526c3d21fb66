import { expect, test } from 'vitest'
import { bornOut } from './expectation.ts'

test('what was believed is borne out by what is seen within a fifth of it, either way', () => {
  expect([80, 84, 100, 119, 120].map((seenRps) => bornOut(100, seenRps))).toEqual([
    false,
    true,
    true,
    true,
    false,
  ])
  expect([84, 100, 119].map((expectedRps) => bornOut(expectedRps, 100))).toEqual([true, true, true])
  expect([80, 120].map((expectedRps) => bornOut(expectedRps, 100))).toEqual([false, false])
})

test('where nothing was believed, or nothing seen, nothing is', () => {
  expect([bornOut(undefined, 100), bornOut(100, undefined), bornOut(undefined, undefined)]).toEqual(
    [false, false, false],
  )
})

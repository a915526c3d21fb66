import { expect, test } from 'vitest'
import { agreesWithExpectation } from './expectation.ts'

test('an expectation agrees within a factor of 1.2 either way', () => {
  expect([80, 84, 100, 119, 120].map((seenRps) => agreesWithExpectation(100, seenRps))).toEqual([
    false,
    true,
    true,
    true,
    false,
  ])
  expect([84, 100, 119].map((expectedRps) => agreesWithExpectation(expectedRps, 100))).toEqual([
    true,
    true,
    true,
  ])
  expect([80, 120].map((expectedRps) => agreesWithExpectation(expectedRps, 100))).toEqual([
    false,
    false,
  ])
})

test('a missing expectation or observation agrees with nothing', () => {
  expect([
    agreesWithExpectation(undefined, 100),
    agreesWithExpectation(100, undefined),
    agreesWithExpectation(undefined, undefined),
  ]).toEqual([false, false, false])
})

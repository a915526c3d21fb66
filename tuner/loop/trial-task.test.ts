import { describe, expect, test } from 'vitest'
import { taskOf } from './trial-task.ts'

const asked = { objective: { kind: 'price-per-request' }, price: { pricePerHour: 3.6 }, tolerance: 0.05 } as const
const predicted = { rate: 100, low: 80, high: 125, feasible: 1 }
const expected = { capacityRps: 140, relativeError: 0.1 }

describe('where a trial begins to look', () => {
  test.each([
    ['what the search predicts', { predicted }, 100],
    ['its prediction before the device model', { predicted, expected }, 100],
    ['the device model, where the prediction is wide', { predicted: { ...predicted, low: 62.5 }, expected }, 140],
    ['the device model, where nothing is predicted', { expected }, 140],
    ['nothing, where a wide prediction is all there is', { predicted: { ...predicted, low: 62.5 } }, undefined],
    ['nothing, where nothing is known', {}, undefined],
  ])('%s', (_, known, expectedRps) => {
    expect(taskOf({ ...asked, ...known }).expectedRps).toBe(expectedRps)
  })
})

describe('when it may end', () => {
  test('once it cannot cost less than the best: $3.60 an hour at $10 per million are 100 a second', () => {
    expect(taskOf({ ...asked, bestCost: 10 }).capacityToBeatRps).toBeCloseTo(100, 9)
    expect(taskOf(asked).capacityToBeatRps).toBeUndefined()
  })

  test('the yardstick never for that: a gain is stated against it', () => {
    expect(taskOf({ ...asked, bestCost: 10, purpose: 'default' }).capacityToBeatRps).toBeUndefined()
  })

  test('as soon as it is known within the tolerance, a first one within twice, the yardstick within three times', () => {
    expect(taskOf({ ...asked, bestCost: 10 }).precision).toBe(0.05)
    expect(taskOf(asked).precision).toBe(0.1)
    expect(taskOf({ ...asked, bestCost: 10, purpose: 'default' }).precision).toBeCloseTo(0.15, 12)
  })
})

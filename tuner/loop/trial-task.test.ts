import { describe, expect, test } from 'vitest'
import type { OrdinalParameter } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { measurement } from '../testing/fakes.ts'
import { steadyRequestsFor, taskOf, warmUpRequestsFor } from './trial-task.ts'

const asked = {
  objective: { kind: 'price-per-request' },
  price: { pricePerHour: 3.6 },
  tolerance: 0.05,
} as const
const predicted = { rate: 100, low: 80, high: 125, feasible: 1 }
const expectedRps = 140

describe('where a trial begins to look', () => {
  test.each([
    ['what the search predicts', { predicted }, 100],
    ['its prediction before the device model', { predicted, expectedRps }, 100],
    [
      'the device model, where the prediction is wide',
      { predicted: { ...predicted, low: 62.5 }, expectedRps },
      140,
    ],
    ['the device model, where nothing is predicted', { expectedRps }, 140],
    [
      'nothing, where a wide prediction is all there is',
      { predicted: { ...predicted, low: 62.5 } },
      undefined,
    ],
    ['nothing, where nothing is known', {}, undefined],
  ])('%s', (_, known, rateRps) => {
    expect(taskOf({ ...asked, ...known }).expectedRps).toBe(rateRps)
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

describe('how long it warms up', () => {
  const parameter = (name: string, more: Pick<OrdinalParameter, 'category' | 'concurrency'>) =>
    ({ kind: 'ordinal', name, values: [1, 2, 4], scale: 'log', ...more }) as const
  const parameters = [
    parameter('cpuCores', { category: 'resource' }),
    parameter('batchSize', { category: 'server', concurrency: true }),
    parameter('cacheSize', { category: 'server' }),
  ] as const
  const first = { cpuCores: 1, batchSize: 1, cacheSize: 1 }
  const trial = (configuration: object, warmUp = { requests: 520, steadyAfter: 150 }) =>
    ({
      number: 1,
      state: 'complete',
      configuration,
      measurement: { ...measurement(100), warmUp },
    }) as unknown as FinishedTrial
  const asked = (configuration: typeof first, trials: readonly FinishedTrial[]) =>
    warmUpRequestsFor(configuration, { parameters, constraints: [] }, trials)

  test('by those that differ in resources, and in what is served at once, alone', () => {
    expect(asked({ ...first, cpuCores: 2, batchSize: 4 }, [trial(first)])).toBe(225)
    expect(asked({ ...first, cpuCores: 2, cacheSize: 4 }, [trial(first)])).toBeUndefined()
    expect(asked({ ...first, cpuCores: 2 }, [])).toBeUndefined()
  })

  test('in full, what is measured again', () => {
    const other = { ...first, cpuCores: 2 }
    expect(asked(other, [trial(first), trial(other)])).toBeUndefined()
  })

  test('a second time, what was measured is known to be steady by itself too', () => {
    const steady = (configuration: typeof first, ...trials: FinishedTrial[]) =>
      steadyRequestsFor(configuration, { parameters, constraints: [] }, trials)
    expect(steady(first, trial(first, { requests: 900, steadyAfter: 500 }))).toBe(750)
    expect(steady({ ...first, cacheSize: 4 }, trial(first))).toBeUndefined()
  })
})

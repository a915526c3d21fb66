import { describe, expect, test } from 'vitest'
import type { Candidate } from '../../reports/recommendation/types.ts'
import type { OrdinalParameter } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { batchProblem, fakeExperiment, measurement } from '../testing/fakes.ts'
import type { TrialRequest } from './trial-runner.ts'
import { createTrialTask, estimateSteadyRequests, estimateWarmUpRequests } from './trial-task.ts'

const predicted = { rate: 100, low: 80, high: 125, feasible: 1 }
const wide = { ...predicted, low: 62.5 }

interface Known {
  readonly purpose?: TrialRequest['purpose']
  readonly predicted?: TrialRequest['predicted']
  readonly estimateRps?: number
  readonly bestCost?: number
}
/** The task of a trial at $3.60 an hour. */
const createTask = ({ purpose, predicted, estimateRps, bestCost }: Known = {}) =>
  createTrialTask(
    { number: 1, configuration: { batchSize: 1 }, why: '', attempt: 1, purpose, predicted },
    fakeExperiment(),
    {
      problem: { ...batchProblem, pricePerHour: () => 3.6 },
      ...(estimateRps !== undefined && { estimateCapacityRps: () => estimateRps }),
    },
    { trials: [], best: bestCost === undefined ? undefined : ({ cost: bestCost } as Candidate) },
  )

describe('the rate at which a trial starts to measure', () => {
  test.each<[string, Known, number | undefined]>([
    ['is the prediction of the search', { predicted }, 100],
    ['is the prediction rather than the device model', { predicted, estimateRps: 140 }, 100],
    [
      'is the device model where the prediction is wide',
      { predicted: wide, estimateRps: 140 },
      140,
    ],
    ['is the device model where there is no prediction', { estimateRps: 140 }, 140],
    ['is unknown with a wide prediction alone', { predicted: wide }, undefined],
    ['is unknown without any estimate', {}, undefined],
  ])('%s', (_, known, rateRps) => {
    expect(createTask(known).expectedRps).toBe(rateRps)
  })
})

describe('the end of a trial', () => {
  test('is at a capacity that cannot beat the best: $3.60 per hour at $10 per million is 100 req/s', () => {
    expect(createTask({ bestCost: 10 }).capacityToBeatRps).toBeCloseTo(100, 9)
    expect(createTask().capacityToBeatRps).toBeUndefined()
  })

  test('is never early for the baseline, because the gain is relative to it', () => {
    expect(createTask({ bestCost: 10, purpose: 'default' }).capacityToBeatRps).toBeUndefined()
  })

  test('is at a precision of one tolerance, two for the first trial, three for the baseline', () => {
    expect(createTask({ bestCost: 10 }).precision).toBe(0.05)
    expect(createTask().precision).toBe(0.1)
    expect(createTask({ bestCost: 10, purpose: 'default' }).precision).toBeCloseTo(0.15, 12)
  })
})

describe('the requests of a warm-up', () => {
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
  const estimate = (configuration: typeof first, trials: readonly FinishedTrial[]) =>
    estimateWarmUpRequests(configuration, { parameters, constraints: [] }, trials)

  test('follow from trials that differ only in resources and concurrency', () => {
    expect(estimate({ ...first, cpuCores: 2, batchSize: 4 }, [trial(first)])).toBe(225)
    expect(estimate({ ...first, cpuCores: 2, cacheSize: 4 }, [trial(first)])).toBeUndefined()
    expect(estimate({ ...first, cpuCores: 2 }, [])).toBeUndefined()
  })

  test('are not limited for a configuration that was tried before', () => {
    const other = { ...first, cpuCores: 2 }
    expect(estimate(other, [trial(first), trial(other)])).toBeUndefined()
  })

  test('until it is steady follow from its own trials too', () => {
    const steady = (configuration: typeof first, ...trials: FinishedTrial[]) =>
      estimateSteadyRequests(configuration, { parameters, constraints: [] }, trials)
    expect(steady(first, trial(first, { requests: 900, steadyAfter: 500 }))).toBe(750)
    expect(steady({ ...first, cacheSize: 4 }, trial(first))).toBeUndefined()
  })
})

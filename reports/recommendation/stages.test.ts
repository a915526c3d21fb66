import { describe, expect, test } from 'vitest'
import { complete, measured, sampleInput } from '../samples.contract.ts'
import { describePredictionError } from './prediction-error.ts'
import { recommend } from './recommend.ts'
import { describeStage } from './stages.ts'

const configuration = {
  'a.replicas': 1,
  'a.cpuCores': 1,
  'b.replicas': 3,
  'b.cpuCores': 2,
}
const usage = {
  stages: [
    { stage: 'a', visits: 1, meanMs: 6, busyShare: 0.3, busier: 'cpu' },
    { stage: 'b', visits: 0.5, meanMs: 8, busyShare: 0.9, busier: 'gpu' },
  ],
} as const
/** One core costs 1, so that a costs 1 and b 6. */
const input = {
  ...sampleInput,
  pricePerHour: (one: Record<string, unknown>) => ('a.cpuCores' in one ? 7 : Number(one.cpuCores)),
  label: (one: Record<string, unknown>) => `${one.cpuCores} cores`,
}
const recommendWith = (used: object) =>
  recommend({ ...input, trials: [complete(1, configuration, measured(200, 5), used)] })

describe('the stages of a pipeline', () => {
  test('have their shares of time and money', () => {
    const { stages } = recommendWith({ usage })
    expect(stages).toEqual([
      {
        stage: 'a',
        replicas: 1,
        label: '1 cores',
        priceShare: 1 / 7,
        visits: 1,
        meanMs: 6,
        timeShare: 0.6,
        busyShare: 0.3,
      },
      {
        stage: 'b',
        replicas: 3,
        label: '2 cores',
        priceShare: 6 / 7,
        visits: 0.5,
        meanMs: 8,
        timeShare: 0.4,
        busyShare: 0.9,
      },
    ])
    expect(stages!.map(describeStage)).toEqual([
      '30 % busy, 6.0 ms a visit, 60 % of the time, 14 % of the price',
      '90 % busy, 0.5 visits a request, 8.0 ms a visit, 40 % of the time, 86 % of the price',
    ])
  })

  test('name the busiest one as the bottleneck', () => {
    expect(recommendWith({ usage }).binding).toEqual({
      what: 'gpu',
      evidence:
        'stage b is the busiest: 90 % busy, 0.5 visits a request, 8.0 ms a visit, 40 % of the time, 86 % of the price',
    })
  })

  test('say what a looser SLO would save: the difference to its own ranking', () => {
    const trials = [complete(1, configuration, measured(200, 5), { usage })]
    const recommendWithin = (limitMs: number) =>
      recommend({ ...input, trials, slo: { ...sampleInput.slo, limitMs } })
    const { relaxedSlo, best } = recommendWithin(20)
    const looser = recommendWithin(22).best!
    expect(relaxedSlo!.limitMs).toBeCloseTo(22)
    expect(relaxedSlo!.saving).toBeCloseTo(1 - looser.cost / best!.cost)
    expect(relaxedSlo!.saving).toBeGreaterThan(0)
  })

  test('have a price where their usage was not measured', () => {
    const { stages, binding } = recommendWith({})
    expect(stages!.map(describeStage)).toEqual(['14 % of the price', '86 % of the price'])
    expect(binding).toEqual({
      what: 'unknown',
      evidence: 'the usage of the stages was not measured',
    })
  })
})

test('a single predictor has none', () => {
  const { stages } = recommend(sampleInput)
  expect(stages).toBeUndefined()
})

describe('the predictions of a pipeline', () => {
  const predict = (number: number, predictedRps: number, measuredRps: number) => ({
    ...complete(number, { ...configuration, 'a.cpuCores': number }, measured(measuredRps, 5)),
    predicted: { rate: predictedRps, low: 1, high: 1000, feasible: 1 },
  })

  test('are compared with the measured capacities', () => {
    const { predictionError } = recommend({
      ...input,
      trials: [
        complete(1, configuration, measured(100, 5)),
        predict(2, 150, 200),
        predict(3, 110, 100),
      ],
    })
    expect(predictionError).toMatchObject({
      trials: 2,
      subject: { predictedRps: 150, measuredRps: 180 },
    })
    expect(predictionError!.median).toBeCloseTo(0.194, 2)
    expect(predictionError!.p90).toBeCloseTo(0.217, 2)
    expect(describePredictionError(predictionError!)).toBe(
      'Predicted at 150 req/s, measured at 180 req/s; 2 predictions were off by 19 % (median), 22 % (p90)',
    )
  })

  test('are left out where none was made, and of a single predictor', () => {
    expect(recommendWith({}).predictionError).toBeUndefined()
    const { predictionError } = recommend({
      ...input,
      trials: [{ ...predict(1, 150, 200), configuration: { cpuCores: 1 } }],
    })
    expect(predictionError).toBeUndefined()
  })
})

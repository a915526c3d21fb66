/**
 * Model variants on the page: what the command line says, the fronts by quality, and the least
 * quality as a question.
 */
import { expect, test } from 'vitest'
import { defaultPriceBook } from '../../../trials/prices/book.ts'
import { recommend } from '../../recommendation/recommend.ts'
import { renderReport } from '../../report/report-blocks.ts'
import { complete, measured, sampleInput } from '../../samples.contract.ts'
import { createParetoChart } from '../charts/pareto-chart.ts'
import { createLogAxis, lightTheme } from '../charts/theme.ts'
import type { DashboardExperiment } from './page-data.ts'
import { isOwnQuestion, pickOwnQuestion, Ranker } from './ranking.ts'

const qualities = { base: 0.92, small: 0.9, tiny: 0.8 }
const experiment: DashboardExperiment = {
  id: 'bert-7f3a',
  name: 'bert',
  createdAt: '2026-11-20T10:00:00.000Z',
  state: 'done',
  provenance: 'emulated',
  seed: 7,
  model: 'bert',
  hardware: 'T4 (emulated)',
  load: 'Poisson arrivals',
  sampler: 'gp',
  maxTrials: 20,
  slo: sampleInput.slo,
  objective: sampleInput.objective,
  headroom: 0.2,
  prices: defaultPriceBook,
  parameters: [],
  qualities,
  notices: [],
  specification: '',
}
const trials = Object.keys(qualities).map((variant, i) =>
  complete(
    i + 1,
    { cpuCores: 2, gpu: 'T4', gpuMemoryPercent: 25, batchSize: 8, variant },
    measured(100 * 2 ** i, 20 - 6 * i),
  ),
)
const ranker = new Ranker(experiment)
const whatIf = pickOwnQuestion(experiment)

test('candidates carry their quality, and a least quality asked for re-ranks', () => {
  const r = ranker.recommend(trials, whatIf)
  expect(r.best).toMatchObject({ trial: 3, quality: 0.8 })
  expect(r.qualityFronts?.map(({ minQuality }) => minQuality)).toEqual([0.92, 0.9, 0.8])
  const strict = { ...whatIf, minQuality: 0.9 }
  expect(isOwnQuestion(experiment, strict)).toBe(false)
  expect(ranker.recommend(trials, strict).best).toMatchObject({ trial: 2, quality: 0.9 })
  expect(isOwnQuestion(experiment, { ...strict, minQuality: undefined })).toBe(true)
})

test("the experiment's own least quality holds until another one is asked for", () => {
  const bound = { ...experiment, minQuality: 0.92 }
  expect(new Ranker(bound).recommend(trials, pickOwnQuestion(bound)).best).toMatchObject({
    trial: 1,
  })
})

test('the chart has a front for each better quality, and larger points for better ones', () => {
  const recommendation = ranker.recommend(trials, whatIf)
  const latencies = createLogAxis([5, 100], [25, 75])
  const option = createParetoChart(
    { recommendation, trials, curves: [], throughput: 'per-dollar', latencies, devices: ['T4'] },
    lightTheme,
  )
  const series = (
    option as { series: { name?: string; data?: { symbolSize?: number; value?: number[] }[] }[] }
  ).series
  expect(series.map(({ name }) => name).filter((name) => name?.startsWith('front'))).toEqual([
    'front of quality ≥ 0.92',
    'front of quality ≥ 0.9',
  ])
  const sizes = new Map(
    series
      .find(({ name }) => name === 'T4')!
      .data!.map(({ symbolSize, value }) => [value![2], symbolSize]),
  )
  expect([sizes.get(1), sizes.get(3)]).toEqual([15, 7])
  expect(sizes.get(2)).toBeGreaterThan(7)
  const without = createParetoChart(
    {
      recommendation: recommend({ ...sampleInput, trials }),
      trials,
      curves: [],
      throughput: 'per-dollar',
      latencies,
      devices: ['T4'],
    },
    lightTheme,
  )
  expect(JSON.stringify(without)).not.toContain('quality')
})

test('the report says what each quality costs', async () => {
  const view = ranker.createCriteria(whatIf)
  const recommendation = ranker.recommend(trials, whatIf)
  const text = JSON.stringify(
    await renderReport({
      ...view,
      name: 'bert',
      recommendation,
      trials,
      specification: '',
      environment: [],
    }),
  )
  expect(text).toContain('What quality costs')
  expect(text).toContain('minimum quality')
  const plain = JSON.stringify(
    await renderReport({
      ...sampleInput,
      name: 'bert',
      recommendation: recommend(sampleInput),
      specification: '',
      environment: [],
    }),
  )
  expect(plain).not.toContain('uality')
})

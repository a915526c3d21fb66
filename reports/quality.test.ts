/** Model variants: the quality of each in what is recommended. */
import { expect, test } from 'vitest'
import { recommend } from './recommendation/recommend.ts'
import { toDocument } from './report/recommendation-json.ts'
import { complete, measured, sampleInput } from './samples.contract.ts'

const qualities: Readonly<Record<string, number>> = { base: 0.92, small: 0.9, tiny: 0.8 }
const trials = ['base', 'small', 'tiny'].map((variant, i) =>
  complete(
    i + 1,
    { cpuCores: 2, gpu: 'T4', gpuMemoryPercent: 25, batchSize: 8, variant },
    measured(100 * 2 ** i, 20 - 6 * i),
  ),
)
const input = {
  ...sampleInput,
  trials,
  quality: ({ variant }: Readonly<Record<string, number | string>>) => qualities[String(variant)],
}

test('each candidate carries its quality, and no bound means none', () => {
  const { best, alternatives } = recommend(input)
  expect(best).toMatchObject({ trial: 3, quality: 0.8 })
  expect(alternatives.map(({ quality }) => quality)).toEqual([0.9, 0.92])
})

test('what is not good enough is not recommended, with the reason', () => {
  const { best, alternatives } = recommend({ ...input, minQuality: 0.9 })
  expect(best).toMatchObject({ trial: 2, quality: 0.9 })
  expect(alternatives.find(({ trial }) => trial === 3)).toMatchObject({
    feasible: false,
    reason: 'its quality is 0.8, less than 0.9',
  })
})

test('the front has quality as third axis: for each, the front of those at least as good', () => {
  const r = recommend(input)
  const of = (least: number) =>
    r.qualityFronts!.find(({ minQuality }) => minQuality === least)!.front
  expect(r.qualityFronts!.map(({ minQuality }) => minQuality)).toEqual([0.92, 0.9, 0.8])
  expect(new Set(of(0.92).map(({ trial }) => trial))).toEqual(new Set([1]))
  expect(new Set(of(0.9).map(({ trial }) => trial))).toEqual(new Set([2]))
  expect(of(0.8)).toEqual(r.front)
  expect(toDocument(r).qualityFronts![0]!.front[0]).toMatchObject({ quality: 0.92 })
})

test('without variants there is no word of quality', () => {
  const r = recommend(sampleInput)
  expect(r.qualityFronts).toBeUndefined()
  expect(r.best).not.toHaveProperty('quality')
})

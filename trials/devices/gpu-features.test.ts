import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { gpuCatalogue } from './catalogue.ts'
import { computeGpuFeatures } from './gpu-features.ts'

test('the features are the datasheet of each GPU in logarithms, by any of its names', () => {
  const features = computeGpuFeatures(['T4', 'NVIDIA A100-SXM4-80GB'])!
  expect(features.T4).toEqual([Math.log(320), Math.log(65)])
  expect(features['NVIDIA A100-SXM4-80GB']).toEqual([Math.log(2039), Math.log(312)])
})

test('names that are no GPUs have none', () => {
  expect(computeGpuFeatures(['T4', 'c4.large'])).toBeUndefined()
})

test("the search benchmark's copy holds the same", () => {
  const copy = JSON.parse(
    readFileSync(new URL('../../search/bench/gpu-features.json', import.meta.url), 'utf8'),
  )
  const features = computeGpuFeatures(gpuCatalogue.flatMap((g) => [g.name, ...g.aliases]))!
  expect(Object.keys(copy).sort()).toEqual(Object.keys(features).sort())
  for (const [name, values] of Object.entries(features))
    for (const [i, v] of values.entries()) expect(copy[name][i]).toBeCloseTo(v, 3)
})

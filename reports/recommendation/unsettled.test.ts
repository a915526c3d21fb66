import { expect, test } from 'vitest'
import { cost, objectiveKinds, objectiveOf } from '../../search/objective.ts'
import { sampleInput } from '../samples.contract.ts'
import { candidatesOf } from './candidates.ts'
import { A, again, B, C, outOfMemory, tried } from './invented-trials.contract.ts'
import { type RecommendInput, recommend } from './recommend.ts'
import { unsettled } from './unsettled.ts'

/** B costs twice as much as A, C four times. */
const given = (...trials: RecommendInput['trials']) =>
  recommend({ ...sampleInput, pricePerHour: ({ gpuMemoryPercent }) => Number(gpuMemoryPercent), trials })
const open = (...trials: RecommendInput['trials']) => unsettled(given(...trials)).map(({ trial }) => trial)
const confirmed = [tried(1, A, 100), again(2, A, [[97, 34]])]

test('the best itself while it was measured once', () => {
  expect(open(tried(1, A, 100), tried(2, B, 150))).toEqual([1])
})

test('nothing, once it was confirmed and nothing seems better', () => {
  expect(open(...confirmed, tried(3, B, 190), outOfMemory(4, C))).toEqual([])
})

test('then rivals that would be better even with 3 % less, best first', () => {
  // 194 of B are as good as 97 of A; 200 less 3 % are just that.
  expect(open(...confirmed, tried(3, B, 202), tried(4, C, 410))).toEqual([4, 3])
  expect(open(...confirmed, tried(3, B, 200))).toEqual([])
  expect(open(...confirmed, tried(3, B, 200.2))).toEqual([3])
})

test('a rival that was measured again is settled, whatever came of it', () => {
  expect(open(...confirmed, tried(3, B, 205), again(4, B, [[204, 34]]))).toEqual([])
  expect(open(...confirmed, tried(3, B, 205, { windows: [[203, 45]] }), again(4, B, [[204, 80]]))).toEqual([])
})

test('a best that its second measurement refuted is not asked again', () => {
  expect(open(tried(1, A, 100), again(2, A, [[85, 65]]))).toEqual([])
})

test('nothing, where nothing meets the SLO', () => {
  expect(open(outOfMemory(1, A))).toEqual([])
  expect(open()).toEqual([])
})

test('every candidate once, best first; the nearest in its place', () => {
  const numbers = (...trials: RecommendInput['trials']) => candidatesOf(given(...trials)).map(({ trial }) => trial)
  expect(numbers(tried(1, A, 100), tried(2, B, 150), tried(3, C, 500))).toEqual([3, 1, 2])
  const slow = tried(3, C, 0, {
    outcome: 'slo-unattainable',
    capacityCi90Rps: [0, 0],
    windows: [],
    idle: { requests: 9, meanMs: 60, p50Ms: 60, p90Ms: 60, p95Ms: 60, p99Ms: 60, maxMs: 60 },
  })
  expect(numbers(outOfMemory(1, A), slow)).toEqual([3, 1])
  expect(numbers(outOfMemory(1, A), outOfMemory(2, B))).toEqual([1, 2])
  expect(numbers()).toEqual([])
})

test('what a candidate carries is all that its cost is made of, whatever the objective counts', () => {
  const faster = { windows: [[90, 5]] } as const
  const used = { ...tried(1, A, 100, faster), usage: { launchSeconds: 4, cpuCores: 1.5 } } as const
  for (const kind of objectiveKinds) {
    const objective = objectiveOf(kind, { demandRps: 300, headroom: 0.2, maxPricePerHour: 1e6 })
    const candidates = candidatesOf(recommend({ ...sampleInput, objective, trials: [used, tried(2, B, 150)] }))
    for (const candidate of candidates) expect(cost(objective, candidate)).toBe(candidate.cost)
    expect(candidates.find(({ trial }) => trial === 1)!.usage).toEqual(used.usage)
  }
})

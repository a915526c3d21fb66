import { expect, test } from 'vitest'
import { toText } from '../document/markdown.ts'
import { createSteadyDemand, parseDayTable } from '../plan/demand.ts'
import { renderFleet, toFleetJson } from './fleet-blocks.ts'
import { planFleet } from './fleet-plan.ts'
import { wholeGpu } from './packing.ts'
import { readSegments } from './segment-table.ts'

const kinds = [{ name: 'T4', pricePerHour: 1, partitions: [[wholeGpu]] }]
const models = ['a', 'b'].map((name, i) => ({
  name,
  segments: [{ gpu: 'T4', slice: wholeGpu, gpus: 1, rateRps: 10, label: 'batch 4' }],
  demand: parseDayTable(i === 0 ? '0-12:8, 12-24:28' : '0-6:28, 6-24:8'),
}))

test('one packing for the peaks and one for every hour, with headroom', async () => {
  const plan = await planFleet(models, kinds)
  expect(plan.atPeaks.pricePerHour).toBe(6)
  expect(plan.byHour?.map(({ pricePerHour }) => pricePerHour)).toEqual([
    ...Array(6).fill(4),
    ...Array(6).fill(2),
    ...Array(12).fill(4),
  ])
  expect(plan.peaksRps).toEqual([28, 28])
  expect((await planFleet(models, kinds, 0.3)).atPeaks.pricePerHour).toBe(8)
  const steady = models.map((model) => ({ ...model, demand: createSteadyDemand(5) }))
  expect((await planFleet(steady, kinds)).byHour).toBeUndefined()
  const text = toText(await renderFleet(plan, models, 0))
  expect(text).toContain(
    '6 T4 for 2 models: $6.00/h, $4,320 a month; proven: no cheaper packing exists',
  )
  expect(text).toMatch(/0-6 +4 T4 +\$4/)
  expect(text).toMatch(/a +T4 +0-12: 1, 12-24: 3\n/)
  const { gpus, byHour } = JSON.parse(toFleetJson(plan))
  expect(gpus[0]).toEqual({
    kind: 'T4',
    slices: [{ slice: 'whole', model: expect.any(String), configuration: 'batch 4', rateRps: 10 }],
  })
  expect(byHour).toHaveLength(24)
})

test('a table has slices by name or number; rows above the SLO and infeasible ones are left out', () => {
  const text =
    'Slice,batchSize,latencyMs,throughputRps,infeasible\n1,4,20,50,0\n7,8,90,400,0\n2,8,40,120,0\n4,8,,,1\n'
  const known = { gpu: 'A100-80GB', gpus: 1 }
  expect(readSegments(text, 't.csv', 'A100-80GB', 50)).toEqual([
    {
      ...known,
      slice: '1g.10gb',
      rateRps: 50,
      label: 'batchSize 4',
      row: { line: 2, values: { batchSize: '4' } },
    },
    {
      ...known,
      slice: '2g.20gb',
      rateRps: 120,
      label: 'batchSize 8',
      row: { line: 4, values: { batchSize: '8' } },
    },
  ])
  expect(
    readSegments('gpu,slice,throughputRps\nL4,,9\nA30,2g.12gb,4\n', 't.csv', undefined).map(
      ({ gpu, slice }) => [gpu, slice],
    ),
  ).toEqual([
    ['L4', 'whole'],
    ['A30', '2g.12gb'],
  ])
})

test.each([
  ['latencyMs\n5\n', 't.csv has no column throughputRps'],
  ['throughputRps\n5\n', 't.csv has no column latencyMs'],
  ['throughputRps,latencyMs\n-5,1\n', "t.csv:2: throughputRps is '-5', not a number above 0"],
  ['throughputRps,latencyMs\n5,1\n', 't.csv:2: the GPU of this measurement is missing'],
  ['gpu,slice,throughputRps,latencyMs\nT4,1g.5gb,5,1\n', "t.csv:2: T4 has no slice '1g.5gb'"],
  ['gpu,throughputRps,latencyMs\nX9,5,1\n', 't.csv:2: '],
])('%j is refused by its line', (text, message) => {
  expect(() => readSegments(text, 't.csv', undefined, 10)).toThrow(message)
})

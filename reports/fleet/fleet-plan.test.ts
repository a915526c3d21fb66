import { expect, test } from 'vitest'
import { type Demand, steadyDemand, tableDemand, traceDemand } from '../plan/demand.ts'
import { toText } from '../report/document/markdown.ts'
import { fleetBlocks, fleetJson } from './fleet-blocks.ts'
import { planFleet } from './fleet-plan.ts'
import { peaksOver } from './over-day.ts'
import { whole } from './packing.ts'
import { readSegments } from './segment-table.ts'

const kinds = [{ name: 'T4', pricePerHour: 1, partitions: [[whole]] }]
const models = ['a', 'b'].map((name, i) => ({
  name,
  segments: [{ gpu: 'T4', slice: whole, gpus: 1, rateRps: 10, label: 'batch 4' }],
  demand: tableDemand(i === 0 ? '0-12:8, 12-24:28' : '0-6:28, 6-24:8'),
}))

const hourlyPeaks = (demand: Demand, timezone?: string) => peaksOver(demand, 24, timezone)

test('the highest rate of each hour, over all days', () => {
  expect(hourlyPeaks(tableDemand('0-8:20, 8-8.5:90, 8.5-24:60')).slice(7, 10)).toEqual([20, 90, 60])
  expect(hourlyPeaks(steadyDemand(5))).toEqual(Array(24).fill(5))
  // Twelve hours that repeat, and two days.
  const spans = (...rates: number[]) => ({
    what: '',
    spans: rates.map((rps) => ({ rps, seconds: 43_200 })),
  })
  expect(new Set(hourlyPeaks(spans(7)))).toEqual(new Set([7]))
  expect(hourlyPeaks(spans(1, 2, 5, 1)).filter((_, hour) => hour % 12 === 0)).toEqual([5, 2])
})

test('a trace with times of the calendar is taken at its hours, by the clock of the zone', () => {
  const begin = Date.UTC(2026, 6, 1, 22) / 1000
  const trace = (from: number) =>
    traceDemand(`${from},5\n${from + 3600},90\n${from + 7200},20\n${from + 86_400},5\n`, 't.csv')
  const busiest = (...given: Parameters<typeof hourlyPeaks>) => hourlyPeaks(...given).indexOf(90)
  expect(busiest(trace(begin))).toBe(23)
  expect(busiest(trace(begin), 'Europe/Berlin')).toBe(1)
  expect(busiest(trace(0), 'Europe/Berlin')).toBe(1)
  expect(hourlyPeaks(trace(1e14), 'Europe/Berlin')).toHaveLength(24)
  expect(hourlyPeaks(trace(begin)).toSorted()).toEqual(hourlyPeaks(trace(0)).toSorted())
})

test('one packing for the peaks, and one for every hour; what is kept free counts', async () => {
  const plan = await planFleet(models, kinds)
  expect(plan.atPeaks.pricePerHour).toBe(6)
  expect(plan.byHour?.map(({ pricePerHour }) => pricePerHour)).toEqual([
    ...Array(6).fill(4),
    ...Array(6).fill(2),
    ...Array(12).fill(4),
  ])
  expect(plan.peaksRps).toEqual([28, 28])
  expect((await planFleet(models, kinds, 0.3)).atPeaks.pricePerHour).toBe(8)
  const steady = models.map((model) => ({ ...model, demand: steadyDemand(5) }))
  expect((await planFleet(steady, kinds)).byHour).toBeUndefined()
  const text = toText(fleetBlocks(plan, models, 0))
  expect(text).toContain(
    '6 T4 for 2 models: $6.00/h, $4,380 a month; no packing of these costs less',
  )
  expect(text).toMatch(/0-6 +4 T4 +\$4/)
  expect(text).toMatch(/a +T4 +0-12: 1, 12-24: 3\n/)
  const pictures = fleetBlocks(plan, models, 0, true).flatMap((block) =>
    block.kind === 'chart' ? [block.alt] : [],
  )
  expect(pictures).toHaveLength(6)
  expect(pictures[0]).toBe('T4 1: whole a, 93 % busy at most')
  const { gpus, byHour } = JSON.parse(fleetJson(plan, models))
  expect(gpus[0]).toEqual({
    kind: 'T4',
    slices: [{ slice: 'whole', model: expect.any(String), configuration: 'batch 4', rateRps: 10 }],
  })
  expect(byHour).toHaveLength(24)
})

test('what bears the loss of a GPU, and what stays apart, is said, with what it costs', async () => {
  const rules = { spared: new Set(['a']), apart: [['a', 'b']] }
  const plan = await planFleet(models, kinds, 0, 40, 'UTC', rules)
  expect(plan.atPeaks.pricePerHour).toBe(7)
  expect(plan.spare).toEqual({
    without: { gpus: 6, pricePerHour: 6 },
    beside: { gpus: 7, pricePerHour: 7 },
  })
  const text = toText(fleetBlocks(plan, models, 0))
  expect(text).toContain(
    'any one GPU may be lost, and what is left carries the demand of a at once',
  )
  expect(text).toContain('on no GPU together: a, b')
  expect(text).toMatch(/the same with nothing spare +6 +\$6/)
  expect(text).toMatch(
    /cut anew for what is lost: SLOs are broken until it is cut and serves +7 +\$7/,
  )
  // The replicas that a loss calls for stay at night.
  expect(text).toMatch(/a +T4 +0-24: 4\n/)
  expect(JSON.parse(fleetJson(plan, models))).toMatchObject({
    spared: ['a'],
    apart: [['a', 'b']],
  })
  const few = [{ ...kinds[0]!, count: 7 }]
  expect((await planFleet(models, few, 0, 40, 'UTC', rules)).atPeaks.gpus).toHaveLength(7)
  await expect(
    planFleet(models, [{ ...kinds[0]!, count: 6 }], 0, 40, 'UTC', rules),
  ).rejects.toThrow('6 × T4')
})

test('a table of replicas: slices by name or by their number, what takes too long or failed left out', () => {
  const text =
    'gpuSlices,batchSize,latencyMs,throughputRps,infeasible\n1,4,20,50,0\n7,8,90,400,0\n2,8,40,120,0\n4,8,,,1\n'
  const known = { gpu: 'A100-80GB', gpus: 1, limitMs: 50 }
  expect(readSegments(text, 't.csv', 'A100-80GB', 50)).toEqual([
    {
      ...known,
      slice: '1g.10gb',
      rateRps: 50,
      label: 'batchSize 4',
      latencyMs: 20,
      row: { line: 2, values: { batchSize: '4' } },
    },
    {
      ...known,
      slice: '2g.20gb',
      rateRps: 120,
      label: 'batchSize 8',
      latencyMs: 40,
      row: { line: 4, values: { batchSize: '8' } },
    },
  ])
  expect(
    readSegments('gpu,rateRps,loadS\nL4,9,42.5\nL4,9,\n', 't.csv', undefined).map(
      ({ loadS }) => loadS,
    ),
  ).toEqual([42.5, undefined])
  expect(
    readSegments('gpu,slice,rateRps\nL4,,9\nA30,2g.12gb,4\n', 't.csv', undefined).map(
      ({ gpu, slice }) => [gpu, slice],
    ),
  ).toEqual([
    ['L4', 'whole'],
    ['A30', '2g.12gb'],
  ])
})

test.each([
  ['latencyMs\n5\n', 't.csv has no column of rates'],
  ['rateRps\n5\n', 't.csv has no column of latencies'],
  ['rateRps,latencyMs\n-5,1\n', "t.csv:2: '-5' is no rate above 0"],
  ['rateRps,latencyMs\n5,1\n', 't.csv:2: which GPU this ran on is not said'],
  ['gpu,slice,rateRps,latencyMs\nT4,1g.5gb,5,1\n', "t.csv:2: T4 has no slice '1g.5gb'"],
  ['gpu,rateRps,latencyMs\nX9,5,1\n', 't.csv:2: '],
  ['gpu,rateRps,latencyMs,loadS\nT4,5,1,0\n', "t.csv:2: '0' is no load above 0"],
])('%j is refused by its line', (text, message) => {
  expect(() => readSegments(text, 't.csv', undefined, 10)).toThrow(message)
})

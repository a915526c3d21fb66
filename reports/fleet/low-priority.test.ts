/** Work of low priority on what a fleet leaves: checked hour by hour against who stands where. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { tableDemand } from '../plan/demand.ts'
import { toText } from '../report/document/markdown.ts'
import { planFleet } from './fleet-plan.ts'
import { fillValleys, lowPriorityBlocks } from './low-priority.ts'
import { type GpuKind, type Segment, whole } from './packing.ts'
import { placementsOf } from './placements.ts'

const kind: GpuKind = { name: 'T4', pricePerHour: 2, partitions: [[whole]] }
const on = (rateRps: number): Segment => ({ gpu: 'T4', slice: whole, gpus: 1, rateRps, label: '' })
const day = (name: string, demand: string) => ({
  name,
  segments: [on(10)],
  demand: tableDemand(demand),
})
const hours = (count: (hour: number) => number) =>
  Array.from({ length: 24 }, (_, hour) => count(hour))

test('a job has the slices that the night leaves, an hour short of the morning, and no more of them than its day takes', async () => {
  const plan = await planFleet([day('web', '0-8:10, 8-20:40, 20-24:10')], [kind])
  const filled = (perDay: number) =>
    fillValleys([{ name: 'embed', segments: [on(5)], perDay }], plan, ['web'], [kind])[0]!
  const all = filled(1e6)
  // Three of four from 20 to 7.
  expect(all.places).toMatchObject([
    { replicas: 3, byHour: hours((hour) => (hour < 7 || hour >= 20 ? 3 : 0)) },
  ])
  expect(all.donePerDay).toBe(3 * 11 * 3600 * 5)
  // 11.57 a second take three GPUs of 5.
  expect(all.alonePerHour).toBe(6)
  expect(filled(2 * 11 * 3600 * 5).places).toMatchObject([{ replicas: 2 }])
  const text = toText(lowPriorityBlocks([all]))
  expect(text).toMatch(/embed +T4 +0-7: 3, 7-20: 0, 20-24: 3/)
  expect(text).toContain(
    'embed: 594,000 of 1,000,000 a day (59 %); on whole GPUs of its own all of it would cost $6.00/h',
  )
})

test('slices that models have by the hours are free between them, and what bears the loss of a GPU lends nothing', async () => {
  const turning = { loadS: 60, loadFrom: 'as given' } as const
  const taking = await planFleet([{ ...day('night', '0-6:10, 6-24:0'), turning }], [kind])
  const [embed] = fillValleys(
    [{ name: 'embed', segments: [on(5)], perDay: 1e9 }],
    taking,
    ['night'],
    [kind],
  )
  // There from 23:45 on.
  expect(embed!.places[0]!.byHour).toEqual(hours((hour) => Number(hour >= 6 && hour < 22)))
  const spared = await planFleet([day('web', '0-8:10, 8-24:40')], [kind], 0, 5, 'UTC', {
    spared: new Set(['web']),
    apart: [],
  })
  expect(
    fillValleys([{ name: 'embed', segments: [on(5)], perDay: 1e9 }], spared, ['web'], [kind])[0]!
      .places,
  ).toEqual([])
})

test('at no hour is a slice lent twice, or one that its model needs', async () => {
  const rates = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 24, maxLength: 24 })
  await fc.assert(
    fc.asyncProperty(
      rates,
      rates,
      fc.integer({ min: 1e4, max: 3e6 }),
      async (web, shop, perDay) => {
        const written = (each: readonly number[]) =>
          each.map((rps, hour) => `${hour}-${hour + 1}:${rps}`).join(', ')
        const plan = await planFleet(
          [day('web', written(web)), day('shop', written(shop))],
          [kind],
          0,
          2,
        )
        const names = ['web', 'shop']
        const jobs = ['one', 'two'].map((name, i) => ({ name, segments: [on(3 + i)], perDay }))
        const filled = fillValleys(jobs, plan, names, [kind])
        const placements = placementsOf(
          plan.atPeaks.gpus,
          (model) => plan.hoursRps[names.indexOf(model)]!,
        )
        for (let hour = 0; hour < 24; hour++) {
          const needed = (at: number) =>
            placements.reduce(
              (sum, { replicas, byHour }) => sum + (byHour?.[at % 24] ?? replicas),
              0,
            )
          const lent = filled
            .flatMap(({ places }) => places)
            .reduce((sum, { byHour }) => sum + byHour[hour]!, 0)
          expect(lent + needed(hour)).toBeLessThanOrEqual(plan.atPeaks.gpus.length)
          expect(lent + needed(hour + 1)).toBeLessThanOrEqual(plan.atPeaks.gpus.length)
        }
        for (const { places, donePerDay } of filled) {
          const brought = places.reduce(
            (sum, { byHour, segment }) =>
              sum + 3600 * segment.rateRps * byHour.reduce((a, b) => a + b, 0),
            0,
          )
          expect(donePerDay).toBe(Math.min(perDay, brought))
        }
      },
    ),
    { numRuns: 8 },
  )
}, 60_000)

import { describe, expect, test } from 'vitest'
import { type Demand, steadyDemand, tableDemand } from '../plan/demand.ts'
import { toText } from '../report/document/markdown.ts'
import { fleetBlocks, fleetJson } from './fleet-blocks.ts'
import { planFleet } from './fleet-plan.ts'
import { type GpuKind, type Segment, type Turning, whole } from './packing.ts'

const kind: GpuKind = { name: 'T4', pricePerHour: 1, partitions: [[whole]] }
const on = (rateRps: number): Segment => ({
  gpu: 'T4',
  slice: whole,
  gpus: 1,
  rateRps,
  label: '',
  latencyMs: 100,
  limitMs: 400,
})
const byHour: Turning = { loadS: 90, loadFrom: 'as given' }
const modelOf = (
  name: string,
  demand: Demand | string,
  turning: Turning,
  segments: readonly Segment[],
) => ({
  ...{ name, segments, turning, demand: typeof demand === 'string' ? tableDemand(demand) : demand },
})

describe('as requests come', () => {
  const onDemand: Turning = { loadS: 20, loadFrom: 'measured', onDemand: { percentile: 0.99 } }
  const slow = (rateRps: number): Segment => ({ ...on(rateRps), latencyMs: 2000, limitMs: 120_000 })

  test('models with few requests and time to wait share a GPU, and what waits is said; those that have none do not', async () => {
    const rare = steadyDemand(0.002)
    const models = ['a', 'b', 'c'].map((name) => modelOf(name, rare, onDemand, [slow(2)]))
    const plan = await planFleet(models, [kind])
    expect(plan.atPeaks.pricePerHour).toBe(1)
    const [slot] = plan.atPeaks.gpus[0]!.slots
    expect(slot!.waiting!.map(({ model }) => model)).toEqual(['a', 'b', 'c'])
    // Two of three requests find another model there.
    for (const { waits } of slot!.waiting!)
      expect(Math.abs(waits.waiting - 2 / 3)).toBeLessThan(0.08)
    const text = toText(fleetBlocks(plan, models, 0))
    expect(text).toContain('whole: a, b, c in turns, loaded as requests come')
    expect(text).toMatch(/a +T4, GPU 1 +20 s +measured +1\d\d +[67]\d %/)
    const hasty = models.map((model) => ({ ...model, segments: [on(2)] }))
    expect((await planFleet(hasty, [kind])).atPeaks.pricePerHour).toBe(3)
    const scheduled = models.map((model) => ({ ...model, turning: byHour }))
    expect((await planFleet(scheduled, [kind])).atPeaks.pricePerHour).toBe(3)
    const awake = hasty.map((model) => ({
      ...model,
      turning: { ...onDemand, onDemand: { percentile: 0.99, wakeS: 0.2 } },
      segments: [{ ...on(2), latencyMs: 50, limitMs: 600 }],
    }))
    expect((await planFleet(awake, [kind])).atPeaks.pricePerHour).toBe(1)
  })

  test('as many as fit are in memory at once where that is known, and what waits is what that leaves', async () => {
    const asked = steadyDemand(0.002)
    const models = (memoryMiB: number) =>
      ['a', 'b', 'c'].map((name) => modelOf(name, asked, onDemand, [{ ...slow(2), memoryMiB }]))
    const planned = async (memoryMiB: number) => {
      const plan = await planFleet(models(memoryMiB), [{ ...kind, memoryMiB: { [whole]: 15_000 } }])
      return {
        plan,
        slot: plan.atPeaks.gpus[0]!.slots[0]!,
        text: toText(fleetBlocks(plan, models(memoryMiB), 0)),
      }
    }
    const [one, two, three] = [await planned(9000), await planned(7000), await planned(5000)]
    const pairs = [
      ['a', 'b'],
      ['a', 'c'],
      ['b', 'c'],
    ]
    const leaving = ['c', 'b', 'a']
    expect([one, two, three].map(({ slot }) => slot.together)).toEqual([
      undefined,
      { most: 2, sets: pairs, leaving },
      { most: 3, sets: [['a', 'b', 'c']], leaving },
    ])
    const waiting = [one, two, three].map(({ slot }) =>
      slot.waiting!.map(({ waits }) => waits.waiting),
    )
    // Of three alike two of three find another; then one stays, and half of the others' find the
    // other; then all do.
    for (const [i, parts] of [
      [2 / 3, 2 / 3, 2 / 3],
      [0, 1 / 2, 1 / 2],
      [0, 0, 0],
    ].entries())
      for (const [k, part] of parts.entries())
        expect(Math.abs(waiting[i]![k]! - part)).toBeLessThan(0.08)
    expect(one.text).toContain('one model of a slice in memory at a time')
    expect(two.text).toContain('whole: a, b, c in turns, loaded as requests come, 2 in memory')
    expect(two.text).toContain('whose SLO leaves most time to wait leaves first')
    expect(three.text).toContain('whole: a, b, c in turns, all in memory')
    const { gpus } = JSON.parse(fleetJson(two.plan, models(7000)))
    expect(gpus[0].slices[0]).toMatchObject({ inMemoryAtOnce: 2, together: pairs, leaving })
  })

  test('one that is loaded when its hours begin makes the first requests wait, where its percentile bears that', async () => {
    const day = (segment: Segment) => [
      modelOf('day', '0-8:0, 8-20:30, 20-24:0', onDemand, [segment]),
      modelOf('night', '0-8:30, 8-20:0, 20-24:30', onDemand, [segment]),
    ]
    const patient = day({ ...on(50), limitMs: 300_000 })
    const plan = await planFleet(patient, [kind], 0.3)
    expect(plan.atPeaks.pricePerHour).toBe(1)
    expect(plan.atRises.map(({ model, late, longestS }) => [model, late, longestS])).toEqual([
      ['day', 0, 140],
      ['night', 0, 140],
    ])
    expect(toText(fleetBlocks(plan, patient, 0.3))).toMatch(
      /day is loaded only when its hours begin: 1.1 % of its requests of a day wait, 140 s at the longest, and 0 % miss/,
    )
    expect((await planFleet(day(on(50)), [kind], 0.3)).atPeaks.pricePerHour).toBe(2)
  })
})

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Demand, steadyDemand, tableDemand } from '../plan/demand.ts'
import { toText } from '../report/document/markdown.ts'
import { fleetBlocks, fleetJson } from './fleet-blocks.ts'
import { planFleet } from './fleet-plan.ts'
import { peaksOver } from './over-day.ts'
import { type FleetModel, type GpuKind, type PackedGpu, type Segment, type Turning, whole } from './packing.ts'
import { placementsOf } from './placements.ts'

const kind: GpuKind = { name: 'T4', pricePerHour: 1, partitions: [[whole]] }
const on = (rateRps: number, gpu = 'T4'): Segment => ({ gpu, slice: whole, gpus: 1, rateRps, label: '', latencyMs: 100, limitMs: 400 })
const byHour: Turning = { loadS: 90, loadFrom: 'as given' }
const modelOf = (name: string, demand: Demand | string, turning?: Turning, segments = [on(50)]) => ({
  ...{ name, segments, demand: typeof demand === 'string' ? tableDemand(demand) : demand },
  ...(turning && { turning }),
})

/** What is wrong with what is in memory, reckoned anew: replicas serve once they are loaded, and slices have one of them at a time. */
function wrongIn(gpus: readonly PackedGpu[], models: readonly (FleetModel & { readonly demand: Demand })[], headroom = 0): string[] {
  const wrong: string[] = []
  for (const { slots } of gpus)
    for (const { stays = [] } of slots) {
      const there = stays.flatMap(({ from, to }) => Array.from({ length: to - from }, (_, i) => (from + i) % 96))
      if (new Set(there).size < there.length) wrong.push('two at once')
    }
  for (const { name, demand, turning } of models) {
    const lead = turning ? Math.ceil((turning.loadS + 120) / 900) : 0
    const serving = Array<number>(96).fill(0)
    for (const { model, segment, replicas, inTurns = Array<number>(96).fill(replicas) } of placementsOf(gpus, () => []))
      if (model === name)
        // Those that have been there for the time of a load.
        for (const step of serving.keys())
          serving[step]! += segment.rateRps * Math.min(...Array.from({ length: lead + 1 }, (_, i) => inTurns.at(step - i)!))
    for (const [step, rps] of peaksOver(demand, 96).entries())
      if (serving[step]! < (rps / (1 - headroom)) * (1 - 1e-5)) wrong.push(`${name} at ${step / 4}`)
  }
  return wrong
}

describe('by the hours', () => {
  const day = '0-8:0, 8-20:40, 20-24:0'
  const night = '0-7.5:40, 7.5-20.5:0, 20.5-24:40'

  test('a model of the day and one of the night have one GPU, each loaded before its hours; it is said what that saves, and drawn', async () => {
    const models = [modelOf('day', day, byHour), modelOf('night', night, byHour)]
    const plan = await planFleet(models, [kind])
    expect(plan.atPeaks).toMatchObject({ pricePerHour: 1, gpus: { length: 1 } })
    expect(plan.compared.unturned).toEqual({ gpus: 2, pricePerHour: 2 })
    expect(wrongIn(plan.atPeaks.gpus, models)).toEqual([])
    expect(plan.atPeaks.gpus[0]!.slots[0]!.stays!.map(({ model, from, to }) => [model, from, to])).toEqual([
      ['day', 31, 80],
      ['night', 81, 126],
    ])
    const text = toText(fleetBlocks(plan, models, 0))
    expect(text).toContain('1 T4 for 2 models: $1.00/h')
    expect(text).toContain('whole: day 7:45-20:00, night 20:15-7:30')
    expect(text).toContain('it would be $2.00/h: turns save 50 %')
    expect(text).toMatch(/night +T4 +20:15-7:30: 1 +90 s +as given/)
    expect(text).toContain('no request waits')
    const [picture] = fleetBlocks(plan, models, 0, true).flatMap((block) => (block.kind === 'chart' ? [block] : []))
    expect(picture!.alt).toBe('T4 1: whole day 7:45-20:00, night 20:15-7:30, 80 % busy at most')
    expect(
      [...picture!.svg.matchAll(/fill-opacity="0.2" x="([\d.]+)" y="\d+" width="([\d.]+)"/g)].map(([, x, width]) => [
        Number(x),
        Number(width),
      ]),
    ).toEqual([
      [308.7, 488],
      [806.6, 149.4],
      [0, 298.8],
    ])
    const json = JSON.parse(fleetJson(plan, models, { changes: [], loosened: 0, untried: 0 }))
    expect(json.gpus[0].slices[0].inTurns[1]).toEqual({ model: 'night', configuration: '', rateRps: 50, from: '20:15', to: '7:30' })
    expect(json).not.toHaveProperty('turning')
  })

  test('hours that touch leave no time to load, and are named; models that are not to leave stay', async () => {
    const touching = [modelOf('day', day, byHour), modelOf('night', '0-8:40, 8-20:0, 20-24:40', byHour)]
    const plan = await planFleet(touching, [kind])
    expect(plan.atPeaks.pricePerHour).toBe(2)
    expect(toText(fleetBlocks(plan, touching, 0))).toMatch(
      /taking turns saves nothing here.*Between the hours of night and day, day and night|day and night, night and day/,
    )
    const stays = [modelOf('day', day, byHour), modelOf('night', night)]
    expect((await planFleet(stays, [kind])).atPeaks.pricePerHour).toBe(2)
    expect((await planFleet(stays, [kind])).compared.unturned).toEqual({ gpus: 2, pricePerHour: 2 })
    const neither = [modelOf('day', day), modelOf('night', night)]
    expect(toText(fleetBlocks(await planFleet(neither, [kind]), neither, 0))).not.toContain('In turns')
  })

  test('hours that touch have one GPU too where the user lets models leave early, and how many requests that refuses is said', async () => {
    const early = { ...byHour, endsEarlyS: 900 }
    const models = [modelOf('day', day, early), modelOf('night', '0-8:40, 8-20:0, 20-24:40', early)]
    const plan = await planFleet(models, [kind])
    expect(plan.atPeaks.pricePerHour).toBe(1)
    expect(plan.atPeaks.gpus[0]!.slots[0]!.stays!.map(({ model, from, to }) => [model, from, to])).toEqual([
      ['day', 31, 79],
      ['night', 79, 127],
    ])
    const text = toText(fleetBlocks(plan, models, 0))
    expect(text).toContain('day leaves 900 s before its hours end, as endsEarly: allows: 2.1 % of its requests of a day are refused')
    expect(text).not.toContain('there is no time to load')
    const short = [modelOf('day', '0-8:0, 8-8.25:40, 8.25-24:0', early)]
    await expect(planFleet(short, [kind])).rejects.toThrow('day is asked for in no hours that are longer than its endsEarly:')
  })

  test('a load that takes longer than the hours are apart, the loss of a GPU, and groups apart keep them in memory', async () => {
    const slow = [modelOf('day', day, { ...byHour, loadS: 3600 }), modelOf('night', night, { ...byHour, loadS: 3600 })]
    expect((await planFleet(slow, [kind])).atPeaks.pricePerHour).toBe(2)
    const models = [modelOf('day', day, byHour), modelOf('night', night, byHour)]
    const ruled = (spared: string[], apart: string[][]) => planFleet(models, [kind], 0, 20, 'UTC', { spared: new Set(spared), apart })
    expect((await ruled(['day', 'night'], [])).atPeaks.pricePerHour).toBe(4)
    expect((await ruled([], [['day', 'night']])).atPeaks.pricePerHour).toBe(2)
  })

  test('where there are too few GPUs for all at once, turns may still do', async () => {
    const models = [modelOf('day', day, byHour), modelOf('night', night, byHour)]
    const plan = await planFleet(models, [{ ...kind, count: 1 }])
    expect(plan.atPeaks.pricePerHour).toBe(1)
    expect(plan.compared.unturned).toBeUndefined()
    expect(toText(fleetBlocks(plan, models, 0))).toContain('With all of them in memory all day these GPUs do not carry it.')
  })

  test('replicas of a model that is there all day leave some of its GPUs to others at night, and placements say how many when', async () => {
    const models = [modelOf('chat', '0-7:40, 7-21:190, 21-24:40', byHour), modelOf('jobs', '0-6:140, 6-22:0, 22-24:140', byHour)]
    const { atPeaks } = await planFleet(models, [kind])
    expect(atPeaks.pricePerHour).toBe(4)
    expect(wrongIn(atPeaks.gpus, models)).toEqual([])
    const placements = placementsOf(atPeaks.gpus, () => [])
    expect(placements.map(({ model, replicas, inTurns }) => [model, replicas, inTurns?.[12], inTurns?.[48]])).toEqual([
      ['chat', 4, 1, 4],
      ['jobs', 3, 3, 0],
    ])
  })

  /** Rates of a few spans of the day, at least two quarters each. */
  const drawnDay = fc
    .tuple(
      fc.subarray([3, 6, 9, 12, 15, 18, 21], { minLength: 1, maxLength: 3 }),
      fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 4, maxLength: 4 }),
    )
    .map(([cuts, rates]) => {
      const ends = [...cuts, 24]
      return ends.map((to, i) => `${i === 0 ? 0 : ends[i - 1]}-${to}:${i === 0 ? 30 + 20 * rates[i]! : 30 * rates[i]!}`).join(', ')
    })

  test('of one kind of GPU there are as many as replicas are in memory at once, and of two kinds nothing costs less', async () => {
    const drawn = fc.record({
      day: drawnDay,
      rate: fc.integer({ min: 20, max: 60 }),
      other: fc.integer({ min: 20, max: 60 }),
      load: fc.constantFrom(60, 1000),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(drawn, { minLength: 2, maxLength: 2 }), fc.integer({ min: 5, max: 20 }), async (of, price) => {
        const models = of.map(({ day: text, rate, other, load }, i) =>
          modelOf(`m${i}`, text, { loadS: load, loadFrom: 'as given' }, [on(rate), on(other, 'L4')]),
        )
        const held = models.map(({ demand, turning }) => {
          const rates = peaksOver(demand, 96)
          const lead = Math.ceil((turning!.loadS + 120) / 900)
          return rates.map((_, step) => Math.max(...Array.from({ length: lead + 1 }, (__, i) => rates[(step + i) % 96]!)))
        })
        const single = await planFleet(models, [kind])
        const atOnce = held[0]!.map((_, step) =>
          models.reduce((sum, { segments }, m) => sum + Math.ceil(held[m]![step]! / segments[0]!.rateRps - 1e-9), 0),
        )
        expect(single.atPeaks.gpus.length).toBe(Math.max(...atOnce))
        expect(wrongIn(single.atPeaks.gpus, models)).toEqual([])
        const kinds = [kind, { ...kind, name: 'L4', pricePerHour: price / 10 }]
        const both = await planFleet(models, kinds)
        expect(wrongIn(both.atPeaks.gpus, models)).toEqual([])
        expect(both.atPeaks.pricePerHour).toBeCloseTo(
          leastMoney(models, held, (whole, other) => whole + (price / 10) * other),
          6,
        )
        expect(both.atPeaks.boundPerHour).toBeGreaterThan(both.atPeaks.pricePerHour * 0.999)
        // Two halves are a GPU, and who comes takes any of them.
        const halves = { ...kind, partitions: [[whole], ['half', 'half']] }
        const onSlices = models.map((model) => ({
          ...model,
          segments: [model.segments[0]!, { ...model.segments[1]!, gpu: 'T4', slice: 'half' }],
        }))
        const cut = await planFleet(onSlices, [halves])
        expect(cut.atPeaks.pricePerHour).toBeCloseTo(
          leastMoney(onSlices, held, (wholes, half) => wholes + Math.ceil(half / 2)),
          6,
        )
        expect(wrongIn(cut.atPeaks.gpus, onSlices)).toEqual([])
      }),
      { numRuns: 15 },
    )
  }, 120_000)
})

/** By trying, for each model, every number of both kinds of slices at every level of its day, more at a higher one. */
function leastMoney(
  models: readonly FleetModel[],
  held: readonly (readonly number[])[],
  moneyOf: (first: number, second: number) => number,
): number {
  const plans = models.map(({ segments }, m) => {
    const [rate, other] = [segments[0]!.rateRps, segments[1]!.rateRps]
    const levels = [...new Set(held[m]!)].filter((rps) => rps > 0).sort((a, b) => a - b)
    let all: (readonly (readonly [number, number])[])[] = [[]]
    for (const rps of levels)
      all = all.flatMap((counts) => {
        const [least, leastOther] = counts.at(-1) ?? [0, 0]
        const next: (readonly (readonly [number, number])[])[] = []
        for (let a = least; a <= least + Math.ceil(rps / rate); a++) {
          const b = Math.max(leastOther, Math.ceil((rps - a * rate) / other - 1e-9))
          next.push([...counts, [a, b]])
        }
        return next
      })
    return all.map((counts) => held[m]!.map((rps) => counts[levels.indexOf(rps)] ?? ([0, 0] as const)))
  })
  let best = Number.POSITIVE_INFINITY
  for (const a of plans[0]!)
    for (const b of plans[1]!) {
      const most = (which: 0 | 1) => Math.max(...a.map((counts, step) => counts[which] + b[step]![which]))
      best = Math.min(best, moneyOf(most(0), most(1)))
    }
  return best
}

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
    for (const { waits } of slot!.waiting!) expect(Math.abs(waits.waiting - 2 / 3)).toBeLessThan(0.08)
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

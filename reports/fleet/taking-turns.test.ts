import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Demand, tableDemand } from '../plan/demand.ts'
import { toText } from '../report/document/markdown.ts'
import { fleetBlocks, fleetJson } from './fleet-blocks.ts'
import { planFleet } from './fleet-plan.ts'
import { peaksOver } from './over-day.ts'
import {
  type FleetModel,
  type GpuKind,
  type PackedGpu,
  type Segment,
  type Turning,
  whole,
} from './packing.ts'
import { placementsOf } from './placements.ts'

const kind: GpuKind = { name: 'T4', pricePerHour: 1, partitions: [[whole]] }
const on = (rateRps: number, gpu = 'T4'): Segment => ({
  gpu,
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
  turning?: Turning,
  segments = [on(50)],
) => ({
  ...{ name, segments, demand: typeof demand === 'string' ? tableDemand(demand) : demand },
  ...(turning && { turning }),
})

/**
 * What is wrong with what is in memory, reckoned anew: replicas serve once they are loaded, and
 * slices have one of them at a time.
 */
function wrongIn(
  gpus: readonly PackedGpu[],
  models: readonly (FleetModel & { readonly demand: Demand })[],
  headroom = 0,
): string[] {
  const wrong: string[] = []
  for (const { slots } of gpus)
    for (const { stays = [] } of slots) {
      const there = stays.flatMap(({ from, to }) =>
        Array.from({ length: to - from }, (_, i) => (from + i) % 96),
      )
      if (new Set(there).size < there.length) wrong.push('two at once')
    }
  for (const { name, demand, turning } of models) {
    const lead = turning ? Math.ceil((turning.loadS + 120) / 900) : 0
    const serving = Array<number>(96).fill(0)
    for (const {
      model,
      segment,
      replicas,
      inTurns = Array<number>(96).fill(replicas),
    } of placementsOf(gpus, () => []))
      if (model === name)
        // Those that have been there for the time of a load.
        for (const step of serving.keys())
          serving[step]! +=
            segment.rateRps *
            Math.min(...Array.from({ length: lead + 1 }, (_, i) => inTurns.at(step - i)!))
    for (const [step, rps] of peaksOver(demand, 96).entries())
      if (serving[step]! < (rps / (1 - headroom)) * (1 - 1e-5)) wrong.push(`${name} at ${step / 4}`)
  }
  return wrong
}

const without = (gpus: readonly PackedGpu[], lost: PackedGpu) => gpus.filter((gpu) => gpu !== lost)

/**
 * What takes the solver a second takes it more than its usual forty where other tests have the
 * cores.
 */
const toTheEndS = 600

describe('by the hours', () => {
  const day = '0-8:0, 8-20:40, 20-24:0'
  const night = '0-7.5:40, 7.5-20.5:0, 20.5-24:40'

  test('a model of the day and one of the night have one GPU, each loaded before its hours; it is said what that saves, and drawn', async () => {
    const models = [modelOf('day', day, byHour), modelOf('night', night, byHour)]
    const plan = await planFleet(models, [kind])
    expect(plan.atPeaks).toMatchObject({ pricePerHour: 1, gpus: { length: 1 } })
    expect(plan.compared.unturned).toEqual({ gpus: 2, pricePerHour: 2 })
    expect(wrongIn(plan.atPeaks.gpus, models)).toEqual([])
    expect(
      plan.atPeaks.gpus[0]!.slots[0]!.stays!.map(({ model, from, to }) => [model, from, to]),
    ).toEqual([
      ['day', 31, 80],
      ['night', 81, 126],
    ])
    const text = toText(fleetBlocks(plan, models, 0))
    expect(text).toContain('1 T4 for 2 models: $1.00/h')
    expect(text).toContain('whole: day 7:45-20:00, night 20:15-7:30')
    expect(text).toContain('it would be $2.00/h: turns save 50 %')
    expect(text).toMatch(/night +T4 +20:15-7:30: 1 +90 s +as given/)
    expect(text).toContain('no request waits')
    const [picture] = fleetBlocks(plan, models, 0, true).flatMap((block) =>
      block.kind === 'chart' ? [block] : [],
    )
    expect(picture!.alt).toBe('T4 1: whole day 7:45-20:00, night 20:15-7:30, 80 % busy at most')
    expect(
      [...picture!.svg.matchAll(/fill-opacity="0.2" x="([\d.]+)" y="\d+" width="([\d.]+)"/g)].map(
        ([, x, width]) => [Number(x), Number(width)],
      ),
    ).toEqual([
      [308.7, 488],
      [806.6, 149.4],
      [0, 298.8],
    ])
    const json = JSON.parse(fleetJson(plan, models))
    expect(json.gpus[0].slices[0].inTurns[1]).toEqual({
      model: 'night',
      configuration: '',
      rateRps: 50,
      from: '20:15',
      to: '7:30',
    })
    expect(json).not.toHaveProperty('turning')
  })

  test('hours that touch leave no time to load, and are named; models that are not to leave stay', async () => {
    const touching = [
      modelOf('day', day, byHour),
      modelOf('night', '0-8:40, 8-20:0, 20-24:40', byHour),
    ]
    const plan = await planFleet(touching, [kind])
    expect(plan.atPeaks.pricePerHour).toBe(2)
    expect(toText(fleetBlocks(plan, touching, 0))).toMatch(
      /taking turns saves nothing here.*Between the hours of night and day, day and night|day and night, night and day/,
    )
    const stays = [modelOf('day', day, byHour), modelOf('night', night)]
    expect((await planFleet(stays, [kind])).atPeaks.pricePerHour).toBe(2)
    expect((await planFleet(stays, [kind])).compared.unturned).toEqual({ gpus: 2, pricePerHour: 2 })
    const neither = [modelOf('day', day), modelOf('night', night)]
    expect(toText(fleetBlocks(await planFleet(neither, [kind]), neither, 0))).not.toContain(
      'In turns',
    )
  })

  test('hours that touch have one GPU too where the user lets models leave early, and how many requests that refuses is said', async () => {
    const early = { ...byHour, endsEarlyS: 900 }
    const models = [modelOf('day', day, early), modelOf('night', '0-8:40, 8-20:0, 20-24:40', early)]
    const plan = await planFleet(models, [kind])
    expect(plan.atPeaks.pricePerHour).toBe(1)
    expect(
      plan.atPeaks.gpus[0]!.slots[0]!.stays!.map(({ model, from, to }) => [model, from, to]),
    ).toEqual([
      ['day', 31, 79],
      ['night', 79, 127],
    ])
    const text = toText(fleetBlocks(plan, models, 0))
    expect(text).toContain(
      'day leaves 900 s before its hours end, as endsEarly: allows: 2.1 % of its requests of a day are refused',
    )
    expect(text).not.toContain('there is no time to load')
    const short = [modelOf('day', '0-8:0, 8-8.25:40, 8.25-24:0', early)]
    await expect(planFleet(short, [kind])).rejects.toThrow(
      'day is asked for in no hours that are longer than its endsEarly:',
    )
  })

  test('a load that takes longer than the hours are apart keeps them in memory; with the loss of a GPU borne each has two at its hours, and groups apart meet on none', async () => {
    const slow = [
      modelOf('day', day, { ...byHour, loadS: 3600 }),
      modelOf('night', night, { ...byHour, loadS: 3600 }),
    ]
    expect((await planFleet(slow, [kind])).atPeaks.pricePerHour).toBe(2)
    const models = [modelOf('day', day, byHour), modelOf('night', night, byHour)]
    const ruled = (spared: string[], apart: string[][]) =>
      planFleet(models, [kind], 0, 20, 'UTC', { spared: new Set(spared), apart })
    const spared = await ruled(['day', 'night'], [])
    expect(spared.atPeaks.pricePerHour).toBe(2)
    for (const lost of spared.atPeaks.gpus)
      expect(wrongIn(without(spared.atPeaks.gpus, lost), models)).toEqual([])
    expect(spared.compared.unturned).toEqual({ gpus: 4, pricePerHour: 4 })
    expect(toText(fleetBlocks(spared, models, 0))).toContain(
      'any one GPU may be lost at any hour, and what is left in memory carries what is asked of every model then',
    )
    expect((await ruled(['day'], [])).atPeaks.pricePerHour).toBe(2)
    expect((await ruled([], [['day', 'night']])).atPeaks.pricePerHour).toBe(2)
  })

  test('where there are too few GPUs for all at once, turns may still do', async () => {
    const models = [modelOf('day', day, byHour), modelOf('night', night, byHour)]
    const plan = await planFleet(models, [{ ...kind, count: 1 }])
    expect(plan.atPeaks.pricePerHour).toBe(1)
    expect(plan.compared.unturned).toBeUndefined()
    expect(toText(fleetBlocks(plan, models, 0))).toContain(
      'With all of them in memory all day these GPUs do not carry it.',
    )
  })

  test('replicas of a model that is there all day leave some of its GPUs to others at night, and placements say how many when', async () => {
    const models = [
      modelOf('chat', '0-7:40, 7-21:190, 21-24:40', byHour),
      modelOf('jobs', '0-6:140, 6-22:0, 22-24:140', byHour),
    ]
    const { atPeaks } = await planFleet(models, [kind])
    expect(atPeaks.pricePerHour).toBe(4)
    expect(wrongIn(atPeaks.gpus, models)).toEqual([])
    const placements = placementsOf(atPeaks.gpus, () => [])
    expect(
      placements.map(({ model, replicas, inTurns }) => [
        model,
        replicas,
        inTurns?.[12],
        inTurns?.[48],
      ]),
    ).toEqual([
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
      return ends
        .map(
          (to, i) =>
            `${i === 0 ? 0 : ends[i - 1]}-${to}:${i === 0 ? 30 + 20 * rates[i]! : 30 * rates[i]!}`,
        )
        .join(', ')
    })

  test('of one kind of GPU there are as many as replicas are in memory at once, and of two kinds nothing costs less, whether or not one may be lost', async () => {
    const drawn = fc.record({
      day: drawnDay,
      lossBorne: fc.boolean(),
      rate: fc.integer({ min: 20, max: 60 }),
      other: fc.integer({ min: 20, max: 60 }),
      load: fc.constantFrom(60, 1000),
    })
    await fc.assert(
      fc.asyncProperty(
        fc.array(drawn, { minLength: 2, maxLength: 2 }),
        fc.integer({ min: 5, max: 20 }),
        async (of, price) => {
          const models = of.map(({ day: text, rate, other, load }, i) =>
            modelOf(`m${i}`, text, { loadS: load, loadFrom: 'as given' }, [
              on(rate),
              on(other, 'L4'),
            ]),
          )
          const held = models.map(({ demand, turning }) => {
            const rates = peaksOver(demand, 96)
            const lead = Math.ceil((turning!.loadS + 120) / 900)
            return rates.map((_, step) =>
              Math.max(...Array.from({ length: lead + 1 }, (__, i) => rates[(step + i) % 96]!)),
            )
          })
          const lossOf = new Set(models.flatMap(({ name }, i) => (of[i]!.lossBorne ? [name] : [])))
          const planned = (kinds: readonly GpuKind[]) =>
            planFleet(models, kinds, 0, toTheEndS, 'UTC', { spared: lossOf, apart: [] })
          const wrongOn = (gpus: readonly PackedGpu[]) => [
            ...wrongIn(gpus, models),
            ...gpus.flatMap((lost) =>
              wrongIn(
                without(gpus, lost),
                models.filter(({ name }) => lossOf.has(name)),
              ),
            ),
          ]
          const single = await planned([kind])
          const atOnce = held[0]!.map((_, step) =>
            models.reduce((sum, { name, segments }, m) => {
              const needed = Math.ceil(held[m]![step]! / segments[0]!.rateRps - 1e-9)
              return sum + needed + Number(needed > 0 && lossOf.has(name))
            }, 0),
          )
          expect(single.atPeaks.gpus.length).toBe(Math.max(...atOnce))
          expect(wrongOn(single.atPeaks.gpus)).toEqual([])
          const kinds = [kind, { ...kind, name: 'L4', pricePerHour: price / 10 }]
          const both = await planned(kinds)
          expect(wrongOn(both.atPeaks.gpus)).toEqual([])
          expect(both.atPeaks.pricePerHour).toBeCloseTo(
            leastMoney(models, held, (whole, other) => whole + (price / 10) * other, lossOf),
            6,
          )
          expect(both.atPeaks.boundPerHour).toBeGreaterThan(both.atPeaks.pricePerHour * 0.999)
          // Two halves are a GPU, and who comes takes any of them.
          const halves = { ...kind, partitions: [[whole], ['half', 'half']] }
          const onSlices = models.map((model) => ({
            ...model,
            segments: [model.segments[0]!, { ...model.segments[1]!, gpu: 'T4', slice: 'half' }],
          }))
          const cut = await planFleet(onSlices, [halves], 0, toTheEndS)
          expect(cut.atPeaks.pricePerHour).toBeCloseTo(
            leastMoney(onSlices, held, (wholes, half) => wholes + Math.ceil(half / 2)),
            6,
          )
          expect(wrongIn(cut.atPeaks.gpus, onSlices)).toEqual([])
        },
      ),
      { numRuns: 15 },
    )
  })

  test('those of the day that stay apart have their halves on different GPUs, and leave all to one of the night', async () => {
    const halves = { ...kind, partitions: [[whole], ['half', 'half']] }
    const onHalf = [{ ...on(40), slice: 'half' }]
    // Each may meet one other.
    const apart = [...'abcdef'].flatMap((a) =>
      [...'abcdef'].filter((b) => a < b && !['ad', 'be', 'cf'].includes(a + b)).map((b) => [a, b]),
    )
    const models = [
      ...[...'abcdef'].map((name) => modelOf(name, day, byHour, onHalf)),
      modelOf('night', night.replaceAll('40', '240'), byHour, onHalf),
    ]
    const { atPeaks, compared } = await planFleet(models, [halves], 0, 40, 'UTC', {
      spared: new Set(),
      apart,
    })
    expect([atPeaks.pricePerHour, compared.unturned!.pricePerHour]).toEqual([3, 6])
    expect(wrongIn(atPeaks.gpus, models)).toEqual([])
    for (const { slots } of atPeaks.gpus) {
      const there = slots.flatMap(({ stays = [] }) => stays.map(({ model }) => model))
      for (const group of apart)
        expect(group.filter((name) => there.includes(name)).length).toBeLessThan(2)
    }
  })

  test('on halves, where the loss of a GPU takes both and groups stay apart, nothing costs less by trying every content of every GPU by day and by night', async () => {
    const rate = fc.integer({ min: 0, max: 8 })
    const drawn = fc
      .record({
        day: rate,
        night: rate,
        whole: fc.integer({ min: 6, max: 12 }),
        half: fc.integer({ min: 4, max: 8 }),
      })
      .filter(({ day, night }) => day + night > 0)
    const halves = { ...kind, partitions: [[whole], ['half', 'half']] }
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(drawn, drawn),
        fc.subarray(['a', 'b']),
        fc.boolean(),
        async (of, lossOf, parted) => {
          const rules = { spared: new Set(lossOf), apart: parted ? [['a', 'b']] : [] }
          const models = of.map(({ day: by, night: at, whole: onWhole, half }, i) => {
            const between = Math.min(by, at)
            const asked = `0-7:${at}, 7-8:${between}, 8-20:${by}, 20-21:${between}, 21-24:${at}`
            return modelOf('ab'[i]!, asked, byHour, [on(onWhole), { ...on(half), slice: 'half' }])
          })
          const { atPeaks } = await planFleet(models, [halves], 0, 40, 'UTC', rules)
          expect(wrongIn(atPeaks.gpus, models)).toEqual([])
          for (const lost of atPeaks.gpus)
            expect(
              wrongIn(
                without(atPeaks.gpus, lost),
                models.filter(({ name }) => lossOf.includes(name)),
              ),
            ).toEqual([])
          for (const { slots } of atPeaks.gpus) {
            const there = new Set(
              slots.flatMap(({ model, stays = [] }) => [model, ...stays.map((stay) => stay.model)]),
            )
            expect(parted && there.has('a') && there.has('b')).toBe(false)
          }
          const brute = fewestHalved(of, lossOf, parted, 3)
          expect(atPeaks.gpus.length).toBeLessThanOrEqual(brute)
          if (atPeaks.gpus.length <= 3) expect(atPeaks.gpus.length).toBe(brute)
          expect(atPeaks.boundPerHour).toBeLessThanOrEqual(atPeaks.pricePerHour)
        },
      ),
      { numRuns: 12 },
    )
  }, 120_000)
})

interface DayAndNight {
  readonly day: number
  readonly night: number
  readonly whole: number
  readonly half: number
}

/**
 * The fewest GPUs, whole or halved, by trying who is where by day and by night: one of a model
 * whose hours ask for less of it then is there in the others too.
 */
function fewestHalved(
  of: readonly [DayAndNight, DayAndNight],
  lossOf: readonly string[],
  parted: boolean,
  most: number,
): number {
  const stays = (byDay: number, atNight: number) =>
    of.every(
      ({ day, night }, m) =>
        day === 0 ||
        night === 0 ||
        (day < night ? byDay !== m || atNight === m : atNight !== m || byDay === m),
    )
  const turns = [-1, 0, 1].flatMap((byDay) =>
    [-1, 0, 1].flatMap((atNight) => (stays(byDay, atNight) ? [{ byDay, atNight }] : [])),
  )
  const contents = [
    ...turns.map((turn) => [{ ...turn, slice: 'whole' as const }]),
    ...turns.flatMap((a, i) =>
      turns.slice(i).map((b) => [a, b].map((turn) => ({ ...turn, slice: 'half' as const }))),
    ),
  ]
    .filter(
      (slots) =>
        !parted ||
        [0, 1].some((m) => slots.every(({ byDay, atNight }) => byDay !== m && atNight !== m)),
    )
    // What each GPU carries of each model by day and at night.
    .map((slots) =>
      [0, 1].map((m) =>
        (['byDay', 'atNight'] as const).map((when) =>
          slots.reduce((sum, slot) => sum + (slot[when] === m ? of[m]![slot.slice] : 0), 0),
        ),
      ),
    )
  const enough = (gpus: readonly number[][][]) =>
    of.every(({ day, night }, m) =>
      [day, night].every((rps, when) => {
        const each = gpus.map((gpu) => gpu[m]![when]!)
        const lost = lossOf.includes('ab'[m]!) ? Math.max(0, ...each) : 0
        return rps === 0 || each.reduce((sum, carried) => sum + carried, 0) - lost >= rps
      }),
    )
  const within = (count: number, from: number, gpus: readonly number[][][]): boolean =>
    enough(gpus) ||
    (gpus.length < count &&
      contents.slice(from).some((gpu, i) => within(count, from + i, [...gpus, gpu])))
  for (let count = 0; count <= most; count++) if (within(count, 0, [])) return count
  return Number.POSITIVE_INFINITY
}

/**
 * By trying, for each model, every number of both kinds of slices at every level of its day, more
 * at a higher one.
 */
function leastMoney(
  models: readonly FleetModel[],
  held: readonly (readonly number[])[],
  moneyOf: (first: number, second: number) => number,
  lossOf: ReadonlySet<string> = new Set(),
): number {
  const plans = models.map(({ name, segments }, m) => {
    const [rate, other] = [segments[0]!.rateRps, segments[1]!.rateRps]
    const carriedBy = (a: number, b: number) =>
      a * rate + b * other - (lossOf.has(name) ? Math.max(a > 0 ? rate : 0, b > 0 ? other : 0) : 0)
    const levels = [...new Set(held[m]!)].filter((rps) => rps > 0).sort((a, b) => a - b)
    let all: (readonly (readonly [number, number])[])[] = [[]]
    for (const rps of levels)
      all = all.flatMap((counts) => {
        const [least, leastOther] = counts.at(-1) ?? [0, 0]
        const next: (readonly (readonly [number, number])[])[] = []
        for (let a = least; a <= least + Math.ceil(rps / rate) + 1; a++) {
          let b = leastOther
          while (carriedBy(a, b) < rps - 1e-9) b++
          next.push([...counts, [a, b]])
        }
        return next
      })
    return all.map((counts) =>
      held[m]!.map((rps) => counts[levels.indexOf(rps)] ?? ([0, 0] as const)),
    )
  })
  let best = Number.POSITIVE_INFINITY
  for (const a of plans[0]!)
    for (const b of plans[1]!) {
      const most = (which: 0 | 1) =>
        Math.max(...a.map((counts, step) => counts[which] + b[step]![which]))
      best = Math.min(best, moneyOf(most(0), most(1)))
    }
  return best
}

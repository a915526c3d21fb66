import fc from 'fast-check'
import { expect, test } from 'vitest'
import { assign } from './assignment.ts'
import { overDayOf } from './over-day.ts'
import { type Counted, type Wanted, whole } from './packing.ts'
import { noRules } from './rules.ts'
import { momentsOf, moreRows, presentAt, timeOf, trimmed } from './turn-rows.ts'

const [fast, slow] = [50, 20].map((rateRps) => ({
  gpu: 'T4',
  slice: whole,
  gpus: 1,
  rateRps,
  label: `${rateRps}`,
}))
const between = (from: number, to: number, rps: number, otherwise = 0) =>
  Array.from({ length: 96 }, (_, step) => (step >= from && step < to ? rps : otherwise))
const wantedOf = (model: string, rates?: readonly number[]): Wanted => ({
  ...{ model, demandRps: rates ? Math.max(...rates) : 10, best: [fast!, slow!] },
  ...(rates && { overDay: overDayOf(rates, 0) }),
})

test('slices need room in the steps that no other has as much in as well', () => {
  expect(momentsOf([wantedOf('a')])).toEqual([0])
  // By day one, at night the other, at noon both.
  const two = [
    wantedOf('a', between(32, 80, 5)),
    wantedOf(
      'b',
      between(48, 52, 5, 0).map((rps, step) => (step < 20 ? 6 : rps)),
    ),
  ]
  expect(momentsOf(two)).toEqual([0, 48])
  const day = fc
    .array(fc.integer({ min: 0, max: 3 }), { minLength: 96, maxLength: 96 })
    .filter((rates) => rates.some((rps) => rps > 0))
  fc.assert(
    fc.property(
      fc.array(day, { minLength: 1, maxLength: 3 }),
      fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 12, maxLength: 12 }),
      (days, more) => {
        const wanted = days.map((rates, i) => wantedOf(`m${i}`, rates))
        // However many each level holds, more at a higher one: the most of the day is in one of the
        // moments.
        const held = wanted.map(({ overDay }, m) =>
          overDay!.levelAt.map((level) =>
            more.slice(4 * m, 4 * m + level).reduce((sum, count) => sum + count, 0),
          ),
        )
        const at = (step: number) => held.reduce((sum, own) => sum + own[step]!, 0)
        const moments = momentsOf(wanted)
        expect(Math.max(...moments.map(at))).toBe(
          Math.max(...Array.from({ length: 96 }, (_, step) => at(step))),
        )
        expect(
          new Set(moments.map((step) => wanted.map(({ overDay }) => overDay!.levelAt[step]).join()))
            .size,
        ).toBe(moments.length)
      },
    ),
    { numRuns: 100 },
  )
})

test('what a level holds is there while the day is at it, and no more at a lower one', () => {
  const of = wantedOf(
    'a',
    between(32, 56, 10).map((rps, step) => (step >= 56 && step < 80 ? 4 : rps)),
  )
  const [low, high] = [1, 2].map((level) => ({ name: `y${level}`, of, level }))
  expect([31, 32, 56, 80].map((step) => [presentAt(low!, step), presentAt(high!, step)])).toEqual([
    [false, false],
    [false, true],
    [true, false],
    [false, false],
  ])
  expect([timeOf(low!), timeOf(high!), timeOf({ name: 'y', of })]).toEqual([0.25, 0.25, 1])
  expect(moreRows([low!, high!, { ...low!, name: 'z1' }, { ...high!, name: 'z2' }])).toEqual([
    [
      [
        [1, 'y2'],
        [-1, 'y1'],
      ],
      '>= 0',
    ],
    [
      [
        [1, 'z2'],
        [-1, 'z1'],
      ],
      '>= 0',
    ],
  ])
})

test('replicas that a level does not need come with the next, and those that none needs are none', () => {
  const wanted = [wantedOf('a', between(32, 80, 100, 40)), wantedOf('b')]
  const counted = (first: number, then: number, slower = 0): Counted[] => [
    { model: 'a', segment: fast!, count: first, from: 1 },
    { model: 'a', segment: fast!, count: then, from: 2 },
    { model: 'a', segment: slow!, count: slower, from: 1 },
    { model: 'b', segment: slow!, count: 7 },
  ]
  const counts = (replicas: readonly Counted[]) =>
    replicas
      .map(
        ({ model, segment, count, from }) => `${model} ${segment.rateRps} ${from ?? ''} ${count}`,
      )
      .sort()
  expect(counts(trimmed(counted(2, 0), wanted))).toEqual(counts(counted(1, 1)))
  expect(counts(trimmed(counted(4, 3), wanted))).toEqual(counts(counted(1, 1)))
  expect(counts(trimmed(counted(1, 1), wanted))).toEqual(counts(counted(1, 1)))
  // Of any one that may be lost another is there.
  expect(counts(trimmed(counted(4, 3), wanted, new Set(['a'])))).toEqual(counts(counted(2, 1)))
  // Two slow ones carry the night alone; by day the others are needed, less one of them.
  const mixed = trimmed(counted(1, 1, 2), wanted)
  for (const [from, asked] of [
    [1, 40],
    [2, 100],
  ] as const) {
    const there = mixed.filter((one) => one.model === 'a' && one.from! <= from)
    expect(
      there.reduce((sum, { count, segment }) => sum + count * segment.rateRps, 0),
    ).toBeGreaterThanOrEqual(asked)
  }
})

test('on single GPUs too: two models find no place on two GPUs that they would have to change with one another every morning', async () => {
  const places = ['T4', 'L4'].map((name) => ({
    kind: { name, pricePerHour: 1, partitions: [[whole]] },
    partitions: [[whole]],
  }))
  const best = [fast!, { ...slow!, gpu: 'L4' }]
  const [day, night] = [
    { ...wantedOf('a', between(32, 80, 50, 20)), best },
    { ...wantedOf('b', between(32, 80, 20, 50)), best },
  ]
  expect(await assign(places, [day!, night!], noRules, 5)).toBe('infeasible')
  const third = [...places, places[0]!]
  expect((await assign(third, [day!, night!], noRules, 5)) as object).toMatchObject({
    pricePerHour: 2,
    gpus: [{ kind: 'T4' }, { kind: 'T4' }],
  })
})

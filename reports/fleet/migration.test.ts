import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { tableDemand } from '../plan/demand.ts'
import { toText } from '../report/document/markdown.ts'
import { planFleet } from './fleet-plan.ts'
import { type Migration, planMigration } from './migration.ts'
import { migrationBlocks } from './migration-blocks.ts'
import { type Block, blocksOf } from './migration-places.ts'
import { type GpuKind, whole } from './packing.ts'
import { askedOver, leadStepsOf } from './turning.ts'

const rates: Readonly<Record<string, number>> = { whole: 7, half: 3, third: 2 }
const block = (slices: string, models: string, kind = 'A'): Block => ({
  kind,
  gpus: 1,
  places: slices
    .split(' ')
    .map((slice, i) =>
      models[i] === '-'
        ? { slice }
        : { slice, replica: { model: models[i]!, rateRps: rates[slice]! } },
    ),
})
const cuts = ['whole', 'half half', 'third third third']
const blocks = fc.array(
  fc.tuple(
    fc.constantFrom(...cuts),
    fc.constantFrom('A', 'B'),
    fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 3, maxLength: 3 }),
  ),
  { minLength: 1, maxLength: 6 },
)
const made = (drawn: readonly (readonly [string, string, readonly string[]])[]) =>
  drawn.map(([cut, kind, models]) => block(cut, models.join(''), kind))

const keyOf = (kind: string, slice: string, model: string) => `${kind} ${slice} ${model}`
const standing = (all: readonly Block[]): string[] =>
  all.flatMap(({ kind, places }) =>
    places.flatMap(({ slice, replica }) => (replica ? [keyOf(kind, slice, replica.model)] : [])),
  )
const carriedBy = (all: readonly string[], model: string) =>
  all.reduce((sum, key) => sum + (key.endsWith(` ${model}`) ? rates[key.split(' ')[1]!]! : 0), 0)
const gpusOf = (all: readonly Block[], kind: string) =>
  all.reduce((sum, { gpus, ...of }) => sum + (of.kind === kind ? gpus : 0), 0)

/** Hours 0-11 ask a part of what the others do. */
const demandOf = (today: readonly Block[], plan: readonly Block[], share: number) =>
  new Map(
    ['a', 'b', 'c'].map((model) => {
      const peak =
        share * Math.min(carriedBy(standing(today), model), carriedBy(standing(plan), model))
      return [model, Array.from({ length: 24 }, (_, hour) => (hour < 12 ? peak / 4 : peak))]
    }),
  )

/** What stands after each step, by what the steps say alone. */
function replayed(today: readonly Block[], { steps }: Migration): string[][] {
  const now = standing(today)
  return steps.map(({ action, kind, replicas }) => {
    for (const { slice, model } of replicas) {
      const key = keyOf(kind, slice, model)
      if (action === 'bring up') now.push(key)
      else {
        expect(now).toContain(key)
        now.splice(now.indexOf(key), 1)
      }
    }
    return [...now]
  })
}

test('ends at the plan; what stands carries the demand in the hours that are said, on no more GPUs than there are', () => {
  fc.assert(
    fc.property(
      blocks,
      blocks,
      fc.constantFrom(0.5, 0.8, 1),
      fc.nat(2),
      (from, to, share, more) => {
        const [today, plan] = [made(from), made(to)]
        const hours = demandOf(today, plan, share)
        const limitOf = (kind: string) => gpusOf(plan, kind) + more
        const migration = planMigration(today, plan, limitOf, hours)
        const states = replayed(today, migration)
        expect((states.at(-1) ?? standing(today)).toSorted()).toEqual(standing(plan).toSorted())
        for (const [i, step] of migration.steps.entries()) {
          const fine = Array.from({ length: 24 }, (_, hour) => hour).filter((hour) =>
            [...hours].every(([model, rps]) => carriedBy(states[i]!, model) >= rps[hour]! - 1e-6),
          )
          expect(step.hours).toEqual(fine)
          expect(step.short.length > 0).toBe(fine.length < 24)
          for (const kind of ['A', 'B'])
            expect(step.gpusInUse[kind] ?? 0).toBeLessThanOrEqual(
              Math.max(limitOf(kind), gpusOf(today, kind)),
            )
        }
        const last = migration.steps.at(-1)
        for (const kind of ['A', 'B'])
          if (last) expect(last.gpusInUse[kind] ?? 0).toBe(gpusOf(plan, kind))
      },
    ),
  )
})

test('with as many GPUs as are wanted nothing is ever short', () => {
  fc.assert(
    fc.property(blocks, blocks, (from, to) => {
      const [today, plan] = [made(from), made(to)]
      const { steps } = planMigration(
        today,
        plan,
        () => Number.POSITIVE_INFINITY,
        demandOf(today, plan, 1),
      )
      expect(steps.flatMap(({ short }) => short)).toEqual([])
    }),
  )
})

describe('steps', () => {
  const steady = (rps: Readonly<Record<string, number>>) =>
    new Map(Object.entries(rps).map(([model, rate]) => [model, Array<number>(24).fill(rate)]))

  test('what is as it will be stays', () => {
    const all = [block('half half', 'ab'), block('whole', 'c')]
    expect(
      planMigration(
        all,
        [block('half half', 'ba'), block('whole', 'c')],
        () => 2,
        steady({ a: 3, b: 3, c: 7 }),
      ),
    ).toEqual({
      steps: [],
      staying: 3,
      mostGpus: { A: 2 },
    })
  })

  test('what the demand can spare is drained and cut anew before another GPU is taken', () => {
    const today = [block('whole', 'a'), block('whole', 'a'), block('whole', 'b')]
    const plan = [block('whole', 'a'), block('half half', 'bb')]
    const { steps, mostGpus } = planMigration(today, plan, () => 9, steady({ a: 7, b: 6 }))
    expect(
      steps.map(({ action, on, givenBack, replicas }) => [
        action,
        on ?? givenBack,
        replicas.map(({ model }) => model).join(''),
      ]),
    ).toEqual([
      ['drain', undefined, 'a'],
      ['bring up', 'emptied', 'bb'],
      ['drain', 1, 'b'],
    ])
    expect(mostGpus).toEqual({ A: 3 })
  })

  test('without a GPU to spare it says what is short, and in which hours it is not', () => {
    const hours = new Map([
      ['a', Array.from({ length: 24 }, (_, hour) => (hour < 6 ? 0 : 7))],
      ['b', Array<number>(24).fill(0)],
    ])
    const tight = planMigration(
      [block('whole', 'a')],
      [block('half half', 'aa'), block('half half', 'ab')],
      () => 2,
      new Map([['a', Array(24).fill(9)]]),
    )
    expect(tight.steps.map(({ action, on }) => on ?? action)).toEqual([
      'one more',
      'drain',
      'emptied',
    ])
    const { steps } = planMigration(
      [block('whole', 'a')],
      [block('third third third', 'aaa')],
      () => 1,
      hours,
    )
    expect(steps.map(({ action, hours: fine, short }) => [action, fine, short])).toEqual([
      ['drain', [0, 1, 2, 3, 4, 5], [{ model: 'a', carriesRps: 0, demandRps: 7 }]],
      ['bring up', [0, 1, 2, 3, 4, 5], [{ model: 'a', carriesRps: 6, demandRps: 7 }]],
    ])
  })

  test('replicas that change places on GPUs that stay cut go by way of one more, where there is one', () => {
    const [today, plan] = [
      [block('half half', 'aa'), block('half half', 'bb')],
      [block('half half', 'ab'), block('half half', 'ab')],
    ]
    const needed = steady({ a: 6, b: 6 })
    expect(planMigration(today, plan, () => 3, needed).steps.flatMap(({ short }) => short)).toEqual(
      [],
    )
    expect(
      planMigration(today, plan, () => 2, needed).steps.flatMap(({ short }) => short),
    ).not.toEqual([])
  })

  test('a replica on several GPUs moves as one', () => {
    const segment = { gpu: 'A', slice: whole, gpus: 2, rateRps: 7, label: '' }
    const gpu = { kind: 'A', slots: [{ slice: whole, model: 'a', segment }] }
    const [pair, ...others] = blocksOf([gpu, gpu])
    expect([pair, others]).toEqual([
      { kind: 'A', gpus: 2, places: [{ slice: whole, replica: { model: 'a', rateRps: 7 } }] },
      [],
    ])
    const { steps } = planMigration([pair!], [block('whole', 'a')], () => 2, steady({ a: 0 }))
    expect(
      steps.map(({ action, gpusInUse, givenBack }) => [action, gpusInUse.A, givenBack]),
    ).toEqual([
      ['drain', 1, 1],
      ['bring up', 1, undefined],
    ])
  })
})

/**
 * What stands after each step serves, quarter by quarter, by what the steps say alone. @param lead
 * quarters of a load
 */
function servedAfter(
  steps: Migration['steps'],
  today: readonly { readonly model: string; readonly rateRps: number }[],
  model: string,
  lead: number,
): number[][] {
  const now: { readonly model: string; readonly rateRps: number; readonly when?: string }[] = [
    ...today,
  ]
  const quarter = (clock: string) =>
    clock
      .split(':')
      .map(Number)
      .reduce((hours, minutes) => hours * 4 + minutes / 15)
  return steps.map(({ action, replicas }) => {
    for (const one of replicas)
      if (action === 'bring up') now.push(one)
      else
        now.splice(
          now.findIndex(
            (other) =>
              other.model === one.model && other.rateRps === one.rateRps && other.when === one.when,
          ),
          1,
        )
    return Array.from({ length: 96 }, (_, step) =>
      now.reduce((sum, { model: of, rateRps, when = '0:00-24:00' }) => {
        const [from, to] = when.split('-').map(quarter) as [number, number]
        const begins = when === '0:00-24:00' ? 0 : from + lead
        const there =
          to > from
            ? step >= begins && step < to
            : (step >= begins && step < 96) || (step < to && step + 96 >= begins)
        return sum + (of === model && there ? rateRps : 0)
      }, 0),
    )
  })
}

test('models that take turns are brought up with their hours, and what runs today stays until that is enough', async () => {
  const kind: GpuKind = { name: 'T4', pricePerHour: 1, partitions: [[whole]] }
  const drawn = fc.record({
    day: fc.integer({ min: 30, max: 140 }),
    night: fc.integer({ min: 30, max: 140 }),
    more: fc.nat(3),
  })
  await fc.assert(
    fc.asyncProperty(drawn, async ({ day, night, more }) => {
      const turning = { loadS: 90, loadFrom: 'as given' } as const
      const segment = { gpu: 'T4', slice: whole, gpus: 1, rateRps: 50, label: '' }
      const models = [
        {
          name: 'day',
          segments: [segment],
          turning,
          demand: tableDemand(`0-8:10, 8-20:${day}, 20-24:10`),
        },
        {
          name: 'night',
          segments: [segment],
          turning,
          demand: tableDemand(`0-7:${night}, 7-21:0, 21-24:${night}`),
        },
      ]
      const { atPeaks } = await planFleet(models, [kind])
      const asked = new Map(models.map((model) => [model.name, askedOver(model, 'UTC')]))
      const today = models.flatMap(({ name }) =>
        Array.from({ length: Math.ceil(Math.max(...asked.get(name)!) / 50) }, () => ({
          model: name,
          rateRps: 50,
        })),
      )
      const blocks = today.map(
        (replica): Block => ({ kind: 'T4', gpus: 1, places: [{ slice: whole, replica }] }),
      )
      const { steps, mostGpus } = planMigration(
        blocks,
        blocksOf(atPeaks.gpus, () => ({ lead: leadStepsOf(turning) })),
        () => blocks.length + more,
        asked,
      )
      expect(mostGpus.T4).toBeLessThanOrEqual(blocks.length + more)
      for (const [name, rates] of asked) {
        const after = servedAfter(steps, today, name, leadStepsOf(turning))
        for (const [i, serves] of after.entries()) {
          const missed = serves.findIndex((rps, step) => rps < rates[step]! * (1 - 1e-5))
          expect(missed >= 0, `${name} after step ${i + 1} at ${missed / 4}`).toBe(
            steps[i]!.short.some(({ model }) => model === name),
          )
        }
        // In the end as planned.
        if (steps.length > 0) expect(steps.at(-1)!.short).toEqual([])
      }
      expect(steps.at(-1)?.gpusInUse.T4 ?? blocks.length).toBe(atPeaks.gpus.length)
      // With a GPU to spare nothing is ever short.
      if (more > 0) expect(steps.flatMap(({ short }) => short)).toEqual([])
    }),
    { numRuns: 25 },
  )
}, 60_000)

test('who comes in turns is told with the hours', () => {
  const turns = [
    {
      model: 'a',
      rateRps: 7,
      when: '7:45-20:00',
      carries: Array.from({ length: 96 }, (_, step) => (step >= 32 && step < 80 ? 7 : 0)),
    },
    {
      model: 'b',
      rateRps: 7,
      when: '20:15-7:30',
      carries: Array.from({ length: 96 }, (_, step) => (step >= 82 || step < 30 ? 7 : 0)),
    },
  ]
  const asked = new Map(turns.map(({ model, carries }) => [model, carries]))
  const migration = planMigration(
    [block('whole', 'a'), block('whole', 'b')],
    [{ kind: 'A', gpus: 1, places: [{ slice: whole, turns }] }],
    () => 3,
    asked,
  )
  const text = toText(migrationBlocks(migration))
  expect(text).toContain(
    'bring up a (7:45-20:00) on A, b (20:15-7:30) on A on one more A, and shift requests there',
  )
  expect(text).toContain(
    'after every step what stands carries what is asked of every model in each quarter of an hour',
  )
  expect(migration.steps.flatMap(({ short }) => short)).toEqual([])
  expect(JSON.stringify(migration)).not.toContain('carries"')
})

test('the order is told step by step, like ones together, with the hours in which nothing is short', () => {
  const hours = new Map([['a', Array.from({ length: 24 }, (_, hour) => (hour < 6 ? 0 : 7))]])
  const text = (...given: Parameters<typeof planMigration>) =>
    toText(migrationBlocks(planMigration(...given)))
  const tight = text(
    [block('whole', 'a')],
    [block('half half', 'aa'), block('whole', 'a', 'B')],
    (kind) => (kind === 'A' ? 1 : 9),
    new Map([['a', Array(24).fill(7)]]),
  )
  expect(tight).toContain('after every step what stands carries the highest rate of every model')
  expect(tight).toMatch(
    /1 +bring up a on B on one more B, and shift requests there +1 A, 1 B +any +-\n/,
  )
  expect(tight).toMatch(
    /3 +bring up 2 × a on half on the emptied A, cut into 2 × half, and shift requests there/,
  )
  const short = text([block('whole', 'a')], [block('third third third', 'aaa')], () => 1, hours)
  expect(short).toContain('steps 1, 2: no order was found')
  expect(short).toMatch(/1 +drain a on A +1 A +0-6 +a: 0 req\/s of 7 req\/s\n/)
  const drained = text(
    Array<Block>(4).fill(block('whole', 'a')),
    [block('whole', 'a')],
    () => 4,
    new Map([['a', Array(24).fill(7)]]),
  )
  expect(drained).toMatch(/1-3 +each: drain a on A, and give 1 A back +1 A/)
  expect(drained).toContain('1 replica stays where it is')
  expect(text([block('whole', 'a')], [block('whole', 'a')], () => 1, hours)).toContain(
    'Nothing moves: 1 replica stays where it is.',
  )
})

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { interferenceOf, type MeasuredSlowdown } from './interference.ts'
import { readPairs, withPairs } from './measured-pairs.ts'
import { pack, unshared } from './pack.ts'
import {
  FleetError,
  type FleetModel,
  type GpuKind,
  type PackedGpu,
  type Segment,
  whole,
} from './packing.ts'
import { readSegments } from './segment-table.ts'

const kind: GpuKind = {
  name: 'T4',
  pricePerHour: 1,
  partitions: [[whole]],
  mps: { memoryMiB: 15_000 },
}
const on = (share: number, rateRps: number, memoryMiB = 2000, latencyMs = 20): Segment => ({
  gpu: 'T4',
  slice: share === 1 ? whole : `${share * 100}%`,
  gpus: 1,
  rateRps,
  label: '',
  ...(share < 1 && { share, latencyMs, limitMs: 100, memoryMiB }),
})
const modelOf = (name: string, ...segments: Segment[]): FleetModel => ({ name, segments })
const slows = interferenceOf()

/** What is wrong with GPUs under MPS, reckoned anew. */
function wrongOn(gpus: readonly PackedGpu[]): string[] {
  return gpus.flatMap(({ slots }) => {
    if (slots.every(({ slice }) => slice === whole)) return []
    const segments = slots.map(({ segment }) => segment!)
    const shares = segments.reduce((sum, { share }) => sum + share!, 0)
    const memory = segments.reduce((sum, { memoryMiB }) => sum + memoryMiB!, 0)
    return [
      ...(shares > 1 + 1e-9 ? [`shares come to ${shares}`] : []),
      ...(memory > 15_000 ? [`memory comes to ${memory}`] : []),
      ...segments.flatMap(({ rateRps, beside, latencyMs, limitMs, share }, i) => {
        const others = segments.flatMap((of, j) =>
          i === j ? [] : [{ model: slots[j]!.model!, share: of.share!, latencyMs: of.latencyMs! }],
        )
        const { upper } = slows(
          'T4',
          { model: slots[i]!.model!, share: share!, latencyMs: latencyMs! },
          others,
        )
        const rate = latencyMs! * upper <= limitMs! ? (beside?.aloneRps ?? rateRps) / upper : 0
        return Math.abs(rate - rateRps) > 1e-9 * rate ? [`${rateRps} in place of ${rate}`] : []
      }),
    ]
  })
}

test('what nobody measured is assumed as the known pairs are, and planned for at its upper end', () => {
  const own = { model: 'a', share: 0.5, latencyMs: 20 }
  const { expected, upper, how } = slows('V100', own, [{ model: 'b', share: 0.5, latencyMs: 20 }])
  // On halves of a V100 4.9 to 12.6 % slower, of an H200 and an H100 in fp16 10.8 to 43.6 %, with
  // few scheduling waits.
  expect(expected).toBeCloseTo(1.186, 2)
  expect(upper).toBeGreaterThan(1.4)
  expect(upper).toBeLessThan(1.45)
  expect(how).toBe('assumed')
  expect(slows('V100', own, [])).toMatchObject({ expected: 1, upper: 1 })
  const two = [1, 2].map((i) => ({ model: `b${i}`, share: 0.25, latencyMs: 20 }))
  expect(slows('V100', own, two).expected).toBeGreaterThan(expected)
})

test('a measured pair says how it is; others on its kind of GPU learn from it, and no other kind does', () => {
  const beside = { model: 'b', share: 0.5, latencyMs: 20 }
  const measured: MeasuredSlowdown[] = [
    { kind: 'T4', model: 'a', others: ['b'], othersShare: 0.5, slowdown: 1.4 },
  ]
  const known = interferenceOf(measured)
  expect(known('T4', { ...beside, model: 'a' }, [beside])).toMatchObject({
    how: 'measured',
    expected: 1.4,
  })
  const learned = known('T4', beside, [{ ...beside, model: 'a' }])
  expect(learned.how).toBe('learned')
  expect(learned.expected).toBeGreaterThan(slows('T4', beside, [beside]).expected)
  expect(known('L4', { ...beside, model: 'a' }, [beside]).how).toBe('assumed')
  // Many pairs that do not slow one another down narrow what is planned for.
  const none = Array.from({ length: 20 }, (_, i) => ({
    kind: 'T4',
    model: `m${i}`,
    others: ['x'],
    othersShare: 0.5,
    slowdown: 1,
  }))
  expect(interferenceOf(none)('T4', beside, [beside]).upper).toBeLessThan(
    slows('T4', beside, [beside]).upper,
  )
})

test('two models that need half a GPU each live on one, memory allowing; a batch that gets too slow does not count', async () => {
  const [a, b] = ['a', 'b'].map((name) => modelOf(name, on(0.5, 60), on(1, 100)))
  const packed = await pack([a!, b!], [40, 40], [kind])
  expect(packed.gpus).toHaveLength(1)
  expect(wrongOn(packed.gpus)).toEqual([])
  expect(packed.gpus[0]!.slots[0]!.segment!.beside).toMatchObject({ aloneRps: 60, how: 'assumed' })
  // What is assumed at its upper end takes more than the 4 % between 60 and 58.
  expect((await pack([a!, b!], [58, 58], [kind])).gpus).toHaveLength(2)
  const large = ['a', 'b'].map((name) => modelOf(name, on(0.5, 60, 9000), on(1, 100)))
  expect((await pack(large, [40, 40], [kind])).gpus).toHaveLength(2)
  const slow = ['a', 'b'].map((name) => modelOf(name, on(0.5, 60, 2000, 95), on(1, 100)))
  expect((await pack(slow, [40, 40], [kind])).gpus).toHaveLength(2)
  expect((await pack([a!, b!], [40, 40], [unshared(kind)])).gpus).toHaveLength(2)
  expect(
    (await pack([a!, b!], [40, 40], [kind], 20, { spared: new Set(), apart: [['a', 'b']] })).gpus,
  ).toHaveLength(2)
  const spared = await pack([a!, b!], [40, 40], [kind], 20, { spared: new Set(['a']), apart: [] })
  expect(
    spared.gpus
      .flatMap(({ slots }) => slots)
      .filter(({ model, segment }) => model === 'a' && segment!.share !== undefined),
  ).toEqual([])
})

const drawnModel = fc.array(
  fc.record({
    share: fc.constantFrom(0.2, 0.3, 0.5, 0.7),
    rate: fc.integer({ min: 5, max: 60 }),
    memory: fc.integer({ min: 1000, max: 8000 }),
  }),
  { minLength: 1, maxLength: 3 },
)

test('a smaller share for one slows the other less, a configuration with less memory makes room, and one may be alone on its share', async () => {
  const a = modelOf('a', on(0.5, 60))
  const least =
    60 /
    slows('T4', { model: 'a', share: 0.5, latencyMs: 20 }, [
      { model: 'b', share: 0.3, latencyMs: 20 },
    ]).upper
  const b = modelOf('b', on(0.3, 20), on(0.5, 40))
  const packed = await pack([a, b], [least, 10], [kind])
  expect(packed.gpus.map(({ slots }) => slots.map(({ slice }) => slice))).toEqual([['50%', '30%']])
  expect(wrongOn(packed.gpus)).toEqual([])
  const light = ['a', 'b'].map((name) => modelOf(name, on(0.5, 60, 9000), on(0.5, 50, 6000)))
  const fitting = await pack(light, [34, 40], [kind])
  expect(fitting.gpus).toHaveLength(1)
  expect(wrongOn(fitting.gpus)).toEqual([])
  const alone = await pack([modelOf('a', on(0.5, 60, 9000))], [50], [kind])
  expect(
    alone.gpus.map(({ slots }) =>
      slots.map(({ slice, segment }) => [slice, segment!.rateRps, segment!.beside]),
    ),
  ).toEqual([[['50%', 60, undefined]]])
})

test('what was measured on shares alone is named with what would let it count', async () => {
  const a = modelOf('a', on(0.5, 60))
  const { mps: _, ...without } = kind
  await expect(pack([a], [50], [without])).rejects.toMatchObject({
    hint: expect.stringContaining('shares of T4 counts with mps: true'),
  })
  await expect(
    pack([a], [50], [kind], 20, { spared: new Set(['a']), apart: [] }),
  ).rejects.toMatchObject({
    message: expect.stringContaining('nothing that is known of a'),
    hint: expect.stringContaining('under spare: and apart:'),
  })
})

/**
 * Every way to put up to three replicas on a GPU, and what each model then carries there: reckoned
 * without what the packing has for it.
 */
function everyContent(models: readonly FleetModel[]): number[][] {
  const rows = models.flatMap(({ name, segments }, m) =>
    segments.flatMap((row) =>
      row.share === undefined
        ? []
        : [{ name, m, row, share: row.share, latencyMs: row.latencyMs! }],
    ),
  )
  const groups = rows.flatMap((a, i) => [
    [a],
    ...rows.slice(i).flatMap((b, j) => [[a, b], ...rows.slice(i + j).map((c) => [a, b, c])]),
  ])
  const fitting = groups.filter(
    (all) =>
      all.reduce((sum, one) => sum + one.share, 0) <= 1 + 1e-9 &&
      all.reduce((sum, one) => sum + one.row.memoryMiB!, 0) <= 15_000,
  )
  const all = fitting.map((group) => {
    const rates = models.map(() => 0)
    for (const [i, { m, row, share, name, latencyMs }] of group.entries()) {
      const others = group.flatMap((other, j) =>
        i === j ? [] : [{ model: other.name, share: other.share, latencyMs: other.latencyMs }],
      )
      const { upper } = slows('T4', { model: name, share, latencyMs }, others)
      if (latencyMs * upper <= row.limitMs!) rates[m]! += row.rateRps / upper
    }
    return rates
  })
  const isNoLess = (one: readonly number[], other: readonly number[]) =>
    one.every((rps, m) => rps >= other[m]!)
  return all.filter(
    (one, i) =>
      !all.some((other, j) => j !== i && isNoLess(other, one) && (j < i || !isNoLess(one, other))),
  )
}

test('no set of GPUs costs less, by trying every number of every content', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(drawnModel, { minLength: 1, maxLength: 3 }),
      fc.integer({ min: 1, max: 60 }),
      fc.integer({ min: 1, max: 3 }),
      async (drawn, demand, price) => {
        const models = drawn.map((rows, i) =>
          modelOf(`m${i}`, ...rows.map(({ share, rate, memory }) => on(share, rate, memory)), {
            ...on(1, 40),
            gpu: 'L4',
          }),
        )
        const kinds: GpuKind[] = [kind, { name: 'L4', pricePerHour: price, partitions: [[whole]] }]
        const demands = models.map((_, i) => demand / (i + 1))
        const contents = [
          ...everyContent(models).map((rates) => ({ price: 1, rates })),
          ...models.map((_, i) => ({ price, rates: models.map((__, j) => (i === j ? 40 : 0)) })),
        ]
        let best = Number.POSITIVE_INFINITY
        const buy = (from: number, money: number, left: readonly number[]): void => {
          if (money >= best) return
          if (left.every((rps) => rps <= 1e-9)) {
            best = money
            return
          }
          for (let i = from; i < contents.length; i++) {
            const { price: each, rates } = contents[i]!
            if (rates.some((rps, m) => rps > 0 && left[m]! > 1e-9))
              buy(
                i,
                money + each,
                left.map((rps, m) => rps - rates[m]!),
              )
          }
        }
        // A GPU of the other kind for each is a fleet too.
        best = demands.reduce((sum, rps) => sum + Math.ceil(rps / 40 - 1e-9) * price, 0) + 1e-9
        buy(0, 0, demands)
        const packed = await pack(models, demands, kinds)
        expect(packed.pricePerHour).toBeCloseTo(best, 6)
        expect(wrongOn(packed.gpus)).toEqual([])
      },
    ),
    { numRuns: 25 },
  )
})

test('of many models contents are priced and joined: what is found keeps every demand, within what parts of GPUs would cost', async () => {
  const models = Array.from({ length: 25 }, (_, i) =>
    modelOf(
      `m${i}`,
      ...[0.1, 0.2, 0.3, 0.4, 0.5].map((share) =>
        on(share, (40 + i) * share ** 0.7, 1000 + 90 * i),
      ),
      on(1, 40 + i),
    ),
  )
  const demands = models.map((_, i) => 6 + (i % 7))
  const packed = await pack(models, demands, [kind], 10)
  expect(wrongOn(packed.gpus)).toEqual([])
  for (const [i, { name }] of models.entries()) {
    const carried = packed.gpus
      .flatMap(({ slots }) => slots)
      .reduce((sum, { model, segment }) => sum + (model === name ? segment!.rateRps : 0), 0)
    expect(carried).toBeGreaterThanOrEqual(demands[i]! * (1 - 1e-5))
  }
  expect(packed.boundPerHour).toBeGreaterThan(0)
  expect(packed.pricePerHour).toBeLessThanOrEqual(packed.boundPerHour * 1.1 + 1)
  expect(packed.pricePerHour).toBeLessThan(25)
})

test('measured pairs are read, and what is wrong with a line is told', () => {
  const header = 'gpu,model,beside,othersSharePercent,aloneMs,besideMs\n'
  expect(readPairs(`${header}t4,a,b+c,60,20,25\n`, 'p.csv')).toEqual([
    { kind: 'T4', model: 'a', others: ['b', 'c'], othersShare: 0.6, slowdown: 1.25 },
  ])
  for (const [text, message] of [
    ['gpu,model\n', /no column beside/],
    [`${header}T4,a,b,60,0,25\n`, /p.csv:2: no measured pair/],
    [`${header}T4,a,b,60,20,1e999\n`, /p.csv:2: no measured pair/],
    [`${header}T4,a,,60,20,25\n`, /p.csv:2/],
    [`${header}T5,a,b,60,20,25\n`, /p.csv:2: .*T5/],
  ] as const)
    expect(() => readPairs(text, 'p.csv')).toThrow(message)
})

test('pairs are added to a file and read as they were; emulated ones say so, and what is learned from them; other columns are no such file', () => {
  const pair = {
    kind: 'T4',
    model: 'a',
    others: ['b', 'c'],
    othersShare: 0.6,
    slowdown: 1.25,
    aloneMs: 20,
    besideMs: 25,
    emulated: true,
    each: 'batch' as const,
  }
  const once = withPairs(undefined, 'p.csv', [pair])
  const twice = withPairs(once.trimEnd(), 'p.csv', [{ ...pair, model: 'd', emulated: false }])
  const { aloneMs: _, besideMs: __, each: ____, ...slowdown } = pair
  const { emulated: ___, ...measured } = slowdown
  expect(readPairs(twice, 'p.csv')).toEqual([slowdown, { ...measured, model: 'd' }])
  const slows = interferenceOf(readPairs(twice, 'p.csv'))
  const beside = (model: string, ...others: string[]) =>
    slows(
      'T4',
      { model, share: 0.4, latencyMs: 20 },
      others.map((other) => ({ model: other, share: 0.3, latencyMs: 20 })),
    )
  expect(beside('a', 'b', 'c')).toMatchObject({ how: 'measured', emulated: true })
  expect(beside('d', 'b', 'c')).not.toHaveProperty('emulated')
  expect(beside('x', 'y')).toMatchObject({ how: 'learned', emulated: true })
  expect(() =>
    withPairs('gpu,model,beside,othersSharePercent,aloneMs,besideMs\n', 'p.csv', []),
  ).toThrow(/p.csv has other columns/)
})

test('rows on shares of a GPU say how long a batch takes and what memory it holds', () => {
  const [row] = readSegments(
    'gpu,gpuSharePercent,throughputRps,latencyMs,memoryMiB\nT4,40,90,20,3000\n',
    't.csv',
    undefined,
    50,
  )
  expect(row).toMatchObject({
    slice: '40%',
    share: 0.4,
    rateRps: 90,
    latencyMs: 20,
    limitMs: 50,
    memoryMiB: 3000,
  })
  expect(
    readSegments('gpu,gpuSharePercent,throughputRps\nT4,100,90\n', 't.csv', undefined)[0],
  ).not.toHaveProperty('share')
  expect(() =>
    readSegments('gpu,gpuSharePercent,throughputRps,latencyMs\nT4,40,90,20\n', 't.csv', undefined),
  ).toThrow(FleetError)
  expect(() => readSegments('gpu,throughputRps\nT4,Infinity\n', 't.csv', undefined)).toThrow(
    /'Infinity' is no rate above 0/,
  )
  expect(() =>
    readSegments('gpu,gpuSharePercent,throughputRps,latencyMs\nT4,140,90,20\n', 't.csv', undefined),
  ).toThrow(/'140' is no share/)
})

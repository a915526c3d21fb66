import fc from 'fast-check'
import { expect, test } from 'vitest'
import { byInputAlone, mixtureRps, unroutedRps } from './buckets.ts'
import { pack } from './pack.ts'
import {
  type Bucket,
  FleetError,
  type FleetModel,
  type GpuKind,
  type Packing,
  type Segment,
  whole,
} from './packing.ts'
import { noRules } from './rules.ts'

const kindOf = (name: string, pricePerHour: number): GpuKind => ({
  name,
  pricePerHour,
  partitions: [[whole]],
})
const segmentOf = (
  buckets: readonly Bucket[],
  gpu: string,
  bucketRps: readonly number[],
  gpus = 1,
): Segment => ({
  gpu,
  slice: whole,
  gpus,
  rateRps: unroutedRps(buckets, bucketRps),
  bucketRps,
  label: '',
})
const bucketsOf = (shares: readonly number[]): Bucket[] => {
  const sum = shares.reduce((all, share) => all + share, 0)
  return shares.map((share, b) => ({ name: `b${b}`, share: share / sum }))
}

/**
 * Whether y replicas of two kinds carry all of it, without a solver: those buckets go to the first
 * kind, part of one at the last, that it serves best beside the other, for as long as it has room
 * (a fractional knapsack: exact for two).
 */
function twoKindsCarry(
  load: readonly (readonly [number, number])[],
  [first, second]: readonly [number, number],
): boolean {
  let [a, b] = [first, 0]
  for (const [onFirst, onSecond] of [...load].sort((x, y) => x[0] / x[1] - y[0] / y[1])) {
    // The first cannot serve it at all, or has no room left.
    const part =
      onFirst === Number.POSITIVE_INFINITY
        ? 0
        : onSecond === Number.POSITIVE_INFINITY
          ? 1
          : Math.min(1, a / onFirst)
    if (part > 0) a -= part * onFirst
    if (part < 1) b += (1 - part) * onSecond
    if (a < -1e-7) return false
  }
  return b <= second + 1e-7
}

const rates = (length: number) =>
  fc.array(
    fc.oneof(
      { weight: 5, arbitrary: fc.integer({ min: 1, max: 40 }) },
      { weight: 1, arbitrary: fc.constant(0) },
    ),
    {
      minLength: length,
      maxLength: length,
    },
  )

const drawn = fc
  .integer({ min: 1, max: 5 })
  .chain((n) =>
    fc.record({
      shares: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: n, maxLength: n }),
      first: rates(n),
      second: rates(n),
      prices: fc.tuple(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 9 })),
      demand: fc.integer({ min: 1, max: 60 }),
    }),
  )
  .filter(({ first, second }) => first.every((rate, b) => rate > 0 || second[b]! > 0))

test('of two kinds no mix costs less, by trying every number of both', async () => {
  await fc.assert(
    fc.asyncProperty(drawn, async ({ shares, first, second, prices, demand }) => {
      const buckets = bucketsOf(shares)
      const model: FleetModel = {
        name: 'm',
        buckets,
        segments: [segmentOf(buckets, 'a', first), segmentOf(buckets, 'b', second)],
      }
      const load = buckets.map(({ share }, b): [number, number] => [
        (share * demand) / first[b]!,
        (share * demand) / second[b]!,
      ])
      const most = (side: 0 | 1) =>
        Math.ceil(
          load.reduce((sum, each) => sum + (Number.isFinite(each[side]) ? each[side] : 0), 0),
        )
      let best = Number.POSITIVE_INFINITY
      for (let a = 0; a <= most(0); a++)
        for (let b = 0; b <= most(1); b++)
          if (twoKindsCarry(load, [a, b])) best = Math.min(best, a * prices[0] + b * prices[1])
      const found = await pack([model], [demand], [kindOf('a', prices[0]), kindOf('b', prices[1])])
      expect(found.pricePerHour).toBeCloseTo(best, 6)
      expect(carriedOf(found, buckets, demand)).toEqual([])
    }),
    { numRuns: 40 },
  )
})

/**
 * What is wrong with the routes of a packing: buckets that do not go somewhere as a whole, pools
 * that get more than they carry.
 */
function carriedOf(
  { gpus }: Packing,
  buckets: readonly Bucket[],
  demand: number,
  lost = 0,
): string[] {
  const slots = gpus.flatMap((gpu) =>
    gpu.slots.flatMap(({ segment }) => (segment ? [segment] : [])),
  )
  const pools = [...new Map(slots.map((segment) => [segment.gpu, segment])).values()]
  const unrouted = buckets.flatMap(({ name }, b) => {
    const part = pools.reduce((sum, pool) => sum + pool.routed!.parts[b]!, 0)
    return Math.abs(part - 1) < 1e-6 ? [] : [`${name}: ${part}`]
  })
  const over = pools.flatMap((pool) => {
    const busy = buckets.reduce(
      (sum, { share }, b) =>
        sum +
        (pool.routed!.parts[b]! > 1e-9
          ? (pool.routed!.parts[b]! * share * demand) / pool.bucketRps![b]!
          : 0),
      0,
    )
    const replicas = slots.filter(({ gpu }) => gpu === pool.gpu).length / pool.gpus - lost
    return busy > replicas * (1 + 1e-5) ? [`${pool.gpu}: ${busy} of ${replicas}`] : []
  })
  return [...unrouted, ...over]
}

test('of three kinds none is dearer than any mix of slices of buckets, as the paper cuts them, nor than one kind', async () => {
  const slices = 3
  await fc.assert(
    fc.asyncProperty(
      fc
        .tuple(rates(2), rates(2), rates(2))
        .filter((all) => [0, 1].every((b) => all.some((of) => of[b]! > 0))),
      fc.integer({ min: 1, max: 60 }),
      fc.tuple(
        fc.integer({ min: 1, max: 9 }),
        fc.integer({ min: 1, max: 9 }),
        fc.integer({ min: 1, max: 9 }),
      ),
      async (all, demand, prices) => {
        const buckets = bucketsOf([2, 1])
        const names = ['a', 'b', 'c']
        const model: FleetModel = {
          name: 'm',
          buckets,
          segments: all.map((of, k) => segmentOf(buckets, names[k]!, of)),
        }
        const found = await pack(
          [model],
          [demand],
          prices.map((price, k) => kindOf(names[k]!, price)),
        )
        let sliced = Number.POSITIVE_INFINITY
        for (let code = 0; code < 3 ** (2 * slices); code++) {
          const busy = [0, 0, 0]
          for (let s = 0; s < 2 * slices; s++) {
            const [k, b] = [Math.floor(code / 3 ** s) % 3, s % 2]
            busy[k]! += (buckets[b]!.share * demand) / slices / all[k]![b]!
          }
          sliced = Math.min(
            sliced,
            busy.reduce((sum, of, k) => sum + (of > 0 ? Math.ceil(of - 1e-9) * prices[k]! : 0), 0),
          )
        }
        expect(found.pricePerHour).toBeLessThanOrEqual(sliced + 1e-6)
        expect(carriedOf(found, buckets, demand)).toEqual([])
      },
    ),
    { numRuns: 25 },
  )
})

test('one GPU of any pool may be lost, its requests going nowhere else', async () => {
  const buckets = bucketsOf([3, 1])
  const model: FleetModel = {
    name: 'm',
    buckets,
    segments: [segmentOf(buckets, 'a', [20, 2]), segmentOf(buckets, 'b', [9, 6], 2)],
  }
  const kinds = [kindOf('a', 1), kindOf('b', 1)]
  const found = await pack([model], [30], kinds, 20, { spared: new Set(['m']), apart: [] })
  expect(carriedOf(found, buckets, 30, 1)).toEqual([])
  expect(found.pricePerHour).toBeGreaterThan((await pack([model], [30], kinds)).pricePerHour)
})

test('what a mixture is known to carry less of takes more GPUs', async () => {
  const buckets = bucketsOf([1, 1])
  const model: FleetModel = { name: 'm', buckets, segments: [segmentOf(buckets, 'a', [10, 10])] }
  const added = await pack([model], [95], [kindOf('a', 1)])
  expect(added.gpus.length).toBe(10)
  const slower: FleetModel = {
    ...model,
    mixedRps: (_, parts) => (parts.every((part) => part > 0) ? 8 : 10),
  }
  const found = await pack([slower], [95], [kindOf('a', 1)])
  expect(found.gpus.length).toBe(12)
  expect(found.gpus[0]!.slots[0]!.segment!.rateRps).toBeCloseTo(8, 1)
})

test('a bucket that nothing serves is named', async () => {
  const buckets = bucketsOf([1, 1])
  const model: FleetModel = { name: 'm', buckets, segments: [segmentOf(buckets, 'a', [10, 0])] }
  await expect(pack([model], [1], [kindOf('a', 1)])).rejects.toThrow(FleetError)
  await expect(pack([model], [1], [kindOf('a', 1)], 5, noRules)).rejects.toThrow(/m \(b1\)/)
})

test('times add up; routed by input alone, buckets of one input are one', () => {
  const buckets: Bucket[] = [
    { name: 'short, brief', share: 0.5, input: 'short' },
    { name: 'short, long', share: 0.25, input: 'short' },
    { name: 'long', share: 0.25, input: 'long' },
  ]
  expect(mixtureRps(buckets, [10, 5, 1], [1, 1, 0])).toBeCloseTo(0.75 / (0.05 + 0.05), 12)
  expect(mixtureRps(buckets, [10, 0, 1], [1, 1, 0])).toBe(0)
  const merged = byInputAlone({
    name: 'm',
    buckets,
    segments: [segmentOf(buckets, 'a', [10, 5, 1])],
  })!
  expect(merged.buckets).toEqual([
    { name: 'short', share: 0.75 },
    { name: 'long', share: 0.25 },
  ])
  expect(merged.segments[0]!.bucketRps![0]).toBeCloseTo(7.5, 12)
  expect(merged.segments[0]!.bucketRps![1]).toBeCloseTo(1, 12)
  expect(byInputAlone(merged)).toBeUndefined()
})

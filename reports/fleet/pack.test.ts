import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { findGpu } from '../../trials/devices/catalogue.ts'
import { canPlaceTogether, enumeratePartitions } from '../../trials/devices/mig-placements.ts'
import { compareFirstFitDecreasing, compareWholeGpus, packModelsApart } from './comparisons.ts'
import { pack } from './pack.ts'
import { FleetError, type FleetModel, type GpuKind, type Packing, wholeGpu } from './packing.ts'

const small: GpuKind = { name: 'small', pricePerHour: 1, partitions: [[wholeGpu]] }
const cut: GpuKind = {
  name: 'cut',
  pricePerHour: 3,
  partitions: [[wholeGpu], ['big', 'half'], ['half', 'half', 'half']],
}
const segment = (gpu: string, slice: string, rateRps: number, gpus = 1) => ({
  gpu,
  slice,
  gpus,
  rateRps,
  label: `${rateRps}`,
})

/** Capacity of each model as a share of its demand. */
function carried(
  { gpus }: Packing,
  models: readonly FleetModel[],
  demandRps: readonly number[],
): number[] {
  return models.map(({ name }, i) => {
    const slots = gpus.flatMap(({ slots }) => slots.filter(({ model }) => model === name))
    return (
      slots.reduce((sum, slot) => sum + slot.segment!.rateRps / slot.segment!.gpus, 0) /
      demandRps[i]!
    )
  })
}

/**
 * The lowest price by trying every number of GPUs in every way to cut them, and every use of their
 * slices.
 */
function findMinPrice(
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kinds: readonly GpuKind[],
  maxGpus: number,
): number {
  const columns = kinds.flatMap((kind) => kind.partitions.map((partition) => ({ kind, partition })))
  const serves = (
    left: readonly number[],
    free: readonly (readonly [string, string])[],
  ): boolean => {
    const unserved = left.findIndex((rps) => rps > 1e-9)
    if (unserved < 0) return true
    return models[unserved]!.segments.some((of) => {
      const at = free.findIndex(([gpu, slice]) => gpu === of.gpu && slice === of.slice)
      return (
        at >= 0 && serves(left.with(unserved, left[unserved]! - of.rateRps), free.toSpliced(at, 1))
      )
    })
  }
  let best = Number.POSITIVE_INFINITY
  const buy = (
    column: number,
    price: number,
    free: readonly (readonly [string, string])[],
    gpus: number,
  ): void => {
    if (price >= best) return
    if (serves(demandRps, free)) best = price
    if (gpus === maxGpus) return
    for (let next = column; next < columns.length; next++) {
      const { kind, partition } = columns[next]!
      buy(
        next,
        price + kind.pricePerHour,
        [...free, ...partition.map((slice) => [kind.name, slice] as const)],
        gpus + 1,
      )
    }
  }
  buy(0, 0, [], 0)
  return best
}

const rate = fc.integer({ min: 1, max: 9 })
const model = (name: string) =>
  fc.record({ small: rate, whole: rate, big: rate, half: rate }).map(
    (of): FleetModel => ({
      name,
      segments: [
        segment('small', wholeGpu, of.small),
        segment('cut', wholeGpu, of.whole),
        segment('cut', 'big', of.big),
        segment('cut', 'half', of.half),
      ],
    }),
  )

describe('a packing', () => {
  test('costs as little as any, and carries all demands on slices that there are', async () => {
    await fc.assert(
      fc.asyncProperty(
        model('a'),
        model('b'),
        fc.integer({ min: 0, max: 12 }),
        fc.integer({ min: 1, max: 12 }),
        async (a, b, ofA, ofB) => {
          const [models, demandRps, kinds] = [
            [a, b],
            [ofA, ofB],
            [small, cut],
          ]
          const packing = await pack(models, demandRps, kinds)
          const brute = findMinPrice(models, demandRps, kinds, 5)
          // The cheapest of at most five GPUs: more of the small ones may be cheaper still.
          expect(packing.pricePerHour).toBeLessThanOrEqual(brute + 1e-9)
          if (packing.gpus.length <= 5) expect(packing.pricePerHour).toBeCloseTo(brute, 9)
          expect(packing.boundPerHour).toBeLessThanOrEqual(packing.pricePerHour)
          expect(packing.boundPerHour).toBeGreaterThan(packing.pricePerHour * 0.999)
          for (const { kind, slots } of packing.gpus)
            expect([small, cut].find(({ name }) => name === kind)!.partitions).toContainEqual(
              slots.map(({ slice }) => slice),
            )
          const shares = carried(packing, models, demandRps)
          for (const [i, share] of shares.entries())
            if (demandRps[i]! > 0) expect(share).toBeGreaterThan(1 - 1e-5)
        },
      ),
      { numRuns: 60, seed: 5 },
    )
  })

  test('a replica on two GPUs takes both, and spreads over as many as it can', async () => {
    const models = [{ name: 'large', segments: [segment('small', wholeGpu, 10, 2)] }]
    const { gpus } = await pack(models, [15], [small])
    expect(gpus.map(({ slots }) => slots[0]!.model)).toEqual(['large', 'large', 'large', 'large'])
    const halves = [
      { name: 'a', segments: [segment('cut', 'half', 1)] },
      { name: 'b', segments: [segment('cut', 'half', 1)] },
    ]
    const spread = await pack(halves, [3, 3], [cut])
    for (const { slots } of spread.gpus)
      expect(new Set(slots.map(({ model: of }) => of)).size).toBe(2)
  })

  test('without time a feasible start is returned, and one that is not is ignored', async () => {
    const models = ['a', 'b'].map((name) => ({ name, segments: [segment('cut', 'half', 5)] }))
    const start = await packModelsApart(models, [5, 5], [cut])
    expect(start.pricePerHour).toBe(6)
    expect((await pack(models, [5, 5], [cut], 0, start)).pricePerHour).toBeLessThanOrEqual(6)
    // The start also has a model that needs nothing in this hour.
    expect((await pack(models, [0, 5], [cut], 0, start)).pricePerHour).toBeLessThanOrEqual(6)
    const one = { ...cut, count: 1 }
    expect((await pack(models, [5, 5], [one], 10, start)).gpus).toHaveLength(1)
  })

  test('what nothing serves is named, as is what there are too few GPUs for', async () => {
    const a = { name: 'a', segments: [segment('small', wholeGpu, 5)] }
    const missing = pack(
      [a, { name: 'b', segments: [] }, { name: 'c', segments: [segment('H100', wholeGpu, 5)] }],
      [5, 5, 5],
      [small],
    )
    await expect(missing).rejects.toThrow(FleetError)
    await expect(missing).rejects.toThrow('no measurement of b, c meets its SLO on these GPUs')
    await expect(pack([a], [11], [{ ...small, count: 2 }])).rejects.toThrow(
      'these GPUs cannot carry all demands: 2 × small',
    )
    await expect(pack([a], [50_000], [small])).rejects.toThrow(
      'a would need more than 2000 replicas for 50000 requests per second',
    )
    expect(await pack([a], [0], [small])).toEqual({ gpus: [], pricePerHour: 0, boundPerHour: 0 })
  })
})

test('compared: whole GPUs for each, each alone, and first fit decreasing', async () => {
  const models = [
    { name: 'a', segments: [segment('cut', wholeGpu, 10), segment('cut', 'half', 5)] },
    { name: 'b', segments: [segment('cut', wholeGpu, 10), segment('cut', 'big', 8)] },
  ]
  const demandRps = [5, 8]
  expect((await pack(models, demandRps, [cut])).gpus).toHaveLength(1)
  expect(compareWholeGpus(models, demandRps, [cut])).toEqual({ gpus: 2, pricePerHour: 6 })
  expect(await packModelsApart(models, demandRps, [cut])).toMatchObject({
    gpus: { length: 2 },
    pricePerHour: 6,
  })
  // By itself the whole GPU has the highest rate per price.
  expect(compareFirstFitDecreasing(models, demandRps, [cut])).toEqual({ gpus: 2, pricePerHour: 6 })
  expect(
    compareWholeGpus([{ name: 'c', segments: [segment('cut', 'half', 5)] }], [5], [cut]),
  ).toBeUndefined()
})

describe('slices of one GPU', () => {
  test('fit together as the MIG user guide lists them', () => {
    const a100 = enumeratePartitions(findGpu('A100-40GB'))
    const fits = (...slices: string[]) => canPlaceTogether(a100, slices)
    expect(fits('4g.20gb', '3g.20gb')).toBe(true)
    expect(fits('4g.20gb', '2g.10gb', '1g.5gb')).toBe(true)
    expect(fits('3g.20gb', '2g.10gb', '2g.10gb')).toBe(true)
    expect(fits('3g.20gb', '1g.5gb', '1g.5gb', '1g.5gb', '1g.5gb')).toBe(true)
    expect(fits(...Array<string>(7).fill('1g.5gb'))).toBe(true)
    // Eight places of memory, and seven of computing.
    expect(fits('3g.20gb', '3g.20gb', '1g.5gb')).toBe(false)
    expect(fits('4g.20gb', '4g.20gb')).toBe(false)
    expect(fits(...Array<string>(8).fill('1g.5gb'))).toBe(false)
    expect(fits('7g.40gb', '1g.5gb')).toBe(false)
    expect(enumeratePartitions(findGpu('T4'))).toEqual([])
    expect(enumeratePartitions(findGpu('A30')).map((partition) => partition.join(' '))).toEqual([
      '1g.6gb 1g.6gb 1g.6gb 1g.6gb',
      '2g.12gb 1g.6gb 1g.6gb',
      '2g.12gb 2g.12gb',
      '4g.24gb',
    ])
  })
})

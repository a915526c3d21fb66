import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { mean, standardDeviation } from 'simple-statistics'
import { expect, test } from 'vitest'
import { readTable } from '../../trials/table-text.ts'
import { addMpsSlices, computeNeighbourSlowdown, slowdownPerGpu } from './mps-shares.ts'
import { pack } from './pack.ts'
import {
  FleetError,
  type FleetModel,
  type GpuKind,
  type PackedGpu,
  type Segment,
  wholeGpu,
} from './packing.ts'
import { readSegments } from './segment-table.ts'

const gpuMiB = 16_000
const kind: GpuKind = {
  name: 'T4',
  pricePerHour: 1,
  partitions: [[wholeGpu]],
  mps: { memoryMiB: gpuMiB },
}
const { mps: _, ...unshared } = kind
const on = (share: number, rateRps: number, memoryMiB = 2000, latencyMs = 20): Segment => ({
  gpu: 'T4',
  slice: share === 1 ? wholeGpu : `${share * 100}%`,
  gpus: 1,
  rateRps,
  label: '',
  ...(share < 1 && { share, latencyMs, limitMs: 100, memoryMiB }),
})
const modelOf = (name: string, ...segments: Segment[]): FleetModel => ({ name, segments })

const packShared = (
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kinds: readonly GpuKind[] = [kind],
  maxSeconds = 20,
) => {
  const cut = addMpsSlices(models, kinds)
  return pack(cut.models, demandRps, cut.kinds, maxSeconds)
}

/** Violations on GPUs under MPS, computed from the measured segments. */
function findViolations(gpus: readonly PackedGpu[]): string[] {
  return gpus.flatMap(({ slots }) => {
    const segments = slots.flatMap(({ segment }) => (segment?.share ? [segment] : []))
    const shares = segments.reduce((sum, { share }) => sum + share!, 0)
    const memory = segments.reduce((sum, { memoryMiB }) => sum + memoryMiB!, 0)
    return [
      ...(shares > 1 + 1e-9 ? [`shares sum to ${shares}`] : []),
      ...(memory > gpuMiB ? [`memory sums to ${memory}`] : []),
      ...segments.flatMap(({ rateRps, unsharedRps, share }) => {
        const planned = unsharedRps! / computeNeighbourSlowdown(share!)
        return Math.abs(rateRps - planned) > 1e-9 * planned ? [`${rateRps} for ${planned}`] : []
      }),
    ]
  })
}

test('the slowdown is the mean of the measured pairs and two standard deviations', () => {
  const measured = ['h200', 'h100'].flatMap((gpu) => {
    const file = `trials/devices/tables/${gpu}-neighbours.csv`
    const { rows } = readTable({ file, text: readFileSync(file, 'utf8') })
    return rows.flatMap(({ cells: { sharing, besides, aloneMs, besideMs } }) =>
      sharing === 'mps'
        ? [[Number(aloneMs), Number(besideMs), Number.parseInt(besides!, 10) / 100] as const]
        : [],
    )
  })
  // AlexNet, ResNet-50, VGG-19 and SSD, twice each, on halves of a V100 (icloud-ecnu/igniter).
  const published = [
    [3.6834, 3.8653, 0.5],
    [20.2699, 21.2965, 0.5],
    [52.0246, 58.5846, 0.5],
    [81.3991, 89.0054, 0.5],
  ] as const
  const slowdowns = [...published, ...measured].map(
    ([aloneMs, besideMs, neighbourShare]) => (besideMs / aloneMs - 1) / neighbourShare,
  )
  expect(slowdowns).toHaveLength(24)
  expect(slowdownPerGpu).toBeCloseTo(mean(slowdowns) + 2 * standardDeviation(slowdowns), 2)
  expect(slowdowns.filter((slowdown) => slowdown > slowdownPerGpu)).toHaveLength(1)
  expect(computeNeighbourSlowdown(0.75)).toBeCloseTo(1 + 0.81 / 4, 9)
  expect(computeNeighbourSlowdown(1)).toBe(1)
})

test('two models that need half a GPU each share one where memory and batch times allow', async () => {
  const [a, b] = ['a', 'b'].map((name) => modelOf(name, on(0.5, 60), on(1, 100)))
  const packed = await packShared([a!, b!], [40, 40])
  expect(packed.gpus).toHaveLength(1)
  expect(findViolations(packed.gpus)).toEqual([])
  expect(packed.gpus[0]!.slots[0]!.segment).toMatchObject({ unsharedRps: 60, share: 0.5 })
  const countGpus = async (models: readonly FleetModel[], rps: number, kinds?: GpuKind[]) =>
    (await packShared(models, [rps, rps], kinds)).gpus.length
  expect(await countGpus([a!, b!], 58)).toBe(2)
  const large = ['a', 'b'].map((name) => modelOf(name, on(0.5, 60, 9000), on(1, 100)))
  expect(await countGpus(large, 40)).toBe(2)
  const slow = ['a', 'b'].map((name) => modelOf(name, on(0.5, 60, 2000, 95), on(1, 100)))
  expect(await countGpus(slow, 40)).toBe(2)
  expect(await countGpus([a!, b!], 40, [unshared])).toBe(2)
})

test('a configuration with less memory makes room for another', async () => {
  const light = ['a', 'b'].map((name) => modelOf(name, on(0.5, 60, 9000), on(0.5, 50, 6000)))
  const packed = await packShared(light, [34, 40])
  expect(packed.gpus).toHaveLength(1)
  expect(findViolations(packed.gpus)).toEqual([])
})

test('measurements on shares alone are named with what would let them count', async () => {
  await expect(packShared([modelOf('a', on(0.5, 60))], [50], [unshared])).rejects.toMatchObject({
    message: expect.stringContaining('no measurement of a meets its SLO'),
    hint: expect.stringContaining('set mps: true to use measurements on shares of T4'),
  })
})

const drawnModel = fc.array(
  fc.record({
    share: fc.constantFrom(0.2, 0.3, 0.5, 0.7),
    rate: fc.integer({ min: 5, max: 60 }),
    memory: fc.integer({ min: 1, max: 8 }).map((gigabytes) => 1000 * gigabytes),
  }),
  { minLength: 1, maxLength: 3 },
)

/** What each model carries for every set of up to three replicas that fits on a GPU. */
function listContents(models: readonly FleetModel[]): number[][] {
  const rows = models.flatMap(({ segments }, m) =>
    segments.flatMap(({ share, latencyMs, limitMs, memoryMiB, rateRps }) => {
      if (share === undefined) return []
      const slowdown = computeNeighbourSlowdown(share)
      const isFast = latencyMs! * slowdown <= limitMs!
      return isFast ? [{ m, share, memoryMiB: memoryMiB!, rps: rateRps / slowdown }] : []
    }),
  )
  const groups = rows.flatMap((a, i) => [
    [a],
    ...rows.slice(i).flatMap((b, j) => [[a, b], ...rows.slice(i + j).map((c) => [a, b, c])]),
  ])
  return groups
    .filter(
      (all) =>
        all.reduce((sum, { share }) => sum + share, 0) <= 1 + 1e-9 &&
        all.reduce((sum, { memoryMiB }) => sum + memoryMiB, 0) <= gpuMiB,
    )
    .map((all) =>
      models.map((_, i) => all.reduce((sum, { m, rps }) => sum + (m === i ? rps : 0), 0)),
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
        const kinds: GpuKind[] = [
          kind,
          { name: 'L4', pricePerHour: price, partitions: [[wholeGpu]] },
        ]
        const demands = models.map((_, i) => demand / (i + 1))
        const contents = [
          ...listContents(models).map((rates) => ({ price: 1, rates })),
          ...models.map((_, i) => ({ price, rates: models.map((__, j) => (i === j ? 40 : 0)) })),
        ]
        // A GPU of the other kind for each is a fleet too.
        let best = demands.reduce((sum, rps) => sum + Math.ceil(rps / 40 - 1e-9) * price, 0)
        const buy = (from: number, spent: number, left: readonly number[]): void => {
          if (spent >= best) return
          if (left.every((rps) => rps <= 1e-9)) {
            best = spent
            return
          }
          for (let i = from; i < contents.length; i++) {
            const { price: each, rates } = contents[i]!
            if (rates.some((rps, m) => rps > 0 && left[m]! > 1e-9))
              buy(
                i,
                spent + each,
                left.map((rps, m) => rps - rates[m]!),
              )
          }
        }
        buy(0, 0, demands)
        const packed = await packShared(models, demands, kinds)
        expect(packed.pricePerHour).toBeCloseTo(best, 6)
        expect(findViolations(packed.gpus)).toEqual([])
      },
    ),
    { numRuns: fc.readConfigureGlobal().numRuns ?? 12 },
  )
})

test('25 models with five shares each are packed within 10 % of the bound', async () => {
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
  const packed = await packShared(models, demands, [kind], 2)
  expect(findViolations(packed.gpus)).toEqual([])
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

test('rows on shares of a GPU need the time of a batch and the memory', () => {
  const read = (text: string, sloMs?: number) => readSegments(text, 't.csv', undefined, sloMs)
  const header = 'gpu,gpuSharePercent,throughputRps,latencyMs'
  expect(read(`${header},memoryMiB\nT4,40,90,20,3000\n`, 50)).toMatchObject([
    {
      slice: '40%',
      share: 0.4,
      rateRps: 90,
      latencyMs: 20,
      limitMs: 50,
      memoryMiB: 3000,
    },
  ])
  expect(read('gpu,gpuSharePercent,throughputRps\nT4,100,90\n')[0]).not.toHaveProperty('share')
  expect(() => read(`${header}\nT4,40,90,20\n`)).toThrow(FleetError)
  expect(() => read('gpu,throughputRps\nT4,Infinity\n')).toThrow(
    /throughputRps is 'Infinity', not a number above 0/,
  )
  expect(() => read(`${header}\nT4,140,90,20\n`)).toThrow(
    /gpuSharePercent is 140, more than a whole GPU/,
  )
})

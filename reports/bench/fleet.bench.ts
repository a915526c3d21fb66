/**
 * How good packings are, and how long they take: `npm run bench:fleet -- [folder of tables]
 * [scenarios.csv]`. Without arguments 50 made-up models on six kinds of GPUs over 24 hours. With
 * both, ParvaGPU's scenarios (A100 with MIG; a table MODEL.csv
 * each, columns as in `tune fleet`'s tables; `gpuSlices` is `slice`) on GPUs of one price: the GPUs that are needed, beside
 * a GPU for each model, each alone, first fit decreasing, and ParvaGPU's own packing.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createUniform } from '../../profiler/seeded-random.ts'
import { findGpu } from '../../trials/devices/catalogue.ts'
import { listMigProfiles } from '../../trials/devices/mig.ts'
import { canPlaceTogether, enumeratePartitions } from '../../trials/devices/mig-placements.ts'
import { parseCsv } from '../../trials/testing/parsed-csv.ts'
import { planFleet } from '../fleet/fleet-plan.ts'
import {
  type FleetModel,
  type GpuKind,
  type Packing,
  type Segment,
  selectBestPerSlice,
  wholeGpu,
} from '../fleet/packing.ts'
import { readSegments } from '../fleet/segment-table.ts'
import { percent } from '../format.ts'
import { createSteadyDemand } from '../plan/demand.ts'

const kindOf = (name: string, pricePerHour: number): GpuKind => ({
  name,
  pricePerHour,
  partitions: [[wholeGpu], ...enumeratePartitions(findGpu(name))],
})
/**
 * As ParvaGPU packs (Lee et al., SC '24, section III), with its slices of whole GPUs as 7g: of each
 * model as many of the slice that carries most per compute slice as its rate fills, and the
 * smallest that carries the rest; slices go, the largest first, to the first GPU with room. Then
 * each GPU that is used for half at most is given up where its models' rates find room, in slices
 * of 1 and 2, on the others.
 */
function asParvaPacks(
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kind: GpuKind,
): number {
  const sizeOf = ({ slice }: Segment) => Number.parseInt(slice, 10)
  const fits = (gpu: readonly Placed[], { slice }: Segment) =>
    canPlaceTogether(kind.partitions, [...gpu.map((on) => on.segment.slice), slice])
  interface Placed {
    readonly segment: Segment
    readonly slices: readonly Segment[]
    readonly rps: number
  }
  const placed = models.flatMap((model, i): Placed[] => {
    const slices = selectBestPerSlice(model, [kind])
      .filter(({ slice, rateRps }) => slice !== wholeGpu && rateRps > 0)
      .sort((a, b) => sizeOf(a) - sizeOf(b))
    const [best] = slices.toSorted((a, b) => b.rateRps / sizeOf(b) - a.rateRps / sizeOf(a))
    const full = Math.floor(demandRps[i]! / best!.rateRps)
    const rest = demandRps[i]! - full * best!.rateRps
    const last =
      rest > 1e-9
        ? [{ segment: slices.find(({ rateRps }) => rateRps >= rest)!, slices, rps: rest }]
        : []
    return [...Array<Placed>(full).fill({ segment: best!, slices, rps: best!.rateRps }), ...last]
  })
  const gpus: Placed[][] = []
  for (const one of placed.sort((a, b) => sizeOf(b.segment) - sizeOf(a.segment))) {
    const at = gpus.find((gpu) => fits(gpu, one.segment))
    if (at) at.push(one)
    else gpus.push([one])
  }
  const used = (gpu: readonly Placed[]) =>
    gpu.reduce((sum, { segment }) => sum + sizeOf(segment), 0)
  for (const fragmented of gpus.filter((gpu) => used(gpu) <= 3).sort((a, b) => used(a) - used(b))) {
    const others = gpus.filter((gpu) => gpu !== fragmented).map((gpu) => [...gpu])
    const moved = fragmented.every(({ slices, rps }) => {
      let left = rps
      for (const segment of slices.filter((slice) => sizeOf(slice) <= 2).reverse())
        for (const gpu of others)
          while (left > 1e-9 && fits(gpu, segment)) {
            gpu.push({ segment, slices, rps: Math.min(left, segment.rateRps) })
            left -= segment.rateRps
          }
      return left <= 1e-9
    })
    if (moved) gpus.splice(0, gpus.length, ...others)
  }
  return gpus.length
}

const [tables, scenarios] = process.argv.slice(2)
async function published(folder: string, path: string): Promise<void> {
  const gpu = 'A100-80GB'
  const rows = parseCsv(readFileSync(path, 'utf8')).slice(1)
  for (const scenario of new Set(rows.map(([number]) => number))) {
    const models = rows
      .filter(([number]) => number === scenario)
      .map(([, name, rps, limitMs]) => {
        const text = readFileSync(join(folder, `${name}.csv`), 'utf8').replace('gpuSlices', 'slice')
        return {
          name: name!,
          rps: Number(rps),
          segments: readSegments(text, `${name}.csv`, gpu, Number(limitMs)),
          demand: createSteadyDemand(Number(rps)),
        }
      })
    const kind = kindOf(gpu, 1)
    const startMs = performance.now()
    const { atPeaks, comparisons } = await planFleet(models, [kind])
    const ms = (performance.now() - startMs).toFixed(0)
    const beside = `a GPU each ${comparisons.wholeGpus?.gpus ?? '-'}, each alone ${comparisons.modelsApart.gpus}, first fit decreasing ${comparisons.firstFitDecreasing?.gpus}, as ParvaGPU packs ${asParvaPacks(
      models,
      models.map(({ rps }) => rps),
      kind,
    )}`
    console.log(
      `scenario ${scenario}: ${atPeaks.gpus.length} GPUs, none needs fewer than ${Math.ceil(atPeaks.boundPerHour - 1e-3)}; ${beside}; ${ms} ms`,
    )
  }
}

const kinds = [
  kindOf('A100-40GB', 1.76),
  kindOf('A100-80GB', 2.44),
  kindOf('H100', 5.29),
  kindOf('A30', 0.9),
  kindOf('L4', 0.61),
  kindOf('T4', 0.35),
]
const speeds = [1, 1.15, 2.2, 0.5, 0.3, 0.15]

/**
 * On whole GPUs and all slices, as fast as a part of its fastest; large models on large slices
 * alone.
 */
function segmentsOf(fastest: number, isLarge: boolean, uniform: () => number): Segment[] {
  return kinds.flatMap(({ name }, k) =>
    [{ name: wholeGpu, computeFraction: 1 }, ...listMigProfiles(findGpu(name))].flatMap(
      ({ name: slice, computeFraction }) =>
        isLarge && computeFraction < 0.4
          ? []
          : [
              {
                gpu: name,
                slice,
                gpus: 1,
                rateRps: fastest * speeds[k]! * computeFraction ** (0.6 + 0.5 * uniform()),
                label: '',
              },
            ],
    ),
  )
}

const above = ({ pricePerHour, boundPerHour }: Packing) =>
  boundPerHour > 0 ? pricePerHour / boundPerHour - 1 : 0

async function madeUp(): Promise<void> {
  const uniform = createUniform(3)
  const models = Array.from({ length: 50 }, (_, i) => {
    const fastest = 50 * Math.exp(3 * uniform())
    const isLarge = uniform() < 0.2
    const segments = segmentsOf(fastest, isLarge, uniform)
    const spans = Array.from({ length: 24 }, (_, hour) => ({
      rps: fastest * 4 * uniform() * (1 + Math.sin((hour / 24) * 2 * Math.PI + uniform())),
      seconds: 3600,
    }))
    return { name: `model ${i}`, segments, demand: { spans, what: 'a made-up day' } }
  })
  const startMs = performance.now()
  const { atPeaks, byHour = [], comparisons } = await planFleet(models, kinds)
  const seconds = ((performance.now() - startMs) / 1000).toFixed(1)
  const worst = byHour.reduce((most, packing) => Math.max(most, above(packing)), 0)
  console.log(
    `50 models, 6 kinds, 25 packings: ${seconds} s; at the peaks within ${percent(above(atPeaks))} of the best, hours within ${percent(worst)}`,
  )
  console.log(
    `per hour: $${atPeaks.pricePerHour.toFixed(2)}, a GPU each $${comparisons.wholeGpus?.pricePerHour.toFixed(2)}, each alone $${comparisons.modelsApart.pricePerHour.toFixed(2)}, first fit decreasing $${comparisons.firstFitDecreasing?.pricePerHour.toFixed(2)}`,
  )
}

if (tables !== undefined && scenarios !== undefined) await published(tables, scenarios)
else await madeUp()

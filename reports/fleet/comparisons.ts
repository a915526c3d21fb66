/** What the same models would cost without a plan for all of them. */
import { fitTogether } from '../../trials/devices/mig-placements.ts'
import { pack } from './pack.ts'
import {
  type FleetModel,
  type GpuKind,
  type Packing,
  type Segment,
  selectBestPerSlice,
  whole,
} from './packing.ts'

export interface Comparison {
  readonly gpus: number
  readonly pricePerHour: number
}

export const summarise = ({ gpus, pricePerHour }: Packing): Comparison => ({
  gpus: gpus.length,
  pricePerHour,
})

/**
 * Whole GPUs for each model, of the kind that serves it at the least money; undefined where one was
 * not measured on a whole GPU.
 */
export function compareWholeGpus(
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kinds: readonly GpuKind[],
): Comparison | undefined {
  const each = models.map((model, i) => {
    const fleets = selectBestPerSlice(model, kinds)
      .filter((segment) => takesWholeGpu(segment, kinds))
      .map((segment) => {
        const gpus = Math.ceil(demandRps[i]! / segment.rateRps - 1e-9) * segment.gpus
        return { gpus, pricePerHour: gpus * kindOf(segment, kinds).pricePerHour }
      })
    return fleets.sort((a, b) => a.pricePerHour - b.pricePerHour)[0]
  })
  return each.every((fleet) => fleet !== undefined) ? sumUp(each) : undefined
}

/** One model takes the solver milliseconds. */
const maxSecondsAlone = 5

/** Each model on GPUs of its own, cut as is best for it alone; the bound is of that. */
export async function packEachAlone(
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kinds: readonly GpuKind[],
): Promise<Packing> {
  const alone: Packing[] = []
  for (const [i, model] of models.entries())
    alone.push(await pack([model], [demandRps[i]!], kinds, maxSecondsAlone))
  return {
    gpus: alone.flatMap(({ gpus }) => gpus),
    pricePerHour: alone.reduce((sum, { pricePerHour }) => sum + pricePerHour, 0),
    boundPerHour: alone.reduce((sum, { boundPerHour }) => sum + boundPerHour, 0),
  }
}

/**
 * First fit decreasing: each model takes as many of the slice that carries most per money as it
 * needs, and slices go, the largest first, to the first GPU on which they fit.
 */
export function compareFirstFitDecreasing(
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kinds: readonly GpuKind[],
): Comparison | undefined {
  const each = models.map((model, i) => {
    const perMoney = (segment: Segment) =>
      segment.rateRps /
      (segment.gpus * partOfGpu(segment, kinds) * kindOf(segment, kinds).pricePerHour)
    const [best] = selectBestPerSlice(model, kinds).sort((a, b) => perMoney(b) - perMoney(a))
    if (best === undefined) return demandRps[i]! > 0 ? undefined : []
    const replicas = Math.ceil(demandRps[i]! / best.rateRps - 1e-9)
    return Array.from({ length: replicas * best.gpus }, () => best)
  })
  if (each.some((slices) => slices === undefined)) return undefined
  const slices = each.flatMap((one) => one ?? [])
  const open: { readonly kind: GpuKind; readonly slices: string[] }[] = []
  for (const segment of slices.sort((a, b) => partOfGpu(b, kinds) - partOfGpu(a, kinds))) {
    const kind = kindOf(segment, kinds)
    const fits = open.find(
      (gpu) => gpu.kind === kind && fitTogether(kind.partitions, [...gpu.slices, segment.slice]),
    )
    if (fits) fits.slices.push(segment.slice)
    else open.push({ kind, slices: [segment.slice] })
  }
  return sumUp(open.map(({ kind: { pricePerHour } }) => ({ gpus: 1, pricePerHour })))
}

const kindOf = ({ gpu }: Segment, kinds: readonly GpuKind[]): GpuKind =>
  kinds.find(({ name }) => name === gpu)!

const takesWholeGpu = (segment: Segment, kinds: readonly GpuKind[]): boolean =>
  segment.slice === whole ||
  kindOf(segment, kinds).partitions.some(
    (partition) => partition.length === 1 && partition[0] === segment.slice,
  )

/** One over how many of the slice fit on a GPU. */
function partOfGpu(segment: Segment, kinds: readonly GpuKind[]): number {
  const counts = kindOf(segment, kinds).partitions.map(
    (partition) => partition.filter((slice) => slice === segment.slice).length,
  )
  return 1 / Math.max(...counts)
}

const sumUp = (all: readonly Comparison[]): Comparison => ({
  gpus: all.reduce((sum, { gpus }) => sum + gpus, 0),
  pricePerHour: all.reduce((sum, { pricePerHour }) => sum + pricePerHour, 0),
})

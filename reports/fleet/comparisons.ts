/** Prices of simpler plans for the same models. */
import { canPlaceTogether } from '../../trials/devices/mig-placements.ts'
import { pack } from './pack.ts'
import {
  type FleetModel,
  type GpuKind,
  type Packing,
  type Segment,
  selectBestPerSlice,
  wholeGpu,
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
 * Whole GPUs for each model, of the kind that serves it at the lowest price; undefined if one was
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
        return { gpus, pricePerHour: gpus * findKind(segment, kinds).pricePerHour }
      })
    return fleets.sort((a, b) => a.pricePerHour - b.pricePerHour)[0]
  })
  return each.every((fleet) => fleet !== undefined) ? sumComparisons(each) : undefined
}

/** Limit for the solver, which takes milliseconds for one model. */
const maxSecondsAlone = 5

/**
 * Packs each model on its own GPUs, partitioned for that model; the bound is that of such a fleet.
 */
export async function packModelsApart(
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
 * First fit decreasing: each model takes as many as it needs of the slice with the highest rate per
 * price. Slices go, the largest first, to the first GPU on which they fit.
 */
export function compareFirstFitDecreasing(
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kinds: readonly GpuKind[],
): Comparison | undefined {
  const each = models.map((model, i) => {
    const computeRatePerPrice = (segment: Segment) =>
      segment.rateRps /
      (segment.gpus * findFraction(segment, kinds) * findKind(segment, kinds).pricePerHour)
    const [best] = selectBestPerSlice(model, kinds).sort(
      (a, b) => computeRatePerPrice(b) - computeRatePerPrice(a),
    )
    if (best === undefined) return demandRps[i]! > 0 ? undefined : []
    const replicas = Math.ceil(demandRps[i]! / best.rateRps - 1e-9)
    return Array.from({ length: replicas * best.gpus }, () => best)
  })
  if (each.some((slices) => slices === undefined)) return undefined
  const slices = each.flatMap((one) => one ?? [])
  const openGpus: { readonly kind: GpuKind; readonly slices: string[] }[] = []
  for (const segment of slices.sort((a, b) => findFraction(b, kinds) - findFraction(a, kinds))) {
    const kind = findKind(segment, kinds)
    const gpuWithRoom = openGpus.find(
      (gpu) =>
        gpu.kind === kind && canPlaceTogether(kind.partitions, [...gpu.slices, segment.slice]),
    )
    if (gpuWithRoom) gpuWithRoom.slices.push(segment.slice)
    else openGpus.push({ kind, slices: [segment.slice] })
  }
  return sumComparisons(openGpus.map(({ kind: { pricePerHour } }) => ({ gpus: 1, pricePerHour })))
}

const findKind = ({ gpu }: Segment, kinds: readonly GpuKind[]): GpuKind =>
  kinds.find(({ name }) => name === gpu)!

const takesWholeGpu = (segment: Segment, kinds: readonly GpuKind[]): boolean =>
  segment.slice === wholeGpu ||
  findKind(segment, kinds).partitions.some(
    (partition) => partition.length === 1 && partition[0] === segment.slice,
  )

/** Computes the share of a GPU that a slice takes: one divided by the number of slices that fit. */
function findFraction(segment: Segment, kinds: readonly GpuKind[]): number {
  const counts = findKind(segment, kinds).partitions.map(
    (partition) => partition.filter((slice) => slice === segment.slice).length,
  )
  return 1 / Math.max(...counts)
}

const sumComparisons = (all: readonly Comparison[]): Comparison => ({
  gpus: all.reduce((sum, { gpus }) => sum + gpus, 0),
  pricePerHour: all.reduce((sum, { pricePerHour }) => sum + pricePerHour, 0),
})

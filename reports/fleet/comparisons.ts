/** What the same models would cost without a plan for all of them. */
import { fitTogether } from '../../trials/devices/mig-placements.ts'
import { type Constraints, noConstraints } from './constraints.ts'
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
  { redundant } = noConstraints,
): Comparison | undefined {
  const each = models.map((model, i) => {
    const fleets = selectBestPerSlice(model, kinds)
      .filter((segment) => takesWholeGpu(segment, kinds))
      .map((segment) => {
        const replicas =
          Math.ceil(demandRps[i]! / segment.rateRps - 1e-9) +
          (redundant.has(model.name) && demandRps[i]! > 0 ? 1 : 0)
        const gpus = replicas * segment.gpus
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
  { redundant } = noConstraints,
): Promise<Packing> {
  const alone: Packing[] = []
  for (const [i, model] of models.entries()) {
    const own = { redundant, apart: [] }
    alone.push(await pack([model], [demandRps[i]!], kinds, maxSecondsAlone, own))
  }
  return {
    gpus: alone.flatMap(({ gpus }) => gpus),
    pricePerHour: alone.reduce((sum, { pricePerHour }) => sum + pricePerHour, 0),
    boundPerHour: alone.reduce((sum, { boundPerHour }) => sum + boundPerHour, 0),
  }
}

/**
 * A fleet without redundancy, and the same with one whole GPU of each of its kinds as a spare, to
 * be cut as the one that is lost; that is absent where there are too few GPUs.
 */
export async function compareSpareGpus(
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kinds: readonly GpuKind[],
  { apart }: Constraints,
  maxSeconds: number,
  known: Packing,
): Promise<{ readonly without: Comparison; readonly withSpares?: Comparison }> {
  const constraints = { redundant: new Set<string>(), apart }
  const packing = await pack(models, demandRps, kinds, maxSeconds, constraints, known)
  const countOf = (name: string) => packing.gpus.filter(({ kind }) => kind === name).length
  const used = kinds.filter(({ name }) => countOf(name) > 0)
  const without = summarise(packing)
  const spares = used.map(({ pricePerHour }) => ({ gpus: 1, pricePerHour }))
  const areThere = used.every(
    ({ name, count }) => countOf(name) < (count ?? Number.POSITIVE_INFINITY),
  )
  return { without, ...(areThere && { withSpares: sumUp([without, ...spares]) }) }
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

/** What the same models would cost without a plan for all of them. */
import { fitTogether } from '../../trials/devices/mig-placements.ts'
import { pack, unshared } from './pack.ts'
import {
  bestPerSlice,
  FleetError,
  type FleetModel,
  type GpuKind,
  type Packing,
  type Segment,
  whole,
} from './packing.ts'
import { noRules, type Rules } from './rules.ts'

export interface Compared {
  readonly gpus: number
  readonly pricePerHour: number
}

/**
 * Whole GPUs for each model, of the kind that serves it at the least money; undefined where one has
 * no figure on a whole GPU.
 */
export function aGpuEach(
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kinds: readonly GpuKind[],
  { spared } = noRules,
): Compared | undefined {
  const each = models.map((model, i) => {
    const fleets = bestPerSlice(model, kinds)
      .filter((segment) => segment.rateRps > 0 && takesAll(segment, kinds))
      .map((segment) => {
        const replicas =
          Math.ceil(demandRps[i]! / segment.rateRps - 1e-9) +
          (spared.has(model.name) && demandRps[i]! > 0 ? 1 : 0)
        const gpus = replicas * segment.gpus
        return { gpus, pricePerHour: gpus * kindOf(segment, kinds).pricePerHour }
      })
    return fleets.sort((a, b) => a.pricePerHour - b.pricePerHour)[0]
  })
  return each.every((fleet) => fleet !== undefined) ? added(each) : undefined
}

/** Each model on GPUs of its own, cut as is best for it alone; the bound is of that. */
export async function eachAlone(
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kinds: readonly GpuKind[],
  { spared, slows }: Rules = noRules,
): Promise<Packing> {
  const alone: Packing[] = []
  for (const [i, model] of models.entries()) {
    const own = {
      spared: new Set([model.name].filter((name) => spared.has(name))),
      apart: [],
      slows,
    }
    alone.push(await pack([model], [demandRps[i]!], kinds, secondsAlone, own))
  }
  return {
    gpus: alone.flatMap(({ gpus }) => gpus),
    pricePerHour: alone.reduce((sum, { pricePerHour }) => sum + pricePerHour, 0),
    boundPerHour: alone.reduce((sum, { boundPerHour }) => sum + boundPerHour, 0),
  }
}

/**
 * A fleet with nothing spare, and one whole GPU of each of its kinds beside it, to be cut as the
 * one that is lost was.
 * @returns undefined where there is no such GPU
 */
export async function spareGpus(
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kinds: readonly GpuKind[],
  { apart, slows }: Rules,
  seconds: number,
  known: Packing,
): Promise<{ readonly without: Compared; readonly beside?: Compared }> {
  const { gpus, pricePerHour } = await pack(
    models,
    demandRps,
    kinds,
    seconds,
    { spared: new Set(), apart, slows },
    known,
  )
  const used = kinds.filter(({ name }) => gpus.some(({ kind }) => kind === name))
  const there = used.every(
    ({ name, count = Number.POSITIVE_INFINITY }) =>
      gpus.filter(({ kind }) => kind === name).length < count,
  )
  const without = { gpus: gpus.length, pricePerHour }
  const spare = {
    gpus: used.length,
    pricePerHour: used.reduce((sum, kind) => sum + kind.pricePerHour, 0),
  }
  return { without, ...(there && { beside: added([without, spare]) }) }
}

/** The same models with no GPU under MPS; undefined where one has nothing else. */
export async function withoutMps(
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kinds: readonly GpuKind[],
  rules: Rules,
  seconds: number,
): Promise<Compared | undefined> {
  return ifAny(() => pack(models, demandRps, kinds.map(unshared), seconds, rules))
}

export const comparedOf = ({ gpus, pricePerHour }: Packing): Compared => ({
  gpus: gpus.length,
  pricePerHour,
})

/** Undefined where there is no such packing. */
export async function ifAny(packing: () => Promise<Packing>): Promise<Compared | undefined> {
  const found = await packedIfAny(packing)
  return found && comparedOf(found)
}

/** Likewise, the packing itself. */
export async function packedIfAny(packing: () => Promise<Packing>): Promise<Packing | undefined> {
  try {
    return await packing()
  } catch (error) {
    if (error instanceof FleetError) return undefined
    throw error
  }
}

/** One model takes the solver milliseconds. */
const secondsAlone = 5

/**
 * First fit decreasing: each model takes as many of the slice that carries most per money as it
 * needs, and slices go, the largest first, to the first GPU on which they fit beside what it has.
 * Undefined where no slice serves all of a model's requests.
 */
export function firstFitDecreasing(
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kinds: readonly GpuKind[],
): Compared | undefined {
  const each = models.map((model, i) => {
    const perMoney = (segment: Segment) =>
      segment.rateRps /
      (segment.gpus * partOf(segment, kinds) * kindOf(segment, kinds).pricePerHour)
    const [best] = bestPerSlice(model, kinds)
      .filter(({ rateRps }) => rateRps > 0)
      .sort((a, b) => perMoney(b) - perMoney(a))
    if (best === undefined) return demandRps[i]! > 0 ? undefined : []
    return Array.from(
      { length: Math.ceil(demandRps[i]! / best.rateRps - 1e-9) * best.gpus },
      () => best,
    )
  })
  if (each.some((slices) => slices === undefined)) return undefined
  const slices = each.flatMap((one) => one ?? [])
  const open: { readonly kind: GpuKind; readonly slices: string[] }[] = []
  for (const segment of slices.sort((a, b) => partOf(b, kinds) - partOf(a, kinds))) {
    const kind = kindOf(segment, kinds)
    const fits = open.find(
      (gpu) => gpu.kind === kind && fitTogether(kind.partitions, [...gpu.slices, segment.slice]),
    )
    if (fits) fits.slices.push(segment.slice)
    else open.push({ kind, slices: [segment.slice] })
  }
  return {
    gpus: open.length,
    pricePerHour: open.reduce((sum, { kind }) => sum + kind.pricePerHour, 0),
  }
}

const kindOf = ({ gpu }: Segment, kinds: readonly GpuKind[]): GpuKind =>
  kinds.find(({ name }) => name === gpu)!

const takesAll = (segment: Segment, kinds: readonly GpuKind[]): boolean =>
  segment.slice === whole ||
  kindOf(segment, kinds).partitions.some(
    (partition) => partition.length === 1 && partition[0] === segment.slice,
  )

/** Of a GPU: as many of the slice as fit on one. */
function partOf(segment: Segment, kinds: readonly GpuKind[]): number {
  const most = kindOf(segment, kinds).partitions.map(
    (partition) => partition.filter((slice) => slice === segment.slice).length,
  )
  return 1 / Math.max(...most)
}

const added = (all: readonly Compared[]): Compared => ({
  gpus: all.reduce((sum, { gpus }) => sum + gpus, 0),
  pricePerHour: all.reduce((sum, { pricePerHour }) => sum + pricePerHour, 0),
})

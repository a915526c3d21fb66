/**
 * Finds the cheapest GPUs, and their partitions, that serve several models.
 *
 * A slice serves one model at a rate that does not depend on its neighbours, so all slices of one
 * kind are equal to a model, and counts are enough. An integer programme over x, how many GPUs are
 * cut in which way, and y, how many replicas of which segments the slices have, is exact:
 *
 *   minimise Σ price·x, Σ_m use·y(m, slice) ≤ Σ_p slices(p)·x(p) for each slice, Σ rate·y(m, slice)
 *   ≥ demand(m) for each model.
 */
import type { Partition } from '../../trials/devices/mig-placements.ts'
import { grouped } from '../../trials/grouped.ts'
import { type Programme, replicaCostShare, solve, type Term } from './integer-programme.ts'
import {
  computeCarriedRps,
  FleetError,
  type FleetModel,
  type GpuKind,
  type PackedGpu,
  type Packing,
  type Segment,
  type Slot,
  selectBestPerSlice,
} from './packing.ts'

/** A model with a demand, and its fastest segment on each kind of slice. */
interface DemandedModel {
  readonly model: string
  readonly demandRps: number
  readonly best: readonly Segment[]
}
/** A variable: GPUs of a kind with one partition. */
interface CutGpus {
  readonly name: string
  readonly kind: GpuKind
  readonly partition: Partition
}
/** A variable: replicas of a model on slices of a kind. */
interface Replicas {
  readonly name: string
  readonly model: string
  readonly segment: Segment
}
type VariableCounts<Variable> = readonly (Variable & { readonly count: number })[]
type Row = Programme['rows'][number]

/** A demand for more replicas counts as a mistake, because the output lists every replica. */
const maxReplicasPerModel = 2000

/**
 * Finds the cheapest packing.
 * @param demandRps of each model, in their order; one of 0 needs nothing
 * @param maxSeconds after which the best packing found so far is returned
 * @param start a packing to improve on; one that is not feasible here is ignored
 * @throws FleetError if a model has no segment on these GPUs, or there are too few of them
 */
export async function pack(
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kinds: readonly GpuKind[],
  maxSeconds = 60,
  start?: Packing,
): Promise<Packing> {
  const demanded = models.flatMap((model, i): DemandedModel[] => {
    const best = selectBestPerSlice(model, kinds)
    return demandRps[i]! > 0 ? [{ model: model.name, demandRps: demandRps[i]!, best }] : []
  })
  checkServable(demanded, models, kinds)
  if (demanded.length === 0) return { gpus: [], pricePerHour: 0, boundPerHour: 0 }
  const cuts = kinds.flatMap((kind, k) =>
    kind.partitions.map((partition, p): CutGpus => ({ name: `x${k}_${p}`, kind, partition })),
  )
  const replicas = demanded.flatMap(({ model, best }, m) =>
    best.map((segment, s): Replicas => ({ name: `y${m}_${s}`, model, segment })),
  )
  const programme = buildProgramme(demanded, cuts, replicas, kinds)
  const solved = await solve(programme, maxSeconds, start && countByName(start, cuts, replicas))
  if (solved === 'infeasible')
    throw new FleetError(
      `these GPUs cannot carry all demands: ${kinds.map(({ name, count }) => (count === undefined ? name : `${count} × ${name}`)).join(', ')}`,
      'raise count:, or leave it out to see what the cheapest fleet would be',
    )
  const counts = solved.values.map(Math.round)
  const boughtGpus = cuts.map((cut, i) => ({ ...cut, count: counts[i]! }))
  const gpus = placeReplicas(
    boughtGpus,
    replicas.map((replica, i) => ({ ...replica, count: counts[cuts.length + i]! })),
  )
  if (gpus === undefined || !carriesDemands(gpus, demanded))
    throw new FleetError(
      `no packing was found within ${maxSeconds} s`,
      'raise --solver-time, or pack fewer models',
    )
  const pricePerHour = boughtGpus.reduce(
    (sum, { kind, count }) => sum + kind.pricePerHour * count,
    0,
  )
  return { gpus, pricePerHour, boundPerHour: Math.min(pricePerHour, solved.minCost) }
}

function checkServable(
  demanded: readonly DemandedModel[],
  models: readonly FleetModel[],
  kinds: readonly GpuKind[],
): void {
  const unserved = demanded.flatMap(({ model, best }) => (best.length === 0 ? [model] : []))
  if (unserved.length > 0) {
    const sharedSegments = models
      .filter(({ name }) => unserved.includes(name))
      .flatMap(({ segments }) => segments.filter(({ share }) => share !== undefined))
    const unsharedKinds = kinds.filter(
      ({ name, mps }) => !mps && sharedSegments.some(({ gpu }) => gpu === name),
    )
    throw new FleetError(
      `no measurement of ${unserved.join(', ')} meets its SLO on these GPUs`,
      `measure it there, loosen its SLO, or add GPUs${unsharedKinds.length > 0 ? `; set mps: true to use measurements on shares of ${unsharedKinds.map(({ name }) => name).join(', ')}` : ''}`,
    )
  }
  const huge = demanded.find(
    ({ demandRps, best }) =>
      demandRps > maxReplicasPerModel * Math.max(...best.map(({ rateRps }) => rateRps)),
  )
  if (huge)
    throw new FleetError(
      `${huge.model} would need more than ${maxReplicasPerModel} replicas for ${Math.round(huge.demandRps)} requests per second`,
      'check its demand',
    )
}

function buildProgramme(
  demanded: readonly DemandedModel[],
  cuts: readonly CutGpus[],
  replicas: readonly Replicas[],
  kinds: readonly GpuKind[],
): Programme {
  const replicaCost = replicaCostShare * Math.min(...kinds.map((kind) => kind.pricePerHour))
  // A rate above the demand counts as the demand: the relaxation is tighter, the solutions equal.
  const demandRows = demanded.map(
    ({ model, demandRps }): Row => [
      replicas
        .filter((one) => one.model === model)
        .map(({ name, segment }): Term => [Math.min(1, segment.rateRps / demandRps), name]),
      '>= 1',
    ],
  )
  const replicasBySlice = grouped(replicas, ({ segment: { gpu, slice } }) => `${gpu}\n${slice}`)
  const sliceRows = [...replicasBySlice.values()].map((alike): Row => {
    const { gpu, slice } = alike[0]!.segment
    const offered = cuts.flatMap(({ name, kind, partition }): Term[] => {
      const count = kind.name === gpu ? partition.filter((each) => each === slice).length : 0
      return count > 0 ? [[-count, name]] : []
    })
    return [[...alike.map(({ name, segment }): Term => [segment.gpus, name]), ...offered], '<= 0']
  })
  const gpuRows = kinds.flatMap((kind): Row[] => {
    const cutsOfKind = cuts.filter((cut) => cut.kind === kind)
    return kind.count === undefined
      ? []
      : [[cutsOfKind.map(({ name }): Term => [1, name]), `<= ${kind.count}`]]
  })
  return {
    cost: [
      ...cuts.map(({ name, kind }): Term => [kind.pricePerHour, name]),
      ...replicas.map(({ name }): Term => [replicaCost, name]),
    ],
    rows: [...demandRows, ...sliceRows, ...gpuRows],
  }
}

/**
 * Converts a packing to counts by variable. It skips GPUs and replicas that are no variables of
 * this programme.
 */
function countByName(
  { gpus }: Packing,
  cuts: readonly CutGpus[],
  replicas: readonly Replicas[],
): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  const addCount = (name: string | undefined, count: number) => {
    if (name !== undefined) counts.set(name, (counts.get(name) ?? 0) + count)
  }
  const joinSorted = (slices: readonly string[]) => slices.toSorted().join('\n')
  for (const { kind, slots } of gpus) {
    const slices = joinSorted(slots.map(({ slice }) => slice))
    addCount(
      cuts.find((cut) => cut.kind.name === kind && joinSorted(cut.partition) === slices)?.name,
      1,
    )
    for (const { model, segment } of slots)
      if (segment)
        addCount(
          replicas.find((one) => one.model === model && one.segment === segment)?.name,
          1 / segment.gpus,
        )
  }
  return counts
}

/**
 * Places every replica on slices of its kind, those of one model on as many GPUs as possible;
 * undefined if they do not fit.
 */
function placeReplicas(
  cuts: VariableCounts<CutGpus>,
  replicas: VariableCounts<Replicas>,
): PackedGpu[] | undefined {
  const packed = cuts.flatMap(({ kind, partition, count }) =>
    Array.from({ length: count }, () => ({
      kind: kind.name,
      slots: partition.map((slice): Slot => ({ slice })),
    })),
  )
  for (const { model, segment, count } of replicas) {
    const isFree = (slot: Slot) => slot.slice === segment.slice && slot.model === undefined
    const countModelReplicas = ({ slots }: PackedGpu) =>
      slots.filter((slot) => slot.model === model).length
    for (let i = 0; i < count * segment.gpus; i++) {
      const [gpu] = packed
        .filter(({ kind, slots }) => kind === segment.gpu && slots.some(isFree))
        .sort((a, b) => countModelReplicas(a) - countModelReplicas(b))
      if (gpu === undefined) return undefined
      gpu.slots[gpu.slots.findIndex(isFree)] = { slice: segment.slice, model, segment }
    }
  }
  return packed
}

/** A demand counts as carried from this share of it on: the solver's own tolerance. */
const minCarriedShare = 1 - 1e-5

/** The solver's values may violate its rows, so the packing itself is checked. */
const carriesDemands = (gpus: readonly PackedGpu[], demanded: readonly DemandedModel[]): boolean =>
  demanded.every(
    ({ model, demandRps }) => computeCarriedRps(model, gpus) >= demandRps * minCarriedShare,
  )

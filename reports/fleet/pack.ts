/**
 * Which GPUs, cut into which slices, serve several models at the least money.
 *
 * A slice serves one model at a rate that does not depend on who its neighbours are, so a model is
 * as well on any slice of a kind. An integer programme over x, how many GPUs are cut in which way,
 * and y, how many slices of each kind every model has, is exact:
 *
 *   minimise Σ price·x, Σ_m use·y(m, slice) ≤ Σ_p slices(p)·x(p) for each slice, Σ rate·y(m, slice)
 *   ≥ demand(m) for each model.
 *
 * Constraints on which models fall together are only bounded in it: with redundancy at least one
 * replica of each segment in use is lost, w(m) ≥ rate·[y > 0] and Σ rate·y - w(m) ≥ demand(m).
 * Where models stand decides the rest (`assignment.ts`).
 */
import type { Partition } from '../../trials/devices/mig-placements.ts'
import { assignModels, type CandidateGpu } from './assignment.ts'
import {
  type Constraints,
  canJoin,
  isConstrained,
  isFeasible,
  noConstraints,
} from './constraints.ts'
import { type EmptyGpu, solveCounts, tooFewGpus } from './count-programme.ts'
import {
  type DemandedModel,
  FleetError,
  type FleetModel,
  type GpuKind,
  type PackedGpu,
  type Packing,
  type ReplicaCount,
  type Slot,
  selectBestPerSlice,
} from './packing.ts'

/** Above it a demand is taken for a mistake: every replica gets a slice of its own in the output. */
const maxReplicasPerModel = 2000

/**
 * @param demandRps of each model, in their order; one of 0 needs nothing
 * @param maxSeconds after which the best packing found so far is returned
 * @param known a feasible packing, returned where the time ends before one as cheap is found
 * @throws FleetError where a model has no segment on these GPUs, or there are too few of them
 */
export async function pack(
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kinds: readonly GpuKind[],
  maxSeconds = 60,
  constraints = noConstraints,
  known?: Packing,
): Promise<Packing> {
  const demanded = models.flatMap((model, i): DemandedModel[] => {
    const best = selectBestPerSlice(model, kinds)
    return demandRps[i]! > 0 ? [{ model: model.name, demandRps: demandRps[i]!, best }] : []
  })
  mustBeServable(demanded, models, kinds)
  if (demanded.length === 0) return { gpus: [], pricePerHour: 0, boundPerHour: 0 }
  const withKnown = (found: Packing): Packing =>
    known !== undefined && known.pricePerHour < found.pricePerHour
      ? { ...known, boundPerHour: Math.min(known.pricePerHour, found.boundPerHour) }
      : found
  const { gpus, replicas, boundPerHour } = await solveCounts(
    demanded,
    kinds,
    isConstrained(constraints) ? maxSeconds / 2 : maxSeconds,
    constraints,
    known,
  )
  const placed = placeReplicas(gpus, replicas, constraints)
  const pricePerHour = gpus.reduce((sum, { kind }) => sum + kind.pricePerHour, 0)
  if (placed !== undefined && isFeasible(placed, demanded, constraints))
    return withKnown({
      gpus: placed,
      pricePerHour,
      boundPerHour: Math.min(pricePerHour, boundPerHour),
    })
  const assigned = isConstrained(constraints)
    ? await assignToSingleGpus(gpus, demanded, kinds, maxSeconds, constraints, boundPerHour)
    : undefined
  if (assigned === 'infeasible') throw tooFewGpus(kinds, constraints)
  if (assigned !== undefined) return withKnown(assigned)
  if (known !== undefined)
    return { ...known, boundPerHour: Math.min(known.pricePerHour, boundPerHour) }
  throw new FleetError(
    `no packing was found within ${maxSeconds} s`,
    'give it more time with --solver-time, or fewer models',
  )
}

function mustBeServable(
  demanded: readonly DemandedModel[],
  models: readonly FleetModel[],
  kinds: readonly GpuKind[],
): void {
  const unserved = demanded.flatMap(({ model, best }) => (best.length === 0 ? [model] : []))
  if (unserved.length > 0) {
    const shared = models
      .filter(({ name }) => unserved.includes(name))
      .flatMap(({ segments }) => segments.filter(({ share }) => share !== undefined))
    const on = kinds.filter(({ name, mps }) => !mps && shared.some(({ gpu }) => gpu === name))
    throw new FleetError(
      `no measurement of ${unserved.join(', ')} meets its SLO on these GPUs`,
      `measure it there, loosen its SLO, or add GPUs${on.length > 0 ? `; measurements on shares of ${on.map(({ name }) => name).join(', ')} count with mps: true` : ''}`,
    )
  }
  const huge = demanded.find(
    ({ demandRps, best }) =>
      demandRps > maxReplicasPerModel * Math.max(...best.map(({ rateRps }) => rateRps)),
  )
  if (huge)
    throw new FleetError(
      `${huge.model} would take more than ${maxReplicasPerModel} replicas for ${Math.round(huge.demandRps)} requests per second`,
      'check its demand:',
    )
}

/** GPUs that are alike make more of them too hard to choose and fill in one programme. */
const maxCandidates = 24

/**
 * Where models do not fit the counted GPUs under the constraints: on them and some more, and then,
 * where few GPUs cost as much, on any that cost less.
 * @param boundPerHour of any packing
 */
async function assignToSingleGpus(
  gpus: readonly EmptyGpu[],
  demanded: readonly DemandedModel[],
  kinds: readonly GpuKind[],
  maxSeconds: number,
  constraints: Constraints,
  boundPerHour: number,
): Promise<Packing | 'infeasible' | undefined> {
  const counted = gpus.map(
    ({ kind, partition }): CandidateGpu => ({ kind, partitions: [partition] }),
  )
  const more = (kind: GpuKind, wanted: number, used: number): CandidateGpu[] => {
    const left = (kind.count ?? Number.POSITIVE_INFINITY) - used
    return Array.from({ length: Math.min(wanted, left) }, () => ({
      kind,
      partitions: kind.partitions,
    }))
  }
  let found: Packing | undefined
  for (let extra = 0; found === undefined && extra <= 2 * gpus.length + 2; extra = extra * 2 || 1) {
    const extras = kinds.flatMap((kind) =>
      more(kind, extra, gpus.filter((gpu) => gpu.kind === kind).length),
    )
    const seconds = Math.max(1, maxSeconds / 16)
    const assigned = await assignModels([...counted, ...extras], demanded, constraints, seconds)
    if (assigned === 'infeasible' || assigned.gpus === undefined) continue
    found = {
      gpus: assigned.gpus,
      pricePerHour: assigned.pricePerHour,
      boundPerHour: Math.min(boundPerHour, assigned.pricePerHour),
    }
  }
  if (found !== undefined && found.pricePerHour <= boundPerHour * (1 + 1e-6)) return found
  const maxPrice = found?.pricePerHour ?? Number.POSITIVE_INFINITY
  const any = kinds.flatMap((kind) =>
    more(kind, Math.min(maxCandidates + 1, Math.floor(maxPrice / kind.pricePerHour + 1e-9)), 0),
  )
  if (any.length > maxCandidates) return found
  const seconds = Math.max(1, maxSeconds / 4)
  const better = await assignModels(any, demanded, constraints, seconds, maxPrice)
  if (better === 'infeasible')
    return found === undefined ? 'infeasible' : { ...found, boundPerHour: found.pricePerHour }
  const bound = Math.max(boundPerHour, Math.min(better.boundPerHour, maxPrice))
  const best = better.gpus ? { gpus: better.gpus, pricePerHour: better.pricePerHour } : found
  return best && { ...best, boundPerHour: Math.min(bound, best.pricePerHour) }
}

/**
 * Every replica on slices of its kind, those of one model on as many GPUs as possible; undefined
 * where they do not fit.
 */
function placeReplicas(
  gpus: readonly { readonly kind: GpuKind; readonly partition: Partition }[],
  replicas: readonly ReplicaCount[],
  { apart }: Constraints,
): PackedGpu[] | undefined {
  const packed = gpus.map(({ kind, partition }) => ({
    kind: kind.name,
    slots: partition.map((slice): Slot => ({ slice })),
  }))
  for (const { model, segment, count } of replicas) {
    const isFree = (slot: Slot) => slot.slice === segment.slice && slot.model === undefined
    const countOwn = ({ slots }: PackedGpu) => slots.filter((slot) => slot.model === model).length
    for (let i = 0; i < count * segment.gpus; i++) {
      const [gpu] = packed
        .filter(
          ({ kind, slots }) =>
            kind === segment.gpu && slots.some(isFree) && canJoin(model, slots, apart),
        )
        .sort((a, b) => countOwn(a) - countOwn(b))
      if (gpu === undefined) return undefined
      gpu.slots[gpu.slots.findIndex(isFree)] = { slice: segment.slice, model, segment }
    }
  }
  return packed
}

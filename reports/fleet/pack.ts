/**
 * The cheapest GPUs, and how to cut them, that serve several models.
 *
 * A slice serves one model at a rate that does not depend on its neighbours, so all slices of one
 * kind are equal to a model, and counts are enough. An integer programme over x, how many GPUs are
 * cut in which way, and y, how many slices of each kind every model has, is exact:
 *
 *   minimise Σ price·x, Σ_m use·y(m, slice) ≤ Σ_p slices(p)·x(p) for each slice, Σ rate·y(m, slice)
 *   ≥ demand(m) for each model.
 */
import { type EmptyGpu, solveCounts } from './count-programme.ts'
import {
  carriedRps,
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

/** A demand above it is taken for a mistake, because the output lists every replica. */
const maxReplicasPerModel = 2000

/**
 * @param demandRps of each model, in their order; one of 0 needs nothing
 * @param maxSeconds after which the best packing found so far is returned
 * @param start a packing to improve on; one that is not feasible here is ignored
 * @throws FleetError where a model has no segment on these GPUs, or there are too few of them
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
  mustBeServable(demanded, models, kinds)
  if (demanded.length === 0) return { gpus: [], pricePerHour: 0, boundPerHour: 0 }
  const counts = await solveCounts(demanded, kinds, maxSeconds, start)
  const gpus = placeReplicas(counts.gpus, counts.replicas)
  if (gpus === undefined || !carriesDemands(gpus, demanded))
    throw new FleetError(
      `no packing was found within ${maxSeconds} s`,
      'give it more time with --solver-time, or fewer models',
    )
  const pricePerHour = counts.gpus.reduce((sum, { kind }) => sum + kind.pricePerHour, 0)
  return { gpus, pricePerHour, boundPerHour: Math.min(pricePerHour, counts.boundPerHour) }
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

/**
 * Every replica on slices of its kind, those of one model on as many GPUs as possible; undefined
 * where they do not fit.
 */
function placeReplicas(
  gpus: readonly EmptyGpu[],
  replicas: readonly ReplicaCount[],
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
        .filter(({ kind, slots }) => kind === segment.gpu && slots.some(isFree))
        .sort((a, b) => countOwn(a) - countOwn(b))
      if (gpu === undefined) return undefined
      gpu.slots[gpu.slots.findIndex(isFree)] = { slice: segment.slice, model, segment }
    }
  }
  return packed
}

/** A demand counts as carried from this share of it on: the solver's own tolerance. */
const minCarriedShare = 1 - 1e-5

/** The solver's values may violate its rows, so the packing itself is checked. */
function carriesDemands(
  gpus: readonly PackedGpu[],
  demanded: readonly Pick<DemandedModel, 'model' | 'demandRps'>[],
): boolean {
  return demanded.every(
    ({ model, demandRps }) => carriedRps(model, gpus) >= demandRps * minCarriedShare,
  )
}

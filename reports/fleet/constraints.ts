/** Constraints on a packing beyond its demands, and a check of the packing itself. */
import type { DemandedModel, PackedGpu, Segment, Slot } from './packing.ts'

export interface Constraints {
  /** Models that carry their demand with any one GPU lost. */
  readonly redundant: ReadonlySet<string>
  /** Groups of models of which no two share a GPU. */
  readonly apart: readonly (readonly string[])[]
}

export const noConstraints: Constraints = { redundant: new Set(), apart: [] }

export const isConstrained = ({ redundant, apart }: Constraints): boolean =>
  redundant.size > 0 || apart.length > 0

/** A demand counts as carried from this share of it on: the solver's own tolerance. */
const minCarriedShare = 1 - 1e-5

/** Whether the packing carries every demand and meets the constraints; the solver is not trusted. */
export function isFeasible(
  gpus: readonly PackedGpu[],
  demanded: readonly Pick<DemandedModel, 'model' | 'demandRps'>[],
  { redundant, apart }: Constraints,
): boolean {
  const carries = demanded.every(({ model, demandRps }) => {
    const onEach = gpus.map(({ slots }) =>
      slots.flatMap((slot) => (slot.model === model && slot.segment ? [slot.segment] : [])),
    )
    const carriedRps = onEach.flat().reduce((sum, { rateRps, gpus: of }) => sum + rateRps / of, 0)
    // A replica on several GPUs is lost with any one of them.
    const maxLostRps = redundant.has(model)
      ? Math.max(0, ...onEach.map((on) => on.reduce((sum, { rateRps }) => sum + rateRps, 0)))
      : 0
    return carriedRps - maxLostRps >= demandRps * minCarriedShare
  })
  return (
    carries &&
    gpus.every(({ slots }) =>
      apart.every(
        (group) =>
          new Set(slots.flatMap(({ model }) => (model && group.includes(model) ? [model] : [])))
            .size <= 1,
      ),
    )
  )
}

/** Whether a model may be put on a GPU beside these. */
export const canJoin = (model: string, slots: readonly Slot[], apart: Constraints['apart']) =>
  apart.every(
    (group) =>
      !group.includes(model) ||
      slots.every(
        (slot) => slot.model === undefined || slot.model === model || !group.includes(slot.model),
      ),
  )

/** The same for replicas that are alike. */
export const keyOfReplica = ({ gpu, slice, gpus, label }: Segment): string =>
  [gpu, slice, gpus, label].join('\n')

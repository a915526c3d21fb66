/**
 * Deployments of a packing: each model's replicas on each kind of slice, their share of its
 * requests, and how many an hour needs.
 */
import { grouped } from '../../trials/grouped.ts'
import { computeCarriedRps, type PackedGpu, type Segment } from './packing.ts'

export interface Placement {
  readonly model: string
  readonly segment: Segment
  readonly replicas: number
  /** Share of the model's requests, 0-1, in proportion to the capacity of these replicas. */
  readonly share: number
  /** Replicas that each hour of the day needs; absent: all of them at all hours. */
  readonly byHour?: readonly number[]
}

/** Formats a key that is the same for replicas on equal slices with equal settings. */
export const formatReplicaKey = ({ gpu, slice, gpus, label }: Segment): string =>
  [gpu, slice, gpus, label].join('\n')

/**
 * Lists the placements.
 * @param hourlyRps rate that the replicas of a model must carry in each hour, headroom included
 */
export function listPlacements(
  gpus: readonly PackedGpu[],
  hourlyRps: (model: string) => readonly number[],
): Placement[] {
  const usedSlots = gpus.flatMap(({ slots }) =>
    slots.flatMap(({ model, segment }) => (model && segment ? [{ model, segment }] : [])),
  )
  return [...grouped(usedSlots, ({ model }) => model)].flatMap(([model, modelSlots]) => {
    const slotsByKey = grouped(modelSlots, ({ segment }) => formatReplicaKey(segment))
    return [...slotsByKey.values()].map((slots): Placement => {
      const { segment } = slots[0]!
      const replicas = Math.round(slots.length / segment.gpus)
      const share = (replicas * segment.rateRps) / computeCarriedRps(model, gpus)
      const neededByHour = hourlyRps(model).map((rps) => (share * rps) / segment.rateRps)
      const byHour = countByHour(replicas, neededByHour)
      const varies = byHour.some((count) => count !== replicas)
      return { model, segment, replicas, share, ...(varies && { byHour }) }
    })
  })
}

/**
 * Counts the replicas of each hour. At least one stays, because its share of the requests comes at
 * every hour. Replicas that the peak does not need stay too.
 * @param needed replicas that each hour would use fully
 */
function countByHour(replicas: number, needed: readonly number[]): number[] {
  const counts = needed.map((count) => Math.max(1, Math.ceil(count - 1e-9)))
  const spare = replicas - Math.max(...counts)
  return counts.map((count) => count + spare)
}

/**
 * What a packing deploys: each model's replicas on each kind of slice, their part of its requests,
 * and how many an hour needs.
 */
import type { PackedGpu, Segment } from './packing.ts'

export interface Placement {
  readonly model: string
  readonly segment: Segment
  readonly replicas: number
  /** Part of the model's requests, 0-1: its replicas' part of what all of the model carry. */
  readonly share: number
  /** Replicas that each hour of the day needs; absent: all of them at all hours. */
  readonly byHour?: readonly number[]
}

/** The same for replicas that are alike. */
export const keyOfReplica = ({ gpu, slice, gpus, label }: Segment): string =>
  [gpu, slice, gpus, label].join('\n')

/** @param hourlyRps of a model, what its replicas must carry in each hour, headroom included */
export function listPlacements(
  gpus: readonly PackedGpu[],
  hourlyRps: (model: string) => readonly number[],
): Placement[] {
  const found = new Map<string, { model: string; segment: Segment; slots: number }>()
  for (const { model, segment } of gpus.flatMap(({ slots }) => slots)) {
    if (model === undefined || segment === undefined) continue
    const key = `${model}\n${keyOfReplica(segment)}`
    const known = found.get(key) ?? { model, segment, slots: 0 }
    known.slots++
    found.set(key, known)
  }
  const all = [...found.values()].map(({ slots, ...of }) => ({
    ...of,
    replicas: Math.round(slots / of.segment.gpus),
  }))
  const models = [...new Set(all.map(({ model }) => model))]
  const inOrder = models.flatMap((name) => all.filter(({ model }) => model === name))
  return inOrder.map(({ model, segment, replicas }): Placement => {
    const carriedRps = all
      .filter((one) => one.model === model)
      .reduce((sum, one) => sum + one.replicas * one.segment.rateRps, 0)
    const share = (replicas * segment.rateRps) / carriedRps
    const byHour = countByHour(
      replicas,
      hourlyRps(model).map((rps) => (share * rps) / segment.rateRps),
    )
    const varies = byHour.some((count) => count !== replicas)
    return { model, segment, replicas, share, ...(varies && { byHour }) }
  })
}

/**
 * At least one replica stays, because its part of the requests comes at every hour. What the peak
 * does not need is spare, and stays too.
 * @param needed replicas that each hour would use fully
 */
function countByHour(replicas: number, needed: readonly number[]): number[] {
  const counts = needed.map((count) => Math.max(1, Math.ceil(count - 1e-9)))
  const spare = replicas - Math.max(...counts)
  return counts.map((count) => count + spare)
}

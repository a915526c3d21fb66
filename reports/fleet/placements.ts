/** What a packing deploys: each model's replicas on each kind of slice, how its requests are to be split over them, and how many an hour needs. */
import type { PackedGpu, Segment } from './packing.ts'
import { poolOf } from './rules.ts'

export interface Placement {
  readonly model: string
  readonly segment: Segment
  readonly replicas: number
  /** Of the model's requests: what is routed to it, or its replicas' part of what all of the model carry. */
  readonly share: number
  /** Replicas that each hour of the day needs, of those that are there; absent: all alike. */
  readonly byHour?: readonly number[]
}

/**
 * @param gpus as they are packed
 * @param hourlyRps of a model, what its replicas must carry in each hour of the day, what is kept free counted in
 * @param spared models that bear the loss of a GPU: which replicas would go at night nobody says, so that all of them stay
 */
export function placementsOf(
  gpus: readonly PackedGpu[],
  hourlyRps: (model: string) => readonly number[],
  spared: ReadonlySet<string> = new Set(),
): Placement[] {
  const found = new Map<string, { readonly model: string; readonly segment: Segment; slots: number }>()
  for (const { model, segment } of gpus.flatMap(({ slots }) => slots)) {
    if (model === undefined || segment === undefined) continue
    const key = `${model}\n${poolOf(segment)}`
    const known = found.get(key) ?? { model, segment, slots: 0 }
    known.slots++
    found.set(key, known)
  }
  const all = [...found.values()].map(({ model, segment, slots }) => ({ model, segment, replicas: Math.round(slots / segment.gpus) }))
  return [...new Set(all.map(({ model }) => model))].flatMap((model) => {
    const own = all.filter((placement) => placement.model === model)
    const carried = own.reduce((sum, { segment, replicas }) => sum + replicas * segment.rateRps, 0)
    return own.map(({ segment, replicas }): Placement => {
      const share = segment.routed?.share ?? (replicas * segment.rateRps) / carried
      const byHour = neededByHour(
        replicas,
        hourlyRps(model).map((rps) => (share * rps) / segment.rateRps),
      )
      return { model, segment, replicas, share, ...(!spared.has(model) && byHour.some((count) => count !== replicas) && { byHour }) }
    })
  })
}

/**
 * One always stays, for its share of the requests goes there at every hour; what the peak does not need either is spare by intent, and stays.
 * @param busy replicas that would be busy to the last in each hour
 */
function neededByHour(replicas: number, busy: readonly number[]): number[] {
  const needed = busy.map((count) => Math.max(1, Math.ceil(count - 1e-9)))
  const spare = replicas - Math.max(...needed)
  return needed.map((count) => count + spare)
}

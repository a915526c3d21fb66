/**
 * What a packing deploys: each model's replicas on each kind of slice, how its requests are to be
 * split over them, and how many an hour needs.
 */
import { stepsOfDay } from './over-day.ts'
import type { PackedGpu, Segment, Stay } from './packing.ts'
import { poolOf } from './rules.ts'

export interface Placement {
  readonly model: string
  readonly segment: Segment
  /** The most at once. */
  readonly replicas: number
  /**
   * Of the model's requests: what is routed to it, or its replicas' part of what all of the model
   * carry, when all are there.
   */
  readonly share: number
  /** Replicas that each hour of the day needs, of those that are there; absent: all alike. */
  readonly byHour?: readonly number[]
  /**
   * Replicas that are in memory in each quarter of an hour, those that load counted: the others'
   * room is another model's.
   */
  readonly inTurns?: readonly number[]
}

interface Pool {
  readonly model: string
  readonly segment: Segment
  slots: number
  readonly stays: Stay[]
}

/**
 * What is loaded as requests come is no part of it.
 * @param gpus as they are packed
 * @param hourlyRps of a model, what its replicas must carry in each hour of the day, what is kept
 * free counted in
 * @param spared models that bear the loss of a GPU: which replicas would go at night nobody says,
 * so that all of them stay
 */
export function placementsOf(
  gpus: readonly PackedGpu[],
  hourlyRps: (model: string) => readonly number[],
  spared: ReadonlySet<string> = new Set(),
): Placement[] {
  const found = new Map<string, Pool>()
  const poolAt = (model: string, segment: Segment): Pool => {
    const key = `${model}\n${poolOf(segment)}`
    const known = found.get(key) ?? { model, segment, slots: 0, stays: [] }
    found.set(key, known)
    return known
  }
  for (const { model, segment, stays = [] } of gpus.flatMap(({ slots }) => slots)) {
    if (model !== undefined && segment !== undefined) poolAt(model, segment).slots++
    for (const stay of stays) poolAt(stay.model, stay.segment).stays.push(stay)
  }
  const all = [...found.values()].map(({ model, segment, slots, stays }) => {
    const always = Math.round(slots / segment.gpus)
    const inTurns = stays.length > 0 ? thereOver(stays).map((count) => always + count) : undefined
    return { model, segment, replicas: Math.max(always, ...(inTurns ?? [])), inTurns }
  })
  return [...new Set(all.map(({ model }) => model))].flatMap((model) => {
    const own = all.filter((placement) => placement.model === model)
    const turns = own.some(({ inTurns }) => inTurns !== undefined)
    const carried = own.reduce((sum, { segment, replicas }) => sum + replicas * segment.rateRps, 0)
    return own.map(({ segment, replicas, inTurns }): Placement => {
      const share = segment.routed?.share ?? (replicas * segment.rateRps) / carried
      const placement = { model, segment, replicas, share }
      // What of it leaves memory was counted; the others are there all day.
      if (turns) return { ...placement, ...(inTurns && { inTurns }) }
      const byHour = neededByHour(
        replicas,
        hourlyRps(model).map((rps) => (share * rps) / segment.rateRps),
      )
      return {
        ...placement,
        ...(!spared.has(model) && byHour.some((count) => count !== replicas) && { byHour }),
      }
    })
  })
}

/** How many of them are there in each step of the day. */
function thereOver(stays: readonly Stay[]): number[] {
  const there = new Array<number>(stepsOfDay).fill(0)
  for (const { from, to } of stays)
    for (let step = from; step < to; step++) there[step % stepsOfDay]!++
  return there
}

/**
 * One always stays, for its share of the requests goes there at every hour; what the peak does not
 * need either is spare by intent, and stays.
 * @param busy replicas that would be busy to the last in each hour
 */
function neededByHour(replicas: number, busy: readonly number[]): number[] {
  const needed = busy.map((count) => Math.max(1, Math.ceil(count - 1e-9)))
  const spare = replicas - Math.max(...needed)
  return needed.map((count) => count + spare)
}

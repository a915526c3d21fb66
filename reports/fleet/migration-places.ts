/**
 * What stands on GPUs while a fleet changes: replicas that are always there, and those that have a
 * place in turns.
 */
import { type OverDay, spanOf, stepsOfDay } from './over-day.ts'
import { type PackedGpu, routedAt, type Stay, whole } from './packing.ts'

interface Replica {
  readonly model: string
  readonly rateRps: number
}

/** One that has its place in turns with others. */
interface InTurns extends Replica {
  /** '6:45-20:00', or as requests come. */
  readonly when: string
  /** In each step of the day, requests per second; absent: its rate in all of them. */
  readonly carries?: readonly number[]
}

export interface Place {
  readonly slice: string
  readonly replica?: Replica
  /** In place of one that is always there. */
  readonly turns?: readonly InTurns[]
}

/** One GPU, or as many whole ones as a replica stands on. */
export interface Block {
  readonly kind: string
  readonly gpus: number
  readonly places: readonly Place[]
}

/**
 * Of a model that takes turns: steps of the day for which it has its slice before it serves, and
 * what is asked in each.
 */
interface TurnOf {
  readonly lead: number
  readonly askedAt?: OverDay['askedAt']
}

/** GPUs of a packing, those of a replica on several taken together. */
export function blocksOf(
  gpus: readonly PackedGpu[],
  turnOf: (model: string) => TurnOf = () => ({ lead: 0 }),
): Block[] {
  const single: Block[] = []
  const shared = new Map<string, number>()
  for (const { kind, slots } of gpus) {
    const segment = slots[0]?.segment
    if (segment === undefined || segment.gpus === 1) {
      single.push({
        kind,
        gpus: 1,
        places: slots.map(({ slice, model, segment: on, stays, waiting }): Place => {
          if (model && on?.routed?.levels)
            return {
              slice,
              turns: [
                stayOf(
                  { model, segment: on, from: 0, to: stepsOfDay },
                  { ...turnOf(model), lead: 0 },
                ),
              ],
            }
          if (model && on) return { slice, replica: { model, rateRps: on.rateRps } }
          if (waiting)
            return {
              slice,
              turns: waiting.map((one) => ({ ...replicaOf(one), when: 'as requests come' })),
            }
          return {
            slice,
            ...(stays && { turns: stays.map((stay) => stayOf(stay, turnOf(stay.model))) }),
          }
        }),
      })
      continue
    }
    const replica = { model: slots[0]!.model!, rateRps: segment.rateRps }
    const key = JSON.stringify([kind, segment.gpus, replica])
    const seen = (shared.get(key) ?? 0) + 1
    shared.set(key, seen)
    if (seen % segment.gpus === 0)
      single.push({ kind, gpus: segment.gpus, places: [{ slice: whole, replica }] })
  }
  return single
}

const replicaOf = ({ model, segment }: Pick<Stay, 'model' | 'segment'>): Replica => ({
  model,
  rateRps: segment.rateRps,
})

function stayOf(stay: Stay, { lead, askedAt }: TurnOf): InTurns {
  const { from, to, segment } = stay
  const serves = (step: number) =>
    [step, step + stepsOfDay].some((at) => at >= from + lead && at < to)
  const carries = Array.from({ length: stepsOfDay }, (_, step) =>
    serves(step) ? routedAt(segment, askedAt?.[step] ?? 0).rateRps : 0,
  )
  return { ...replicaOf(stay), when: spanOf(stay), carries }
}

export const isUsed = ({ replica, turns }: Place): boolean =>
  replica !== undefined || turns !== undefined

/** What replicas carry in each part of the day, by model. */
export function ratesOf(places: readonly Place[], parts: number): Map<string, number[]> {
  const rates = new Map<string, number[]>()
  for (const { model, rateRps, carries } of places.flatMap(
    ({ replica, turns = [] }): Partial<InTurns>[] => [...(replica ? [replica] : []), ...turns],
  )) {
    const own = rates.get(model!) ?? new Array<number>(parts).fill(0)
    rates.set(model!, own)
    for (let part = 0; part < parts; part++) own[part]! += carries?.[part] ?? rateRps!
  }
  return rates
}

/** What stands there, as it is told. */
export const saidOn = (
  places: readonly Place[],
): readonly (Replica & { readonly slice: string; readonly when?: string })[] =>
  places.flatMap(({ slice, replica, turns = [] }) => [
    ...(replica ? [{ slice, ...replica }] : []),
    ...turns.map(({ carries: _, ...turn }) => ({ slice, ...turn })),
  ])

export const rateOf = (places: readonly Place[]): number =>
  places.reduce(
    (sum, { replica, turns = [] }) =>
      sum + Math.max(replica?.rateRps ?? 0, ...turns.map(({ rateRps }) => rateRps)),
    0,
  )

export const sameReplica = (a: Replica, b: Replica | undefined): boolean =>
  a.model === b?.model && Math.abs(a.rateRps - b.rateRps) <= 1e-9 * a.rateRps

/**
 * The places of one in the order of another's that is cut alike: the same replica where there is
 * one, else any of the slice.
 */
export function alignedTo(goal: readonly Place[], places: readonly Place[]): Place[] {
  const left = [...places]
  const take = (fits: (place: Place) => boolean): Place | undefined => {
    const at = left.findIndex(fits)
    return at < 0 ? undefined : left.splice(at, 1)[0]
  }
  const same = goal.map(({ slice, replica }) =>
    take(
      (place) =>
        place.slice === slice && place.replica !== undefined && sameReplica(place.replica, replica),
    ),
  )
  return goal.map(({ slice }, i) => same[i] ?? take((place) => place.slice === slice)!)
}

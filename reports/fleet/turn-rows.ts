/**
 * What turns by the hours add to the programme of counts: steps of the day in which slices must
 * have room, and who is there then.
 */
import { grouped } from '../../trials/grouped.ts'
import { stepsOfDay } from './over-day.ts'
import { type Counted, routedAt, type Segment, type Wanted } from './packing.ts'
import type { Programme } from './programme.ts'
import { enough, poolOf, type Rules } from './rules.ts'
import type { Coming } from './slot-stays.ts'

/**
 * Steps of the day after which no other asks for more: of those in which every model has reached no
 * higher level than in one of these nothing needs to be said.
 */
export function momentsOf(wanted: readonly Wanted[]): number[] {
  const days = wanted.flatMap(({ overDay }) => (overDay ? [overDay.levelAt] : []))
  if (days.length === 0) return [0]
  const steps = Array.from({ length: stepsOfDay }, (_, step) => step)
  const atMost = (a: number, b: number) => days.every((levelAt) => levelAt[a]! <= levelAt[b]!)
  return steps.filter((step) =>
    steps.every(
      (other) => other === step || !atMost(step, other) || (atMost(other, step) && step < other),
    ),
  )
}

interface AtLevel {
  readonly name: string
  readonly of: Wanted
  readonly level?: number
}

/**
 * Replicas of which there is one number, or of a model that takes turns one for each level of its
 * day; a replica on several GPUs stays.
 */
export const atLevels = <T extends AtLevel & { readonly segment: Segment }>(one: T): T[] =>
  one.of.overDay === undefined || one.segment.gpus > 1
    ? [one]
    : one.of.overDay.levels.map((_, i) => ({ ...one, name: `${one.name}_${i + 1}`, level: i + 1 }))

/** Whether it counts at that level of its model's day. */
export const isThereAt = ({ level: own }: Pick<AtLevel, 'level'>, level: number): boolean =>
  own === undefined || own === level

/** Of what was counted, whether it is there at every step of the day. */
export const isAlwaysThere =
  (wanted: readonly Wanted[]) =>
  ({ model, from }: Counted): boolean =>
    from === undefined ||
    wanted.find((of) => of.model === model)!.overDay!.levelAt.every((level) => level >= from)

/** The others, one by one. */
export const comingsOf = (wanted: readonly Wanted[], replicas: readonly Counted[]): Coming[] =>
  replicas
    .filter((one) => !isAlwaysThere(wanted)(one))
    .flatMap(({ model, segment, count, from }) => {
      const { levelAt } = wanted.find((of) => of.model === model)!.overDay!
      return Array.from(
        { length: count },
        (): Coming => ({ model, segment, present: levelAt.map((level) => level >= from!) }),
      )
    })

/** Whether what is in memory of a model then is what is counted for that level. */
export const presentAt = ({ of: { overDay }, level }: AtLevel, step: number): boolean =>
  overDay === undefined || level === undefined || overDay.levelAt[step] === level

/** Of the day, the part in which it is. */
export const timeOf = (replica: AtLevel): number =>
  Array.from({ length: stepsOfDay }, (_, step) => presentAt(replica, step)).filter(Boolean).length /
  stepsOfDay

/**
 * At a higher level there are no fewer of any segment. @param own of one model, level by level of
 * each segment
 */
export const moreRows = (own: readonly AtLevel[]): Programme['rows'][number][] =>
  own.flatMap(({ name, level }, i): Programme['rows'][number][] =>
    level === undefined || level === 1
      ? []
      : [
          [
            [
              [1, name],
              [-1, own[i - 1]!.name],
            ] as const,
            '>= 0',
          ],
        ],
  )

/**
 * Replicas come into memory no earlier than the level that wants them: the solver has no reason to
 * keep one out that nobody else wants the room of.
 * @param spared models of which any replica may be lost
 */
export function trimmed(
  replicas: readonly Counted[],
  wanted: readonly Wanted[],
  spared: Rules['spared'] = new Set(),
): Counted[] {
  return [...wanted].reduce<Counted[]>(
    (all, { model, demandRps, overDay }) => {
      if (overDay === undefined) return all
      const own = all.filter((one) => one.model === model)
      const others = all.filter((one) => one.model !== model)
      // What is routed to one pool, no other carries.
      const pools = own.some(({ segment }) => segment.routed)
        ? [...grouped(own, ({ segment }) => poolOf(segment)).values()]
        : [own]
      const fewer = pools.flatMap((pool) => {
        const of = pool.find(({ segment }) => segment.routed)?.segment
        const shareAt = (level: number) => (of ? routedAt(of, level).share : 1)
        return overDay.levels.reduce(
          (kept, level, i) =>
            withFewerFrom(
              i + 1,
              kept,
              level * demandRps * shareAt(i + 1),
              i + 1 < overDay.levels.length,
              spared.has(model),
            ),
          pool,
        )
      })
      return [...others, ...fewer]
    },
    [...replicas],
  )
}

/** @param more there are levels above, from which on what is not needed here is in memory @param spared one of them may be lost */
function withFewerFrom(
  from: number,
  own: Counted[],
  askedRps: number,
  more: boolean,
  spared: boolean,
): Counted[] {
  const counts = own.map(({ count }) => count)
  const rates = own.map(({ segment }) => routedAt(segment, from).rateRps)
  const carriedWithout = (without: number) => {
    const there = own.map(({ from: since = 0 }, i) =>
      since <= from ? counts[i]! - Number(i === without) : 0,
    )
    const lost = spared ? Math.max(0, ...rates.filter((_, i) => there[i]! > 0)) : 0
    return there.reduce((sum, count, i) => sum + count * rates[i]!, 0) - lost
  }
  for (const [i, { segment, from: since }] of own.entries()) {
    if (since !== from) continue
    while (counts[i]! > 0 && carriedWithout(i) >= askedRps * enough) {
      counts[i]!--
      const later = more
        ? own.findIndex((one) => one.segment === segment && one.from === from + 1)
        : -1
      if (later >= 0) counts[later]!++
    }
  }
  return own.map((one, i) => ({ ...one, count: counts[i]! }))
}

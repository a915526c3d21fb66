/** What turns by the hours add to the programme of counts: steps of the day in which slices must have room, and who is there then. */
import { grouped } from '../../trials/grouped.ts'
import type { Counted, Wanted } from './assignment.ts'
import { stepsOfDay } from './over-day.ts'
import { routedAt } from './packing.ts'
import type { Programme } from './programme.ts'
import { enough, poolOf } from './rules.ts'

/** Steps of the day after which no other asks for more: of those in which every model has reached no higher level than in one of these nothing needs to be said. */
export function momentsOf(wanted: readonly Wanted[]): number[] {
  const days = wanted.flatMap(({ overDay }) => (overDay ? [overDay.levelAt] : []))
  if (days.length === 0) return [0]
  const steps = Array.from({ length: stepsOfDay }, (_, step) => step)
  const atMost = (a: number, b: number) => days.every((levelAt) => levelAt[a]! <= levelAt[b]!)
  return steps.filter((step) => steps.every((other) => other === step || !atMost(step, other) || (atMost(other, step) && step < other)))
}

interface AtLevel {
  readonly name: string
  readonly of: Wanted
  readonly level?: number
}

/** Whether what is in memory of a model then is what is counted for that level. */
export const presentAt = ({ of: { overDay }, level }: AtLevel, step: number): boolean =>
  overDay === undefined || level === undefined || overDay.levelAt[step] === level

/** Of the day, the part in which it is. */
export const timeOf = (replica: AtLevel): number =>
  Array.from({ length: stepsOfDay }, (_, step) => presentAt(replica, step)).filter(Boolean).length / stepsOfDay

/** At a higher level there are no fewer of any segment. @param own of one model, level by level of each segment */
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

/** Replicas come into memory no earlier than the level that wants them: the solver has no reason to keep one out that nobody else wants the room of. */
export function trimmed(replicas: readonly Counted[], wanted: readonly Wanted[]): Counted[] {
  return [...wanted].reduce<Counted[]>(
    (all, { model, demandRps, overDay }) => {
      if (overDay === undefined) return all
      const own = all.filter((one) => one.model === model)
      const others = all.filter((one) => one.model !== model)
      // What is routed to one pool, no other carries.
      const pools = own.some(({ segment }) => segment.routed) ? [...grouped(own, ({ segment }) => poolOf(segment)).values()] : [own]
      const fewer = pools.flatMap((pool) => {
        const of = pool.find(({ segment }) => segment.routed)?.segment
        const shareAt = (level: number) => (of ? routedAt(of, level).share : 1)
        return overDay.levels.reduce(
          (kept, level, i) => withFewerFrom(i + 1, kept, level * demandRps * shareAt(i + 1), i + 1 < overDay.levels.length),
          pool,
        )
      })
      return [...others, ...fewer]
    },
    [...replicas],
  )
}

/** @param more there are levels above, from which on what is not needed here is in memory */
function withFewerFrom(from: number, own: Counted[], askedRps: number, more: boolean): Counted[] {
  const counts = own.map(({ count }) => count)
  const carried = () =>
    own.reduce((sum, { segment, from: since = 0 }, i) => sum + (since <= from ? counts[i]! * routedAt(segment, from).rateRps : 0), 0)
  for (const [i, { segment, from: since }] of own.entries()) {
    if (since !== from) continue
    while (counts[i]! > 0 && carried() - routedAt(segment, from).rateRps >= askedRps * enough) {
      counts[i]!--
      const later = more ? own.findIndex((one) => one.segment === segment && one.from === from + 1) : -1
      if (later >= 0) counts[later]!++
    }
  }
  return own.map((one, i) => ({ ...one, count: counts[i]! }))
}

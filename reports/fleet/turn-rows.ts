/** What turns by the hours add to the programme of counts: steps of the day in which slices must have room, and who is there then. */
import type { Counted, Wanted } from './assignment.ts'
import { stepsOfDay } from './over-day.ts'
import { enough } from './rules.ts'

/** Steps of the day after which no other asks for more: of those in which every model has reached no higher level than in one of these nothing needs to be said. */
export function momentsOf(wanted: readonly Wanted[]): number[] {
  const days = wanted.flatMap(({ overDay }) => (overDay ? [overDay.levelAt] : []))
  if (days.length === 0) return [0]
  const steps = Array.from({ length: stepsOfDay }, (_, step) => step)
  const atMost = (a: number, b: number) => days.every((levelAt) => levelAt[a]! <= levelAt[b]!)
  return steps.filter((step) => steps.every((other) => other === step || !atMost(step, other) || (atMost(other, step) && step < other)))
}

/** Whether a replica from that level on is in memory then. */
export const presentAt = ({ of: { overDay }, from }: { readonly of: Wanted; readonly from?: number }, step: number): boolean =>
  overDay === undefined || from === undefined || overDay.levelAt[step]! >= from

/** Times of the day at which one is loaded. */
export const loadsOf = ({ of: { overDay }, from }: { readonly of: Wanted; readonly from?: number }): number =>
  overDay === undefined || from === undefined
    ? 0
    : overDay.levelAt.filter((level, step) => level >= from && overDay.levelAt.at(step - 1)! < from).length

/** Replicas come into memory no earlier than the level that wants them: the solver has no reason to keep one out that nobody else wants the room of. */
export function trimmed(replicas: readonly Counted[], wanted: readonly Wanted[]): Counted[] {
  return [...wanted].reduce<Counted[]>(
    (all, { model, demandRps, overDay }) => {
      if (overDay === undefined) return all
      let own = all.filter((one) => one.model === model)
      const others = all.filter((one) => one.model !== model)
      for (const [i, level] of overDay.levels.entries()) own = withFewerFrom(i + 1, own, level * demandRps, i + 1 < overDay.levels.length)
      return [...others, ...own]
    },
    [...replicas],
  )
}

/** @param more there are levels above, from which on what is not needed here is in memory */
function withFewerFrom(from: number, own: readonly Counted[], askedRps: number, more: boolean): Counted[] {
  const counts = own.map(({ count }) => count)
  const carried = () => own.reduce((sum, { segment, from: since = 0 }, i) => sum + (since <= from ? counts[i]! * segment.rateRps : 0), 0)
  for (const [i, { segment, from: since }] of own.entries()) {
    if (since !== from) continue
    while (counts[i]! > 0 && carried() - segment.rateRps >= askedRps * enough) {
      counts[i]!--
      const later = more ? own.findIndex((one) => one.segment === segment && one.from === from + 1) : -1
      if (later >= 0) counts[later]!++
    }
  }
  return own.map((one, i) => ({ ...one, count: counts[i]! }))
}

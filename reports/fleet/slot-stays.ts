/**
 * Who is in memory on which slice when: replicas that come and go over the day, put on slices that
 * are alike.
 */
import { stepsOfDay } from './over-day.ts'
import type { PackedGpu, Segment, Stay } from './packing.ts'

/** A replica that is not always there. */
export interface Coming {
  readonly model: string
  readonly segment: Segment
  /** Of each step of the day. */
  readonly present: readonly boolean[]
}

/**
 * Times on slices that are alike are intervals: there are as many at once as slices are needed, and
 * whoever comes finds one free. Only over midnight the day may close in another order than it
 * began: a replica then stays where it is, and is drawn on two.
 * @param gpus as far as they are filled
 * @returns undefined where more are there at once than there are slices
 */
export function withStays(
  gpus: readonly PackedGpu[],
  comings: readonly Coming[],
): PackedGpu[] | undefined {
  const packed = gpus.map(({ kind, slots }) => ({ kind, slots: [...slots] }))
  for (const { gpu, slice } of new Map(
    comings.map(({ segment: of }) => [`${of.gpu}\n${of.slice}`, of]),
  ).values()) {
    const own = comings.filter(({ segment }) => segment.gpu === gpu && segment.slice === slice)
    const free = packed.flatMap(({ kind, slots }, g) =>
      kind === gpu
        ? slots.flatMap((slot, s) => (slot.slice === slice && isFree(slot) ? [{ g, s }] : []))
        : [],
    )
    const stays = staysOn(free.length, own)
    if (stays === undefined) return undefined
    for (const [i, { g, s }] of free.entries())
      if (stays[i]!.length > 0) packed[g]!.slots[s] = { slice, stays: stays[i]! }
  }
  return packed
}

const isFree = ({ model, stays, waiting }: PackedGpu['slots'][number]): boolean =>
  model === undefined && stays === undefined && waiting === undefined

/** A part of a stay that the first hour cuts in two, and the other part. */
interface Part extends Stay {
  readonly rest?: Pick<Stay, 'from' | 'to'>
}

function staysOn(slices: number, comings: readonly Coming[]): Stay[][] | undefined {
  const intervals = comings.flatMap(intervalsOf)
  const thereAt = Array.from(
    { length: stepsOfDay },
    (_, step) => intervals.filter((one) => isThere(one, step)).length,
  )
  const first = thereAt.indexOf(Math.min(...thereAt))
  // From the hour with fewest on: those that are there then are cut in two, the second part last.
  const parts = intervals
    .flatMap((one) => partsFrom(one, first))
    .sort((a, b) => a.from - b.from || b.to - a.to)
  const on: Part[][] = Array.from({ length: slices }, () => [])
  for (const one of parts) {
    const open = on.filter((own) => (own.at(-1)?.to ?? first) <= one.from)
    // Who was there at first comes back to where it was, and others leave that free for it.
    const own = open.find(
      ([head]) => head?.rest?.from === one.from && one.rest !== undefined && isSame(head, one),
    )
    const best =
      own ??
      open
        .filter(([head]) => (head?.rest?.from ?? Number.POSITIVE_INFINITY) >= one.to)
        .sort(byUse)[0] ??
      open.sort(byUse)[0]
    if (best === undefined) return undefined
    best.push(one)
  }
  return on.map((own) => joined(own, first))
}

/** Those that ended last first, so that one slice is used over and over and others stay free. */
const byUse = (a: readonly Stay[], b: readonly Stay[]): number =>
  (b.at(-1)?.to ?? -1) - (a.at(-1)?.to ?? -1)

const isSame = (a: Stay, b: Stay): boolean => a.model === b.model && a.segment === b.segment

const isThere = ({ from, to }: Stay, step: number): boolean =>
  (step >= from && step < to) || step + stepsOfDay < to

/** Times of the day in which it is there, one over midnight not cut. */
function intervalsOf({ model, segment, present }: Coming): Stay[] {
  const begins = present.flatMap((there, step) => (there && !present.at(step - 1) ? [step] : []))
  return begins.map((from) => {
    let to = from + 1
    while (present[to % stepsOfDay] && to < from + stepsOfDay) to++
    return { model, segment, from, to }
  })
}

/** Times from the first step on. */
function partsFrom({ from, to, ...who }: Stay, first: number): Part[] {
  const begin = from < first ? from + stepsOfDay : from
  const end = begin + (to - from)
  const close = first + stepsOfDay
  if (end <= close) return [{ ...who, from: begin, to: end }]
  const [before, after] = [
    { from: begin, to: close },
    { from: first, to: first + end - close },
  ]
  return [
    { ...who, ...before, rest: after },
    { ...who, ...after, rest: before },
  ]
}

/** As times of the day again, what was cut whole where both parts are here. */
function joined(own: readonly Part[], first: number): Stay[] {
  const [head, last] = [own[0], own.at(-1)]
  const closes =
    own.length > 1 &&
    head!.rest !== undefined &&
    last!.to === first + stepsOfDay &&
    head!.rest.from === last!.from &&
    isSame(head!, last!)
  const whole = closes ? [...own.slice(1, -1), { ...last!, to: last!.to + head!.to - first }] : own
  return whole
    .map(({ rest: _, ...stay }) =>
      stay.from >= stepsOfDay
        ? { ...stay, from: stay.from - stepsOfDay, to: stay.to - stepsOfDay }
        : stay,
    )
    .sort((a, b) => a.from - b.from)
}

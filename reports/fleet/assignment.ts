/**
 * Models on single GPUs, for what a count of slices cannot say: which of them fall together.
 *
 * An integer programme over a(j, slice, m), the slots that model m has on GPU j, and p(j, cut), how
 * that GPU is cut. With t(m) what all of m carry as a share of its demand: t(m) ≥ 1, and where the
 * loss of any GPU is to be borne t(m) - Σ_slice share·a(j, slice, m) ≥ 1 for every j. Models that
 * take turns have a and t for each level of their day, on no GPU less at a higher one, for what is
 * in memory stays where it is; slots have room in each step of the day. GPUs that are alike make it
 * far harder than the programme of counts (`pack.ts`), so that one chooses the GPUs, and this one
 * is asked whether models find places on them, or on them and a few more.
 */
import type { Partition } from '../../trials/devices/mig-placements.ts'
import type { Counted, GpuKind, PackedGpu, Segment, Wanted } from './packing.ts'
import { idleReplica, type Programme, solve, type Term } from './programme.ts'
import { keepsAll, type Rules } from './rules.ts'
import { withStays } from './slot-stays.ts'
import {
  atLevels,
  comingsOf,
  isAlwaysThere,
  isThereAt,
  momentsOf,
  moreRows,
  presentAt,
  timeOf,
} from './turn-rows.ts'

/** A GPU that is there, or may be. */
export interface Place {
  readonly kind: GpuKind
  /** Ways in which it may be cut. */
  readonly partitions: readonly Partition[]
}

interface Assigned {
  /** Absent: the time was up before any were found. */
  readonly gpus?: readonly PackedGpu[]
  readonly pricePerHour: number
  /** No assignment to these places costs less. */
  readonly boundPerHour: number
}

/** @param below what it must cost less than; `infeasible` says that nothing does */
export async function assign(
  places: readonly Place[],
  wanted: readonly Wanted[],
  rules: Rules,
  seconds: number,
  below = Number.POSITIVE_INFINITY,
): Promise<Assigned | 'infeasible'> {
  const cuts = places.flatMap(({ kind, partitions }, j) =>
    partitions.map((partition, c) => ({ name: `p${j}_${c}`, j, kind, partition })),
  )
  const slots = places.flatMap(({ kind, partitions }, j) =>
    wanted.flatMap((of, m) =>
      of.best.flatMap((segment, s): PlaceSlots[] =>
        segment.gpu === kind.name &&
        partitions.some((partition) => partition.includes(segment.slice))
          ? atLevels<PlaceSlots>({
              name: `a${j}_${m}_${s}`,
              j,
              m,
              s,
              of,
              segment,
              share: segment.rateRps / of.demandRps,
            })
          : [],
      ),
    ),
  )
  const solved = await solve(programmeOf(places, cuts, slots, wanted, rules, below), seconds)
  if (solved === 'infeasible') return solved
  const counts = solved.values.map(Math.round)
  const [chosen, taken] = [counts.slice(0, cuts.length), counts.slice(cuts.length)]
  const gpus = places.flatMap(({ kind }, j): PackedGpu[] => {
    const cut = cuts.find((one, i) => one.j === j && chosen[i] === 1)
    if (cut === undefined) return []
    const there = slots.flatMap(({ j: on, of: { model }, segment, level }, i): Counted[] => {
      const before = level !== undefined && level > 1 ? (taken[i - 1] ?? 0) : 0
      const count = Math.max(0, (taken[i] ?? 0) - before)
      return on === j
        ? [{ model, segment, count, ...(level !== undefined && { from: level }) }]
        : []
    })
    const left = there
      .filter(isAlwaysThere(wanted))
      .flatMap((one) => Array.from({ length: one.count }, () => one))
    const filled = cut.partition.map((slice) => {
      const at = left.findIndex(({ segment }) => segment.slice === slice)
      const [slot] = at < 0 ? [] : left.splice(at, 1)
      return { slice, ...(slot && { model: slot.model, segment: slot.segment }) }
    })
    return withStays([{ kind: kind.name, slots: filled }], comingsOf(wanted, there)) ?? []
  })
  const pricePerHour = cuts.reduce(
    (sum, { kind }, i) => sum + (chosen[i] === 1 ? kind.pricePerHour : 0),
    0,
  )
  return {
    ...(keepsAll(gpus, wanted, rules) && { gpus }),
    pricePerHour,
    boundPerHour: solved.bound,
  }
}

interface Cut {
  readonly name: string
  readonly j: number
  readonly kind: GpuKind
  readonly partition: Partition
}
interface PlaceSlots {
  readonly name: string
  readonly j: number
  readonly m: number
  readonly s: number
  readonly of: Wanted
  readonly segment: Segment
  readonly level?: number
  /** Of its model's demand, what one carries. */
  readonly share: number
}

function programmeOf(
  places: readonly Place[],
  cuts: readonly Cut[],
  slots: readonly PlaceSlots[],
  wanted: readonly Wanted[],
  { spared, apart }: Rules,
  below: number,
): Programme {
  const price = cuts.map(({ name, kind }): Term => [kind.pricePerHour, name])
  const least = Math.min(...places.map(({ kind }) => kind.pricePerHour))
  const joined = groupsOnPlaces(places, slots, apart)
  const replicas = wholeReplicas(wanted, slots)
  const moments = momentsOf(wanted)
  const rows: Programme['rows'][number][] = [
    ...places.flatMap((_, j) => placeRows(j, cuts, slots, moments)),
    ...inOrder(places, cuts),
    ...wanted.flatMap((of, m) => servedRows(of, m, places.length, slots, spared.has(of.model))),
    ...replicas.rows,
    ...joined.rows,
    ...(Number.isFinite(below) ? [[price, `<= ${below - 1e-6 * least}`] as const] : []),
  ]
  const cost = [
    ...price,
    ...slots.map((slot): Term => [idleReplica * least * timeOf(slot), slot.name]),
  ]
  return {
    cost,
    rows,
    integers: [...slots.map(({ name }) => name), ...replicas.names],
    binaries: [...cuts.map(({ name }) => name), ...joined.names],
  }
}

type Row = Programme['rows'][number]

/** A GPU is cut in one way at most, and has at no time more slots of a slice than that gives. */
function placeRows(
  j: number,
  cuts: readonly Cut[],
  slots: readonly PlaceSlots[],
  moments: readonly number[],
): Row[] {
  const own = cuts.filter((cut) => cut.j === j)
  const slices = [...new Set(own.flatMap(({ partition }) => partition))]
  return [
    [own.map(({ name }): Term => [1, name]), '<= 1'],
    ...slices.flatMap((slice): Row[] => {
      const used = slots.filter((slot) => slot.j === j && slot.segment.slice === slice)
      const given = own.flatMap(({ name, partition }): Term[] => {
        const count = partition.filter((each) => each === slice).length
        return count > 0 ? [[-count, name]] : []
      })
      const at = (step: number) =>
        used.filter((slot) => presentAt(slot, step)).map(({ name }): Term => [1, name])
      return used.length === 0 ? [] : moments.map((step): Row => [[...at(step), ...given], '<= 0'])
    }),
  ]
}

/**
 * Of GPUs between which there is no difference, those that come first are taken first: the solver
 * need not try their orders.
 */
function inOrder(places: readonly Place[], cuts: readonly Cut[]): Row[] {
  const taken = (j: number, sign: 1 | -1) =>
    cuts.filter((cut) => cut.j === j).map(({ name }): Term => [sign, name])
  return places.flatMap(({ kind, partitions }, j): Row[] => {
    const before = places[j - 1]
    return before?.kind === kind && before.partitions === partitions
      ? [[[...taken(j - 1, 1), ...taken(j, -1)], '>= 0']]
      : []
  })
}

/** What a model carries at each level of its day, and what it does with each of the GPUs lost. */
function servedRows(
  { overDay }: Wanted,
  m: number,
  places: number,
  slots: readonly PlaceSlots[],
  spared: boolean,
): Row[] {
  const own = slots.filter((slot) => slot.m === m)
  const each = (overDay?.levels ?? [1]).flatMap((level, i): Row[] => {
    const there = own.filter((slot) => isThereAt(slot, i + 1))
    const carried = `t${m}_${i}`
    const all: Row = [
      [
        ...there.map(({ name, share, segment }): Term => [share / segment.gpus, name]),
        [-1, carried],
      ],
      '= 0',
    ]
    const losses = Array.from({ length: spared ? places : 0 }, (_, j): Row => {
      const lost = there
        .filter((slot) => slot.j === j)
        .map(({ name, share }): Term => [-share, name])
      return [[[1, carried], ...lost], `>= ${level}`]
    })
    return [all, [[[1, carried]], `>= ${level}`], ...losses]
  })
  return [...each, ...moreRows(own)]
}

/** A replica on several GPUs has all of its slots or none. */
function wholeReplicas(
  wanted: readonly Wanted[],
  slots: readonly PlaceSlots[],
): { readonly names: string[]; readonly rows: Row[] } {
  const split = wanted.flatMap(({ best }, m) =>
    best.flatMap((segment, s) => (segment.gpus > 1 ? [{ m, s, gpus: segment.gpus }] : [])),
  )
  return {
    names: split.map(({ m, s }) => `n${m}_${s}`),
    rows: split.map(({ m, s, gpus }): Row => {
      const own = slots
        .filter((slot) => slot.m === m && slot.s === s)
        .map(({ name }): Term => [1, name])
      return [[...own, [-gpus, `n${m}_${s}`]], '= 0']
    }),
  }
}

/** Of a group that stays apart, one model at most is on a GPU. */
function groupsOnPlaces(
  places: readonly Place[],
  slots: readonly PlaceSlots[],
  apart: Rules['apart'],
): { readonly names: string[]; readonly rows: Row[] } {
  const there = new Set<string>()
  const rows = places.flatMap(({ partitions }, j) => {
    const most = Math.max(...partitions.map((partition) => partition.length))
    return apart.flatMap((group): Row[] => {
      // Whoever is there at some level is there at the highest.
      const own = slots.filter(
        (slot) =>
          slot.j === j &&
          group.includes(slot.of.model) &&
          isThereAt(slot, slot.of.overDay?.levels.length ?? 1),
      )
      const on = [...new Set(own.map(({ m }) => `o${j}_${m}`))]
      if (on.length < 2) return []
      for (const name of on) there.add(name)
      const each = on.map((name): Row => {
        const of = own.filter(({ m }) => `o${j}_${m}` === name).map((slot): Term => [1, slot.name])
        return [[...of, [-most, name]], '<= 0']
      })
      return [[on.map((name): Term => [1, name]), '<= 1'], ...each]
    })
  })
  return { names: [...there], rows }
}

/**
 * Models on single GPUs, for what a count of slices cannot say: which of them fall together.
 *
 * An integer programme over a(j, slice, m), the slots that model m has on GPU j, and p(j, cut), how that GPU is cut. With t(m) what all of m carry as a share of its demand:
 * t(m) ≥ 1, and where the loss of any GPU is to be borne t(m) - Σ_slice share·a(j, slice, m) ≥ 1 for every j. GPUs that are alike make it far harder than the programme of
 * counts (`pack.ts`), so that one chooses the GPUs, and this one is asked whether models find places on them, or on them and a few more.
 */
import type { Partition } from '../../trials/devices/mig-placements.ts'
import type { FleetModel, GpuKind, PackedGpu, Segment } from './packing.ts'
import { idleReplica, type Programme, solve, type Term } from './programme.ts'
import { keepsAll, type Rules } from './rules.ts'

/** A GPU that is there, or may be. */
export interface Place {
  readonly kind: GpuKind
  /** Ways in which it may be cut. */
  readonly partitions: readonly Partition[]
}

/** A model that asks for something, and the best that it has on each kind of slice. */
export interface Wanted {
  readonly model: string
  readonly demandRps: number
  readonly best: readonly Segment[]
  /** Kinds of its requests that may go to different segments, and what is known of mixtures. */
  readonly buckets?: FleetModel['buckets']
  readonly mixedRps?: FleetModel['mixedRps']
  /** On shares of GPUs under MPS. Models that bear the loss of a GPU, and those whose requests are routed by size, have slices or GPUs of their own. */
  readonly shared?: readonly Segment[]
  /** What of it is in memory when, and how it comes back, of one that takes turns. */
  readonly overDay?: FleetModel['overDay']
  readonly asked?: FleetModel['asked']
  readonly turning?: FleetModel['turning']
}

/** Replicas of a model on a kind of slice. */
export interface Counted {
  readonly model: string
  readonly segment: Segment
  readonly count: number
  /** Of a model that takes turns, the level of its day from which on they are in memory, the first is 1; absent: always. */
  readonly from?: number
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
  const cuts = places.flatMap(({ kind, partitions }, j) => partitions.map((partition, c) => ({ name: `p${j}_${c}`, j, kind, partition })))
  const slots = places.flatMap(({ kind, partitions }, j) =>
    wanted.flatMap(({ model, demandRps, best }, m) =>
      best.flatMap((segment, s) =>
        segment.gpu === kind.name && partitions.some((partition) => partition.includes(segment.slice))
          ? [{ name: `a${j}_${m}_${s}`, j, m, s, model, segment, share: segment.rateRps / demandRps }]
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
    const left = slots.flatMap((slot, i) => (slot.j === j ? Array.from({ length: Math.max(0, taken[i] ?? 0) }, () => slot) : []))
    const filled = cut.partition.map((slice) => {
      const at = left.findIndex(({ segment }) => segment.slice === slice)
      const [slot] = at < 0 ? [] : left.splice(at, 1)
      return { slice, ...(slot && { model: slot.model, segment: slot.segment }) }
    })
    return [{ kind: kind.name, slots: filled }]
  })
  const pricePerHour = cuts.reduce((sum, { kind }, i) => sum + (chosen[i] === 1 ? kind.pricePerHour : 0), 0)
  return { ...(keepsAll(gpus, wanted, rules) && { gpus }), pricePerHour, boundPerHour: solved.bound }
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
  readonly model: string
  readonly segment: Segment
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
  const rows: Programme['rows'][number][] = [
    ...places.flatMap((_, j) => placeRows(j, cuts, slots)),
    ...inOrder(places, cuts),
    ...wanted.flatMap(({ model }, m) => servedRows(m, places.length, slots, spared.has(model))),
    ...replicas.rows,
    ...joined.rows,
    ...(Number.isFinite(below) ? [[price, `<= ${below - 1e-6 * least}`] as const] : []),
  ]
  const cost = [...price, ...slots.map(({ name }): Term => [idleReplica * least, name])]
  return {
    cost,
    rows,
    integers: [...slots.map(({ name }) => name), ...replicas.names],
    binaries: [...cuts.map(({ name }) => name), ...joined.names],
  }
}

type Row = Programme['rows'][number]

/** A GPU is cut in one way at most, and has no more slots of a slice than that gives. */
function placeRows(j: number, cuts: readonly Cut[], slots: readonly PlaceSlots[]): Row[] {
  const own = cuts.filter((cut) => cut.j === j)
  const slices = [...new Set(own.flatMap(({ partition }) => partition))]
  return [
    [own.map(({ name }): Term => [1, name]), '<= 1'],
    ...slices.flatMap((slice): Row[] => {
      const used = slots.filter((slot) => slot.j === j && slot.segment.slice === slice).map(({ name }): Term => [1, name])
      const given = own.flatMap(({ name, partition }): Term[] => {
        const count = partition.filter((each) => each === slice).length
        return count > 0 ? [[-count, name]] : []
      })
      return used.length === 0 ? [] : [[[...used, ...given], '<= 0']]
    }),
  ]
}

/** Of GPUs between which there is no difference, those that come first are taken first: the solver need not try their orders. */
function inOrder(places: readonly Place[], cuts: readonly Cut[]): Row[] {
  const taken = (j: number, sign: 1 | -1) => cuts.filter((cut) => cut.j === j).map(({ name }): Term => [sign, name])
  return places.flatMap(({ kind, partitions }, j): Row[] => {
    const before = places[j - 1]
    return before?.kind === kind && before.partitions === partitions ? [[[...taken(j - 1, 1), ...taken(j, -1)], '>= 0']] : []
  })
}

/** What a model carries, and what it does with each of the GPUs lost. */
function servedRows(m: number, places: number, slots: readonly PlaceSlots[], spared: boolean): Row[] {
  const own = slots.filter((slot) => slot.m === m)
  const all: Row = [[...own.map(({ name, share, segment }): Term => [share / segment.gpus, name]), [-1, `t${m}`]], '= 0']
  const losses = Array.from({ length: spared ? places : 0 }, (_, j): Row => {
    const lost = own.filter((slot) => slot.j === j).map(({ name, share }): Term => [-share, name])
    return [[[1, `t${m}`], ...lost], '>= 1']
  })
  return [all, [[[1, `t${m}`]], '>= 1'], ...losses]
}

/** A replica on several GPUs has all of its slots or none. */
function wholeReplicas(wanted: readonly Wanted[], slots: readonly PlaceSlots[]): { readonly names: string[]; readonly rows: Row[] } {
  const split = wanted.flatMap(({ best }, m) => best.flatMap((segment, s) => (segment.gpus > 1 ? [{ m, s, gpus: segment.gpus }] : [])))
  return {
    names: split.map(({ m, s }) => `n${m}_${s}`),
    rows: split.map(({ m, s, gpus }): Row => {
      const own = slots.filter((slot) => slot.m === m && slot.s === s).map(({ name }): Term => [1, name])
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
      const own = slots.filter((slot) => slot.j === j && group.includes(slot.model))
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

/**
 * Models on single GPUs, for constraints on which models fall together (`spare:`, `apart:`).
 *
 * An integer programme over a(j, slice, m), the slots that model m has on GPU j, and p(j, cut), how
 * that GPU is cut. With t(m) what all replicas of m carry as a share of its demand: t(m) ≥ 1, and
 * with redundancy t(m) - Σ_slice share·a(j, slice, m) ≥ 1 for every j. GPUs that are alike make it
 * far harder than the programme of counts. So counts choose the GPUs, and this programme looks for
 * places on them, or on them and a few more (`pack.ts`).
 */
import type { Partition } from '../../trials/devices/mig-placements.ts'
import { type Constraints, isFeasible } from './constraints.ts'
import { type Programme, replicaCostShare, solve, type Term } from './integer-programme.ts'
import type { DemandedModel, GpuKind, PackedGpu, Segment } from './packing.ts'

/** A GPU that the fleet has or may get. */
export interface CandidateGpu {
  readonly kind: GpuKind
  /** Ways in which it may be cut. */
  readonly partitions: readonly Partition[]
}

interface Assignment {
  /** Absent: the time ended before any were found. */
  readonly gpus?: readonly PackedGpu[]
  readonly pricePerHour: number
  /** No assignment to these GPUs costs less. */
  readonly boundPerHour: number
}

interface Cut {
  readonly name: string
  readonly j: number
  readonly kind: GpuKind
  readonly partition: Partition
}
interface SlotVariable {
  readonly name: string
  readonly j: number
  readonly m: number
  readonly s: number
  readonly model: string
  readonly segment: Segment
  /** Part of its model's demand that one slot carries. */
  readonly share: number
}
type Row = Programme['rows'][number]

/** @param maxPricePerHour `infeasible` says that nothing costs less than that */
export async function assignModels(
  candidates: readonly CandidateGpu[],
  demanded: readonly DemandedModel[],
  constraints: Constraints,
  maxSeconds: number,
  maxPricePerHour = Number.POSITIVE_INFINITY,
): Promise<Assignment | 'infeasible'> {
  const cuts = candidates.flatMap(({ kind, partitions }, j) =>
    partitions.map((partition, c): Cut => ({ name: `p${j}_${c}`, j, kind, partition })),
  )
  const slots = candidates.flatMap(({ kind, partitions }, j) =>
    demanded.flatMap(({ model, demandRps, best }, m) =>
      best.flatMap((segment, s): SlotVariable[] =>
        segment.gpu === kind.name &&
        partitions.some((partition) => partition.includes(segment.slice))
          ? [
              {
                name: `a${j}_${m}_${s}`,
                j,
                m,
                s,
                model,
                segment,
                share: segment.rateRps / demandRps,
              },
            ]
          : [],
      ),
    ),
  )
  const programme = buildProgramme(candidates, cuts, slots, demanded, constraints, maxPricePerHour)
  const solved = await solve(programme, maxSeconds)
  if (solved === 'infeasible') return solved
  const counts = solved.values.map(Math.round)
  const chosen = cuts.filter((_, i) => counts[i] === 1)
  const gpus = chosen.map(({ j, kind, partition }): PackedGpu => {
    const left = slots.flatMap((slot, i) =>
      slot.j === j ? Array.from({ length: counts[cuts.length + i] ?? 0 }, () => slot) : [],
    )
    const filled = partition.map((slice) => {
      const at = left.findIndex(({ segment }) => segment.slice === slice)
      const [slot] = at < 0 ? [] : left.splice(at, 1)
      return { slice, ...(slot && { model: slot.model, segment: slot.segment }) }
    })
    return { kind: kind.name, slots: filled }
  })
  return {
    ...(isFeasible(gpus, demanded, constraints) && { gpus }),
    pricePerHour: chosen.reduce((sum, { kind }) => sum + kind.pricePerHour, 0),
    boundPerHour: solved.minCost,
  }
}

function buildProgramme(
  candidates: readonly CandidateGpu[],
  cuts: readonly Cut[],
  slots: readonly SlotVariable[],
  demanded: readonly DemandedModel[],
  { redundant, apart }: Constraints,
  maxPricePerHour: number,
): Programme {
  const price = cuts.map(({ name, kind }): Term => [kind.pricePerHour, name])
  const minPrice = Math.min(...candidates.map(({ kind }) => kind.pricePerHour))
  const groups = keepGroupsApart(candidates, slots, apart)
  const replicas = keepReplicasWhole(demanded, slots)
  const rows: Row[] = [
    ...candidates.flatMap((_, j) => slotRows(j, cuts, slots)),
    ...symmetryRows(candidates, cuts),
    ...demanded.flatMap(({ model }, m) =>
      demandRows(m, candidates.length, slots, redundant.has(model)),
    ),
    ...replicas.rows,
    ...groups.rows,
    ...(Number.isFinite(maxPricePerHour)
      ? [[price, `<= ${maxPricePerHour - 1e-6 * minPrice}`] as const]
      : []),
  ]
  return {
    cost: [...price, ...slots.map(({ name }): Term => [replicaCostShare * minPrice, name])],
    rows,
    integers: [...slots.map(({ name }) => name), ...replicas.names],
    binaries: [...cuts.map(({ name }) => name), ...groups.names],
  }
}

/** A GPU is cut in one way at most, and its slots of a slice are no more than that has. */
function slotRows(j: number, cuts: readonly Cut[], slots: readonly SlotVariable[]): Row[] {
  const own = cuts.filter((cut) => cut.j === j)
  const slices = [...new Set(own.flatMap(({ partition }) => partition))]
  return [
    [own.map(({ name }): Term => [1, name]), '<= 1'],
    ...slices.flatMap((slice): Row[] => {
      const used = slots.filter((slot) => slot.j === j && slot.segment.slice === slice)
      const offered = own.flatMap(({ name, partition }): Term[] => {
        const count = partition.filter((each) => each === slice).length
        return count > 0 ? [[-count, name]] : []
      })
      return used.length === 0
        ? []
        : [[[...used.map(({ name }): Term => [1, name]), ...offered], '<= 0']]
    }),
  ]
}

/** Of GPUs that are alike the first are used first: the solver need not try their orders. */
function symmetryRows(candidates: readonly CandidateGpu[], cuts: readonly Cut[]): Row[] {
  const taken = (j: number, sign: 1 | -1) =>
    cuts.filter((cut) => cut.j === j).map(({ name }): Term => [sign, name])
  return candidates.flatMap(({ kind, partitions }, j): Row[] => {
    const before = candidates[j - 1]
    return before?.kind === kind && before.partitions === partitions
      ? [[[...taken(j - 1, 1), ...taken(j, -1)], '>= 0']]
      : []
  })
}

/** What a model carries, and with redundancy what it carries without each of the GPUs. */
function demandRows(
  m: number,
  gpus: number,
  slots: readonly SlotVariable[],
  isRedundant: boolean,
): Row[] {
  const own = slots.filter((slot) => slot.m === m)
  const carried = own.map(({ name, share, segment }): Term => [share / segment.gpus, name])
  const losses = Array.from({ length: isRedundant ? gpus : 0 }, (_, j): Row => {
    const lost = own.filter((slot) => slot.j === j)
    return [[[1, `t${m}`], ...lost.map(({ name, share }): Term => [-share, name])], '>= 1']
  })
  return [[[...carried, [-1, `t${m}`]], '= 0'], [[[1, `t${m}`]], '>= 1'], ...losses]
}

/** A replica on several GPUs has all of its slots or none. */
function keepReplicasWhole(
  demanded: readonly DemandedModel[],
  slots: readonly SlotVariable[],
): { readonly names: string[]; readonly rows: Row[] } {
  const split = demanded.flatMap(({ best }, m) =>
    best.flatMap((segment, s) => (segment.gpus > 1 ? [{ m, s, gpus: segment.gpus }] : [])),
  )
  return {
    names: split.map(({ m, s }) => `n${m}_${s}`),
    rows: split.map(({ m, s, gpus }): Row => {
      const own = slots.filter((slot) => slot.m === m && slot.s === s)
      return [[...own.map(({ name }): Term => [1, name]), [-gpus, `n${m}_${s}`]], '= 0']
    }),
  }
}

/** At most one model of a group is on a GPU. */
function keepGroupsApart(
  candidates: readonly CandidateGpu[],
  slots: readonly SlotVariable[],
  apart: Constraints['apart'],
): { readonly names: string[]; readonly rows: Row[] } {
  const names = new Set<string>()
  const rows = candidates.flatMap(({ partitions }, j) => {
    const maxSlots = Math.max(...partitions.map((partition) => partition.length))
    return apart.flatMap((group): Row[] => {
      const own = slots.filter((slot) => slot.j === j && group.includes(slot.model))
      const present = [...new Set(own.map(({ m }) => `o${j}_${m}`))]
      if (present.length < 2) return []
      for (const name of present) names.add(name)
      const each = present.map((name): Row => {
        const of = own.filter(({ m }) => `o${j}_${m}` === name)
        return [[...of.map((slot): Term => [1, slot.name]), [-maxSlots, name]], '<= 0']
      })
      return [[present.map((name): Term => [1, name]), '<= 1'], ...each]
    })
  })
  return { names: [...names], rows }
}

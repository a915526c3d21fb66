/**
 * Which GPUs, cut into which slices, serve several models at the least money.
 *
 * A slice serves one model, as fast whatever its neighbours do (MIG), so a model is as well on any
 * slice of a kind: an integer programme over how many GPUs are cut in which way, x, and how many
 * slices of each kind every model has, y, is exact:
 *
 *   minimise Σ price·x, Σ_m use·y(m, slice) ≤ Σ_p slices(p)·x(p) for each slice, Σ rate·y(m, slice)
 *   ≥ demand(m) for each model.
 *
 * The solver's bound says how far from the best what it found may be. Rules on what falls together
 * are not in it: for a model that bears the loss of a GPU at least a replica of each segment that
 * it uses is lost, w(m) ≥ rate·[y > 0] and Σ rate·y - w(m) ≥ demand(m), so that its bound holds,
 * and where models are put decides the rest (`assignment.ts`).
 *
 * Models that take turns have y for each level of their day, more of every segment at a higher one,
 * and slices have room for what is there in each step of the day. Whoever comes finds a slice free
 * where there are no more at once than slices, so that the counts are enough here too; with w at
 * each level where the loss of a GPU is borne. Sets of models that were played in turns on one
 * slice are columns.
 */
import type { Partition } from '../../trials/devices/mig-placements.ts'
import { assign, type Place } from './assignment.ts'
import { counted, tooFew, type Uncut } from './count-programme.ts'
import {
  bestPerSlice,
  type Counted,
  FleetError,
  type FleetModel,
  type GpuKind,
  type PackedGpu,
  type Packing,
  type Segment,
  type Wanted,
} from './packing.ts'
import { keepsAll, mayJoin, noRules, type Rules } from './rules.ts'
import { type Content, contentsOf } from './shared-gpus.ts'
import { type Coming, withStays } from './slot-stays.ts'
import { type TurnGroup, takesTurns, turnGroupsOf } from './turn-groups.ts'
import { comingsOf, isAlwaysThere } from './turn-rows.ts'

/**
 * @param demandRps of each model, in their order; one of 0 needs nothing
 * @param seconds after which the best that is known is taken
 * @param known a packing that keeps all of it, for where the time is up before one as cheap is
 * found
 * @throws FleetError where a model has no segment on these GPUs, or there are too few of them
 */
export async function pack(
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kinds: readonly GpuKind[],
  seconds = 60,
  rules = noRules,
  known?: Packing,
): Promise<Packing> {
  const wanted = models
    .flatMap((model, i): Wanted[] =>
      demandRps[i]! > 0
        ? [
            {
              model: model.name,
              demandRps: demandRps[i]!,
              best: bestPerSlice(model, kinds),
              buckets: model.buckets,
              mixedRps: model.mixedRps,
              shared: sharesOf(model, kinds, rules),
              overDay: model.overDay,
              asked: model.asked,
              turning: model.turning,
            },
          ]
        : [],
    )
    .map((of) => (takesTurns(of.model, of, rules) ? of : { ...of, overDay: undefined }))
  const ruled = rules.spared.size > 0 || rules.apart.length > 0
  const without = wanted.flatMap(unservedOf)
  if (without.length > 0)
    throw new FleetError(
      `nothing that is known of ${without.join(', ')} serves within its SLO on these GPUs`,
      `measure it there, loosen its SLO, or add GPUs${ofShares(models, kinds, without, ruled)}`,
    )
  const many = wanted.find(
    ({ demandRps: rps, best, shared = [] }) =>
      rps > mostReplicas * Math.max(...[...best, ...shared].map(mostOf)),
  )
  if (many)
    throw new FleetError(
      `${many.model} would take more than ${mostReplicas} replicas for ${Math.round(many.demandRps)} requests per second`,
      'check its demand:',
    )
  if (wanted.length === 0) return { gpus: [], pricePerHour: 0, boundPerHour: 0 }
  const orKnown = (found: Packing): Packing =>
    known !== undefined && known.pricePerHour < found.pricePerHour
      ? { ...known, boundPerHour: Math.min(known.pricePerHour, found.boundPerHour) }
      : found
  const contents = contentsOf(wanted, kinds, rules)
  const groups = turnGroupsOf(wanted, kinds, rules)
  const { gpus, shared, turns, replicas, bound } = await counted(
    wanted,
    kinds,
    ruled ? seconds / 2 : seconds,
    rules,
    {
      contents,
      groups,
      known,
    },
  )
  const apart = placedInTurns(
    placedOn(gpus, replicas.filter(isAlwaysThere(wanted)), rules),
    turns,
    comingsOf(wanted, replicas),
  )
  const placed = apart && [...apart, ...shared.map(packedShared)]
  const pricePerHour = priceOf([...gpus, ...shared])
  if (placed !== undefined && keepsAll(placed, wanted, rules))
    return orKnown({ gpus: placed, pricePerHour, boundPerHour: Math.min(pricePerHour, bound) })
  // By the rules a second programme places slices, and nothing that is shared.
  const within = (found: Packing): Packing => ({
    ...found,
    boundPerHour: Math.min(found.boundPerHour, bound),
  })
  if (shared.length > 0)
    return within(await pack(models, demandRps, kinds.map(unshared), seconds, rules, known))
  // Nor what is loaded as requests come.
  if (turns.length > 0)
    return within(await pack(models.map(scheduled), demandRps, kinds, seconds, rules, known))
  const turning = wanted.filter(({ overDay }) => overDay !== undefined)
  // Nor what is routed otherwise at other hours.
  const assigned =
    ruled && !turning.some(({ buckets }) => buckets)
      ? await placedByRules(gpus, asRouted(wanted, replicas), kinds, seconds, rules, bound)
      : undefined
  if (assigned === 'infeasible') throw tooFew(kinds, rules)
  if (assigned !== undefined) return orKnown(assigned)
  if (known !== undefined) return { ...known, boundPerHour: Math.min(known.pricePerHour, bound) }
  if (turning.length > 0)
    return within(await pack(models.map(unturned), demandRps, kinds, seconds, rules))
  throw new FleetError(
    `no packing was found within ${seconds} s`,
    'give it more time with --solver-time, or fewer models',
  )
}

/** Its rows on shares of GPUs, if it may have one. */
const sharesOf = (
  { name, buckets, segments }: FleetModel,
  kinds: readonly GpuKind[],
  { spared }: Rules,
): Segment[] =>
  buckets || spared.has(name)
    ? []
    : segments.filter(
        ({ share, gpu }) =>
          share !== undefined && kinds.some((kind) => kind.name === gpu && kind.mps),
      )

/** Of one model: each is put on a slice of its own. */
const mostReplicas = 2000
const mostOf = ({ rateRps, bucketRps = [] }: Segment): number => Math.max(rateRps, ...bucketRps)

/** Where rows on shares of a GPU would serve, and do not count. */
function ofShares(
  models: readonly FleetModel[],
  kinds: readonly GpuKind[],
  without: readonly string[],
  ruled: boolean,
): string {
  const rows = models.flatMap(({ name, segments }) =>
    without.includes(name) ? segments.filter(({ share }) => share !== undefined) : [],
  )
  const on = kinds
    .filter(({ name, mps }) => (ruled || !mps) && rows.some(({ gpu }) => gpu === name))
    .map(({ name }) => name)
  if (on.length === 0) return ''
  return ruled
    ? `; under spare: and apart: what was measured on shares of ${on.join(', ')} may not count`
    : `; what was measured on shares of ${on.join(', ')} counts with mps: true`
}

/** Its name, or the bucket of its requests that nothing serves. */
function unservedOf({ model, best, buckets, shared = [] }: Wanted): string[] {
  if (shared.length > 0) return []
  if (best.length === 0) return [model]
  return (buckets ?? []).flatMap(({ name }, b) =>
    best.some(({ bucketRps }) => bucketRps![b]! > 0) ? [] : [`${model} (${name})`],
  )
}

/**
 * Of models whose requests were routed when they were counted, each pool by itself: its requests go
 * nowhere else.
 */
const asRouted = (wanted: readonly Wanted[], replicas: readonly Counted[]): Wanted[] =>
  wanted.flatMap((of): Wanted[] =>
    of.buckets === undefined
      ? [of]
      : replicas
          .filter(({ model, count }) => model === of.model && count > 0)
          .map(({ model, segment }) => ({
            model,
            demandRps: of.demandRps * segment.routed!.share,
            best: [segment],
          })),
  )

/** A kind without MPS. */
export const unshared = ({ mps: _, ...kind }: GpuKind): GpuKind => kind

/** A model that is loaded by the hours alone. */
const scheduled = ({ asked: _, ...model }: FleetModel): FleetModel => model

/** A model that stays in memory. */
export const unturned = ({ overDay: _, asked: __, ...model }: FleetModel): FleetModel => model

/** Those that take turns, on the slices that are left. */
function placedInTurns(
  gpus: readonly PackedGpu[] | undefined,
  groups: readonly TurnGroup[],
  comings: readonly Coming[],
): readonly PackedGpu[] | undefined {
  if (gpus === undefined) return undefined
  const packed = gpus.map(({ kind, slots }) => ({ kind, slots: [...slots] }))
  for (const { kind, slice, waiting, together } of groups) {
    const isFree = (slot: PackedGpu['slots'][number]) =>
      slot.slice === slice && slot.model === undefined && slot.waiting === undefined
    const gpu = packed.find((one) => one.kind === kind.name && one.slots.some(isFree))
    if (gpu === undefined) return undefined
    gpu.slots[gpu.slots.findIndex(isFree)] = { slice, waiting, ...(together && { together }) }
  }
  return withStays(packed, comings)
}

const packedShared = ({ kind, sharers }: Content): PackedGpu => ({
  kind: kind.name,
  slots: sharers.map(({ model, segment }) => ({ slice: segment.slice, model, segment })),
})

const priceOf = (gpus: readonly { readonly kind: GpuKind }[]): number =>
  gpus.reduce((sum, { kind }) => sum + kind.pricePerHour, 0)

/**
 * So many GPUs at most are chosen and filled in one programme: what is alike about them makes more
 * of them too hard.
 */
const mostAtOnce = 24

/**
 * Where models do not find places by the rules on the GPUs that a count takes: on them and some
 * more, and then, where they are few, on any that cost less than that.
 * @param bound of any packing
 */
async function placedByRules(
  gpus: readonly Uncut[],
  wanted: readonly Wanted[],
  kinds: readonly GpuKind[],
  seconds: number,
  rules: Rules,
  bound: number,
): Promise<Packing | 'infeasible' | undefined> {
  const known = gpus.map(({ kind, partition }): Place => ({ kind, partitions: [partition] }))
  const more = (kind: GpuKind, count: number, used: number): Place[] =>
    Array.from(
      { length: Math.min(count, (kind.count ?? Number.POSITIVE_INFINITY) - used) },
      () => ({ kind, partitions: kind.partitions }),
    )
  let found: Packing | undefined
  for (let extra = 0; found === undefined && extra <= 2 * gpus.length + 2; extra = extra * 2 || 1) {
    const places = [
      ...known,
      ...kinds.flatMap((kind) => more(kind, extra, gpus.filter((gpu) => gpu.kind === kind).length)),
    ]
    const assigned = await assign(places, wanted, rules, Math.max(1, seconds / 16))
    if (assigned === 'infeasible' || assigned.gpus === undefined) continue
    found = {
      gpus: assigned.gpus,
      pricePerHour: assigned.pricePerHour,
      boundPerHour: Math.min(bound, assigned.pricePerHour),
    }
  }
  if (found !== undefined && found.pricePerHour <= bound * (1 + 1e-6)) return found
  const money = found?.pricePerHour ?? Number.POSITIVE_INFINITY
  const any = kinds.flatMap((kind) =>
    more(kind, Math.min(mostAtOnce + 1, Math.floor(money / kind.pricePerHour + 1e-9)), 0),
  )
  if (any.length > mostAtOnce) return found
  const better = await assign(any, wanted, rules, Math.max(1, seconds / 4), money)
  // Requests that are routed might be routed otherwise: of those only the counts are a bound.
  const routed = wanted.some(({ best }) => best.some((segment) => segment.routed !== undefined))
  if (better === 'infeasible')
    return found === undefined
      ? routed
        ? undefined
        : 'infeasible'
      : routed
        ? found
        : { ...found, boundPerHour: found.pricePerHour }
  if (routed)
    return better.gpus === undefined
      ? found
      : { gpus: better.gpus, pricePerHour: better.pricePerHour, boundPerHour: bound }
  const boundPerHour = Math.max(bound, Math.min(better.boundPerHour, money))
  if (better.gpus !== undefined)
    return {
      gpus: better.gpus,
      pricePerHour: better.pricePerHour,
      boundPerHour: Math.min(boundPerHour, better.pricePerHour),
    }
  return found && { ...found, boundPerHour: Math.min(boundPerHour, found.pricePerHour) }
}

/**
 * Every replica on slices of its kind, those of one model on as many GPUs as can be; undefined
 * where they find no place.
 */
function placedOn(
  gpus: readonly { readonly kind: GpuKind; readonly partition: Partition }[],
  replicas: readonly Counted[],
  { apart }: Rules,
): PackedGpu[] | undefined {
  const packed = gpus.map(({ kind, partition }) => ({
    kind: kind.name,
    slots: partition.map((slice): PackedGpu['slots'][number] => ({ slice })),
  }))
  for (const { model, segment, count } of replicas) {
    for (let i = 0; i < count * segment.gpus; i++) {
      const free = packed.filter(
        ({ kind, slots }) =>
          kind === segment.gpu &&
          slots.some((slot) => slot.slice === segment.slice && slot.model === undefined) &&
          mayJoin(model, slots, apart),
      )
      const own = ({ slots }: PackedGpu) => slots.filter((slot) => slot.model === model).length
      const gpu = free.sort((a, b) => own(a) - own(b))[0]
      if (gpu === undefined) return undefined
      gpu.slots[
        gpu.slots.findIndex((slot) => slot.slice === segment.slice && slot.model === undefined)
      ] = {
        slice: segment.slice,
        model,
        segment,
      }
    }
  }
  return packed
}

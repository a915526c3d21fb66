/**
 * Which GPUs, cut into which slices, serve several models at the least money.
 *
 * A slice serves one model, as fast whatever its neighbours do (MIG), so a model is as well on any slice of a kind: an integer programme over how many GPUs are cut in
 * which way, x, and how many slices of each kind every model has, y, is exact:
 *
 *   minimise Σ price·x,  Σ_m use·y(m, slice) ≤ Σ_p slices(p)·x(p) for each slice,  Σ rate·y(m, slice) ≥ demand(m) for each model.
 *
 * The solver's bound says how far from the best what it found may be. Rules on what falls together are not in it: for a model that bears the loss of a GPU at least a replica
 * of each segment that it uses is lost, w(m) ≥ rate·[y > 0] and Σ rate·y - w(m) ≥ demand(m), so that its bound holds, and where models are put decides the rest (`assignment.ts`).
 */
import type { Partition } from '../../trials/devices/mig-placements.ts'
import { assign, type Place, type Wanted } from './assignment.ts'
import { bestPerSlice, FleetError, type FleetModel, type GpuKind, type PackedGpu, type Packing, type Segment } from './packing.ts'
import { idleReplica, type Programme, solve, type Term } from './programme.ts'
import { enough, keepsAll, mayJoin, noRules, type Rules } from './rules.ts'

/**
 * @param demandRps of each model, in their order; one of 0 needs nothing
 * @param seconds after which the best that is known is taken
 * @param known a packing that keeps all of it, for where the time is up before one as cheap is found
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
  const wanted = models.flatMap((model, i): Wanted[] =>
    demandRps[i]! > 0 ? [{ model: model.name, demandRps: demandRps[i]!, best: bestPerSlice(model, kinds) }] : [],
  )
  const without = wanted.filter(({ best }) => best.length === 0).map(({ model }) => model)
  if (without.length > 0)
    throw new FleetError(
      `nothing that was measured of ${without.join(', ')} serves within its SLO on these GPUs`,
      'measure it there, loosen its SLO, or add GPUs',
    )
  if (wanted.length === 0) return { gpus: [], pricePerHour: 0, boundPerHour: 0 }
  const ruled = rules.spared.size > 0 || rules.apart.length > 0
  const orKnown = (found: Packing): Packing =>
    known !== undefined && known.pricePerHour < found.pricePerHour
      ? { ...known, boundPerHour: Math.min(known.pricePerHour, found.boundPerHour) }
      : found
  const { gpus, replicas, bound } = await counted(wanted, kinds, ruled ? seconds / 2 : seconds, rules)
  const placed = placedOn(gpus, replicas, rules)
  const pricePerHour = priceOf(gpus)
  if (placed !== undefined && keepsAll(placed, wanted, rules))
    return orKnown({ gpus: placed, pricePerHour, boundPerHour: Math.min(pricePerHour, bound) })
  const assigned = ruled ? await placedByRules(gpus, wanted, kinds, seconds, rules, bound) : undefined
  if (assigned === 'infeasible') throw tooFew(kinds)
  if (assigned !== undefined) return orKnown(assigned)
  if (known !== undefined) return { ...known, boundPerHour: Math.min(known.pricePerHour, bound) }
  throw new FleetError(`no packing was found within ${seconds} s`, 'give it more time with --solver-time, or fewer models')
}

interface Uncut {
  readonly kind: GpuKind
  readonly partition: Partition
}

const priceOf = (gpus: readonly { readonly kind: GpuKind }[]): number => gpus.reduce((sum, { kind }) => sum + kind.pricePerHour, 0)

/** How many GPUs cut in which way, and how many replicas of which segments. */
async function counted(
  wanted: readonly Wanted[],
  kinds: readonly GpuKind[],
  seconds: number,
  rules: Rules,
): Promise<{ readonly gpus: readonly Uncut[]; readonly replicas: readonly Counted[]; readonly bound: number }> {
  const columns = kinds.flatMap((kind, k) => kind.partitions.map((partition, p) => ({ name: `x${k}_${p}`, kind, partition })))
  const replicas = wanted.flatMap(({ best, model, demandRps }, m) =>
    best.map((segment, s) => ({ name: `y${m}_${s}`, model, demandRps, segment })),
  )
  const solved = await solve(programmeOf(columns, replicas, kinds, rules), seconds)
  if (solved === 'infeasible') throw tooFew(kinds)
  const counts = solved.counts.slice(columns.length)
  return {
    gpus: columns.flatMap(({ kind, partition }, i) => Array.from({ length: solved.counts[i] ?? 0 }, () => ({ kind, partition }))),
    replicas: replicas.map(({ name: _, ...replica }, i) => ({ ...replica, count: counts[i] ?? 0 })),
    bound: solved.bound,
  }
}

/** So many GPUs at most are chosen and filled in one programme: what is alike about them makes more of them too hard. */
const mostAtOnce = 24

/**
 * Where models do not find places by the rules on the GPUs that a count takes: on them and some more, and then, where they are few, on any that cost less than that.
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
    Array.from({ length: Math.min(count, (kind.count ?? Number.POSITIVE_INFINITY) - used) }, () => ({ kind, partitions: kind.partitions }))
  let found: Packing | undefined
  for (let extra = 0; found === undefined && extra <= 2 * gpus.length + 2; extra = extra * 2 || 1) {
    const places = [...known, ...kinds.flatMap((kind) => more(kind, extra, gpus.filter((gpu) => gpu.kind === kind).length))]
    const assigned = await assign(places, wanted, rules, Math.max(1, seconds / 16))
    if (assigned === 'infeasible' || assigned.gpus === undefined) continue
    found = { gpus: assigned.gpus, pricePerHour: assigned.pricePerHour, boundPerHour: Math.min(bound, assigned.pricePerHour) }
  }
  if (found !== undefined && found.pricePerHour <= bound * (1 + 1e-6)) return found
  const money = found?.pricePerHour ?? Number.POSITIVE_INFINITY
  const any = kinds.flatMap((kind) => more(kind, Math.min(mostAtOnce + 1, Math.floor(money / kind.pricePerHour + 1e-9)), 0))
  if (any.length > mostAtOnce) return found
  const better = await assign(any, wanted, rules, Math.max(1, seconds / 4), money)
  if (better === 'infeasible') return found === undefined ? 'infeasible' : { ...found, boundPerHour: found.pricePerHour }
  const boundPerHour = Math.max(bound, Math.min(better.boundPerHour, money))
  if (better.gpus !== undefined)
    return { gpus: better.gpus, pricePerHour: better.pricePerHour, boundPerHour: Math.min(boundPerHour, better.pricePerHour) }
  return found && { ...found, boundPerHour: Math.min(boundPerHour, found.pricePerHour) }
}

const tooFew = (kinds: readonly GpuKind[]): FleetError =>
  new FleetError(
    `the GPUs that there are do not carry all of it: ${kinds.map(({ name, count }) => (count === undefined ? name : `${count} × ${name}`)).join(', ')}`,
    'raise count:, or leave it out for what the cheapest fleet would be',
  )

interface Column {
  readonly name: string
  readonly kind: GpuKind
  readonly partition: Partition
}
interface Replica {
  readonly name: string
  readonly model: string
  readonly demandRps: number
  readonly segment: Segment
}

function programmeOf(columns: readonly Column[], replicas: readonly Replica[], kinds: readonly GpuKind[], { spared }: Rules): Programme {
  const least = Math.min(...kinds.map(({ pricePerHour }) => pricePerHour))
  const slices = kinds.flatMap(({ name, partitions }) => [...new Set(partitions.flat())].map((slice) => ({ gpu: name, slice })))
  const room = slices.flatMap(({ gpu, slice }): Programme['rows'][number][] => {
    const given = columns.flatMap(({ name, kind, partition }): Term[] => {
      const count = kind.name === gpu ? partition.filter((each) => each === slice).length : 0
      return count > 0 ? [[-count, name]] : []
    })
    const used = replicas.flatMap(({ name, segment }): Term[] =>
      segment.gpu === gpu && segment.slice === slice ? [[segment.gpus, name]] : [],
    )
    return [[[...used, ...given], '<= 0']]
  })
  const models = [...new Set(replicas.map(({ model }) => model))]
  const served = models.map((model, m) => {
    const own = replicas.filter((replica) => replica.model === model)
    const carried = own.map(({ name, segment, demandRps }): Term => [segment.rateRps / demandRps, name])
    return spared.has(model)
      ? { names: own.map(({ name }) => `z${name}`), rows: [[[...carried, [-1, `w${m}`]], '>= 1'] as const, ...lostRows(`w${m}`, own)] }
      : { names: [], rows: [[carried, '>= 1'] as const] }
  })
  const numbered = kinds.flatMap(({ name, count }): Programme['rows'][number][] => {
    const of = columns.filter(({ kind }) => kind.name === name).map((column): Term => [1, column.name])
    return count === undefined ? [] : [[of, `<= ${count}`]]
  })
  return {
    cost: [
      ...columns.map(({ name, kind }): Term => [kind.pricePerHour, name]),
      ...replicas.map(({ name }): Term => [idleReplica * least, name]),
    ],
    rows: [...room, ...served.flatMap(({ rows }) => rows), ...numbered],
    integers: [...columns, ...replicas].map(({ name }) => name),
    binaries: served.flatMap(({ names }) => names),
  }
}

/** The loss of a GPU takes a replica of each segment in use at the least; none needs more of one than carry the demand, and one more. */
const lostRows = (lost: string, own: readonly Replica[]): Programme['rows'][number][] =>
  own.flatMap(({ name, segment, demandRps }): Programme['rows'][number][] => [
    [
      [
        [1, lost],
        [-segment.rateRps / demandRps, `z${name}`],
      ] as const,
      '>= 0',
    ],
    [
      [
        [1, name],
        [-(Math.ceil(demandRps / segment.rateRps) + 1), `z${name}`],
      ] as const,
      '<= 0',
    ],
  ])

interface Counted extends Omit<Replica, 'name'> {
  readonly count: number
}

/** Every replica on slices of its kind, those of one model on as many GPUs as can be; undefined where they find no place, or leave a demand. */
function placedOn(
  gpus: readonly { readonly kind: GpuKind; readonly partition: Partition }[],
  replicas: readonly Counted[],
  { apart }: Rules,
): PackedGpu[] | undefined {
  const packed = gpus.map(({ kind, partition }) => ({
    kind: kind.name,
    slots: partition.map((slice): PackedGpu['slots'][number] => ({ slice })),
  }))
  const carried = new Map<string, number>()
  for (const { model, segment, count, demandRps } of replicas) {
    carried.set(model, (carried.get(model) ?? 0) + (count * segment.rateRps) / demandRps)
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
      gpu.slots[gpu.slots.findIndex((slot) => slot.slice === segment.slice && slot.model === undefined)] = {
        slice: segment.slice,
        model,
        segment,
      }
    }
  }
  return [...carried.values()].every((share) => share >= enough) ? packed : undefined
}

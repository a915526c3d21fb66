/**
 * Which GPUs, cut into which slices, serve several models at the least money.
 *
 * A slice serves one model, as fast whatever its neighbours do (MIG), so a model is as well on any slice of a kind: an integer programme over how many GPUs are cut in
 * which way, x, and how many slices of each kind every model has, y, is exact:
 *
 *   minimise Σ price·x,  Σ_m use·y(m, slice) ≤ Σ_p slices(p)·x(p) for each slice,  Σ rate·y(m, slice) ≥ demand(m) for each model.
 *
 * Solved by HiGHS (Huangfu and Hall 2018), whose bound says how far from the best what it found may be.
 */
import highs from 'highs'
import type { Partition } from '../../trials/devices/mig-placements.ts'

/** Its types are written for another module system than it is loaded by. */
const loadHighs = highs as unknown as typeof highs.default
let loaded: ReturnType<typeof loadHighs> | undefined
/** One runtime for all programmes: each would take its own megabytes, and the time to compile them. */
const solver = () => (loaded ??= loadHighs())

/** A GPU that is not cut. */
export const whole = 'whole'

export interface GpuKind {
  readonly name: string
  readonly pricePerHour: number
  /** How many there are. Absent: as many as needed. */
  readonly count?: number
  /** Ways to cut one; `[whole]` is one of them. */
  readonly partitions: readonly Partition[]
}

/** One replica of a model on a slice, as it was measured. */
export interface Segment {
  readonly gpu: string
  /** A MIG profile, or `whole`. */
  readonly slice: string
  /** Whole GPUs that it needs. */
  readonly gpus: number
  /** What it carries within the SLO. */
  readonly rateRps: number
  readonly label: string
  /** Of its experiment. */
  readonly trial?: number
  /** Of its table: where it stands, and what is told with it. */
  readonly row?: { readonly line: number; readonly values: Readonly<Record<string, string>> }
}

export interface FleetModel {
  readonly name: string
  readonly segments: readonly Segment[]
}

/** What stands on a slice; a replica on several GPUs stands on each of them. Absent segment: nothing does. */
interface Slot {
  readonly slice: string
  readonly model?: string
  readonly segment?: Segment
}

export interface PackedGpu {
  readonly kind: string
  readonly slots: readonly Slot[]
}

export interface Packing {
  readonly gpus: readonly PackedGpu[]
  readonly pricePerHour: number
  /** No packing costs less. */
  readonly boundPerHour: number
}

export class FleetError extends Error {
  constructor(
    message: string,
    readonly hint?: string,
  ) {
    super(message)
    this.name = 'FleetError'
  }
  readonly exitCode = 2
}

/** Of the costs, as a share: what the programme's ends may lie apart, and what is taken for a replica that nobody needs. */
const gap = 1e-6
const idleReplica = 1e-7

/**
 * @param demandRps of each model, in their order; one of 0 needs nothing
 * @param seconds after which the best that is known is taken
 * @throws FleetError where a model has no segment on these GPUs, or there are too few of them
 */
export async function pack(
  models: readonly FleetModel[],
  demandRps: readonly number[],
  kinds: readonly GpuKind[],
  seconds = 60,
): Promise<Packing> {
  const asked = models.flatMap((model, i) =>
    demandRps[i]! > 0 ? [{ name: model.name, demandRps: demandRps[i]!, best: bestPerSlice(model, kinds) }] : [],
  )
  const without = asked.filter(({ best }) => best.length === 0).map(({ name }) => name)
  if (without.length > 0)
    throw new FleetError(
      `nothing that was measured of ${without.join(', ')} serves within its SLO on these GPUs`,
      'measure it there, loosen its SLO, or add GPUs',
    )
  if (asked.length === 0) return { gpus: [], pricePerHour: 0, boundPerHour: 0 }
  const columns = kinds.flatMap((kind, k) => kind.partitions.map((partition, p) => ({ name: `x${k}_${p}`, kind, partition })))
  const replicas = asked.flatMap(({ best, demandRps: needed, ...model }, m) =>
    best.map((segment, s) => ({ name: `y${m}_${s}`, model: model.name, demandRps: needed, segment })),
  )
  const solved = await solve(programmeOf(columns, replicas, kinds), seconds)
  if (solved === 'infeasible') throw tooFew(kinds)
  const counts = solved.counts.slice(columns.length)
  const gpus = columns.flatMap(({ kind, partition }, i) => Array.from({ length: solved.counts[i] ?? 0 }, () => ({ kind, partition })))
  const placed = placedOn(
    gpus,
    replicas.map(({ name: _, ...replica }, i) => ({ ...replica, count: counts[i] ?? 0 })),
  )
  if (placed === undefined)
    throw new FleetError(`no packing was found within ${seconds} s`, 'give it more time with --solver-time, or fewer models')
  const pricePerHour = gpus.reduce((sum, { kind }) => sum + kind.pricePerHour, 0)
  return { gpus: placed, pricePerHour, boundPerHour: Math.min(pricePerHour, solved.bound) }
}

/** @returns values of the programme's variables, in the order in which its objective names them, and what none can be below */
async function solve(
  programme: string,
  seconds: number,
): Promise<{ readonly counts: readonly number[]; readonly bound: number } | 'infeasible'> {
  const { withModel, constants } = await solver()
  return withModel({ format: 'lp', data: programme }, (model) => {
    model.options.set({ output_flag: false, mip_rel_gap: gap, time_limit: seconds })
    model.run()
    if (model.getModelStatus() === constants.modelStatus.infeasible) return 'infeasible' as const
    return { counts: [...model.getSolution().colValue].map(Math.round), bound: Number(model.info.get('mip_dual_bound')) }
  })
}

/** Of all that a model has on a slice, what carries most: a slice costs the same whatever runs on it. */
export function bestPerSlice({ segments }: FleetModel, kinds: readonly GpuKind[]): Segment[] {
  const best = new Map<string, Segment>()
  for (const segment of segments) {
    const key = `${segment.gpu} ${segment.slice} ${segment.gpus}`
    const isThere = kinds.some(
      ({ name, partitions }) => name === segment.gpu && partitions.some((partition) => partition.includes(segment.slice)),
    )
    if (isThere && segment.rateRps > (best.get(key)?.rateRps ?? 0)) best.set(key, segment)
  }
  return [...best.values()]
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

/** The programme in CPLEX's LP format, a term a line, for the reader takes lines of some hundred letters. */
function programmeOf(columns: readonly Column[], replicas: readonly Replica[], kinds: readonly GpuKind[]): string {
  const least = Math.min(...kinds.map(({ pricePerHour }) => pricePerHour))
  const sum = (terms: readonly (readonly [factor: number, name: string])[]) =>
    terms.map(([factor, name]) => ` ${factor < 0 ? '-' : '+'} ${Math.abs(factor)} ${name}`).join('\n')
  const slices = kinds.flatMap(({ name, partitions }) => [...new Set(partitions.flat())].map((slice) => ({ gpu: name, slice })))
  const room = slices.map(({ gpu, slice }, i) => {
    const given = columns.flatMap(({ name, kind, partition }) => {
      const count = kind.name === gpu ? partition.filter((each) => each === slice).length : 0
      return count > 0 ? [[-count, name] as const] : []
    })
    const used = replicas.flatMap(({ name, segment }) =>
      segment.gpu === gpu && segment.slice === slice ? [[segment.gpus, name] as const] : [],
    )
    return ` room${i}:\n${sum([...used, ...given])} <= 0`
  })
  const served = [...new Set(replicas.map(({ model }) => model))].map((model, i) => {
    const terms = replicas.flatMap(({ name, segment, demandRps, ...of }) =>
      of.model === model ? [[segment.rateRps / demandRps, name] as const] : [],
    )
    return ` served${i}:\n${sum(terms)} >= 1`
  })
  const counted = kinds.flatMap(({ name, count }, i) =>
    count === undefined
      ? []
      : [` count${i}:\n${sum(columns.filter(({ kind }) => kind.name === name).map((column) => [1, column.name] as const))} <= ${count}`],
  )
  const cost = [
    ...columns.map(({ name, kind }) => [kind.pricePerHour, name] as const),
    ...replicas.map(({ name }) => [idleReplica * least, name] as const),
  ]
  const constraints = [...room, ...served, ...counted].join('\n')
  const names = [...columns, ...replicas].map(({ name }) => ` ${name}`).join('\n')
  return `Minimize\n cost:\n${sum(cost)}\nSubject To\n${constraints}\nGeneral\n${names}\nEnd\n`
}

interface Counted extends Omit<Replica, 'name'> {
  readonly count: number
}

/** Every replica on slices of its kind, those of one model on as many GPUs as can be; undefined where they find no place, or leave a demand. */
function placedOn(
  gpus: readonly { readonly kind: GpuKind; readonly partition: Partition }[],
  replicas: readonly Counted[],
): PackedGpu[] | undefined {
  const packed = gpus.map(({ kind, partition }) => ({ kind: kind.name, slots: partition.map((slice): Slot => ({ slice })) }))
  const carried = new Map<string, number>()
  for (const { model, segment, count, demandRps } of replicas) {
    carried.set(model, (carried.get(model) ?? 0) + (count * segment.rateRps) / demandRps)
    for (let i = 0; i < count * segment.gpus; i++) {
      const free = packed.filter(
        ({ kind, slots }) => kind === segment.gpu && slots.some((slot) => slot.slice === segment.slice && slot.model === undefined),
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
  return [...carried.values()].every((share) => share > 1 - 1e-5) ? packed : undefined
}

/** The programme of counts: how many GPUs are cut in which way, and how many replicas of which segments stand on their slices (`pack.ts` says why that is enough). */
import type { Partition } from '../../trials/devices/mig-placements.ts'
import type { Wanted } from './assignment.ts'
import { bucketRows, routedSegment } from './buckets.ts'
import { fewContents, type SharedColumn } from './content-columns.ts'
import { FleetError, type GpuKind, type Segment } from './packing.ts'
import { idleReplica, type Programme, solve, type Term } from './programme.ts'
import type { Rules } from './rules.ts'
import type { Content } from './shared-gpus.ts'

export interface Uncut {
  readonly kind: GpuKind
  readonly partition: Partition
}

export interface Counted {
  readonly model: string
  readonly segment: Segment
  readonly count: number
}

interface Counts {
  readonly gpus: readonly Uncut[]
  /** GPUs under MPS. */
  readonly shared: readonly Content[]
  readonly replicas: readonly Counted[]
  readonly bound: number
}

/** Rounds in which mixtures that carry less than their parts add up to are packed again with that. */
const mostRounds = 12
/** Of a rate: what it may be short by. */
const mixtureTolerance = 1e-3

/**
 * Where requests of several buckets share replicas, their times are taken to add up; where a model knows better, a pool whose mixture carries less counts as so much slower, and all
 * is counted again. The bound is that of times that add up.
 * @param contents of GPUs under MPS
 */
export async function counted(
  wanted: readonly Wanted[],
  kinds: readonly GpuKind[],
  seconds: number,
  rules: Rules,
  contents: readonly Content[] = [],
): Promise<Counts> {
  const slower = new Map<Segment, number>()
  const mixed = wanted.some(({ buckets, mixedRps }) => buckets && mixedRps)
  let bound: number | undefined
  for (let round = 0; round < mostRounds; round++) {
    const replicas = wanted.flatMap((of, m) =>
      of.best.map((segment, s): Replica => ({ name: `y${m}_${s}`, m, of, segment, rates: slowed(segment, slower.get(segment)) })),
    )
    const found = await countedOnce(wanted, replicas, kinds, mixed ? seconds / 2 : seconds, rules, contents)
    bound ??= found.bound
    const short = found.routed.filter(({ of, segment, counted: { segment: as } }) => {
      const known = slower.get(segment) ?? 1
      const addedRps = as.rateRps / known
      const carries = of.mixedRps?.(segment, as.routed!.parts, addedRps) ?? addedRps
      const less = carries < as.rateRps * (1 - mixtureTolerance)
      if (less) slower.set(segment, Math.max(0.01, carries / addedRps))
      return less
    })
    if (short.length === 0) return { gpus: found.gpus, shared: found.shared, replicas: found.replicas, bound }
  }
  const names = wanted.filter(({ mixedRps }) => mixedRps).map(({ model }) => model)
  throw new FleetError(
    `no mixture of the requests of ${names.join(', ')} was found that its GPUs carry`,
    'loosen its SLO, or tell fewer kinds of requests apart',
  )
}

const slowed = ({ bucketRps }: Segment, factor = 1): readonly number[] | undefined => bucketRps?.map((rps) => rps * factor)

interface Column {
  readonly name: string
  readonly kind: GpuKind
  readonly partition: Partition
}
interface Replica {
  readonly name: string
  /** Index of its model. */
  readonly m: number
  readonly of: Wanted
  readonly segment: Segment
  /** Of the buckets, as they are counted. */
  readonly rates?: readonly number[]
}

async function countedOnce(
  wanted: readonly Wanted[],
  replicas: readonly Replica[],
  kinds: readonly GpuKind[],
  seconds: number,
  rules: Rules,
  contents: readonly Content[],
) {
  const columns = kinds.flatMap((kind, k) => kind.partitions.map((partition, p): Column => ({ name: `x${k}_${p}`, kind, partition })))
  const served = wanted.map((of, m) =>
    servedRows(
      m,
      of,
      replicas.filter((replica) => replica.m === m),
      rules.spared.has(of.model),
    ),
  )
  const routes = served.flatMap((rows) => rows.routes)
  const programme = (shared: readonly SharedColumn[]) => programmeOf(columns, replicas, kinds, wanted, served, shared)
  const { columns: shared, bound } = await fewContents(contents, programme)
  const solved = await solve(programme(shared), seconds)
  if (solved === 'infeasible') throw tooFew(kinds)
  const counts = solved.values.map(Math.round)
  const at = columns.length + replicas.length
  const partOf = new Map(routes.map((name, i) => [name, solved.values[at + i] ?? 0]))
  const all = replicas.map((replica, i) => {
    const { m, of, segment, rates } = replica
    const count = counts[columns.length + i] ?? 0
    if (of.buckets === undefined) return { of, segment, counted: { model: of.model, segment, count } }
    const s = of.best.indexOf(segment)
    const parts = of.buckets.map((_, b) => Math.min(1, Math.max(0, partOf.get(`r${m}_${s}_${b}`) ?? 0)))
    const as = count > 0 ? routedSegment(segment, of.buckets, rates!, parts) : segment
    // One to which nothing goes is none.
    return { of, segment, counted: { model: of.model, segment: as, count: as.routed && as.routed.share > 1e-9 ? count : 0 } }
  })
  return {
    gpus: columns.flatMap(({ kind, partition }, i) => Array.from({ length: counts[i] ?? 0 }, (): Uncut => ({ kind, partition }))),
    shared: shared.flatMap(({ content }, i) => Array.from({ length: counts[at + routes.length + i] ?? 0 }, () => content)),
    replicas: all.map((one): Counted => one.counted),
    routed: all.filter((one) => one.counted.segment.routed !== undefined && one.counted.count > 0),
    bound: bound ?? solved.bound,
  }
}

interface Served {
  readonly rows: Programme['rows']
  /** Of these, the row to which GPUs that it shares add what they carry: parts of its demand. Absent: it shares none. */
  readonly carriedRow?: number
  readonly binaries: readonly string[]
  /** Of its buckets, continuous. */
  readonly routes: readonly string[]
}

function servedRows(m: number, { demandRps, buckets }: Wanted, own: readonly Replica[], spared: boolean): Served {
  const binaries = spared ? own.map(({ name }) => `z${name}`) : []
  if (buckets !== undefined) {
    const pools = own.map(({ name, rates }) => ({ name, bucketRps: rates! }))
    return { binaries, ...bucketRows(`r${m}`, buckets, pools, demandRps, spared ? binaries : undefined) }
  }
  const carried = own.map(({ name, segment }): Term => [segment.rateRps / demandRps, name])
  // One that carries all of it counts as that alone: the same counts, and parts of GPUs that seem to do are fewer.
  const capped = carried.map(([part, name]): Term => [Math.min(1, part), name])
  const lost = `w${m}`
  if (spared) return { binaries, routes: [], rows: [[[...carried, [-1, lost]], '>= 1'], ...lostRows(lost, own, demandRps)] }
  return { binaries, routes: [], rows: [[capped, '>= 1']], carriedRow: 0 }
}

function programmeOf(
  columns: readonly Column[],
  replicas: readonly Replica[],
  kinds: readonly GpuKind[],
  wanted: readonly Wanted[],
  served: readonly Served[],
  shared: readonly SharedColumn[],
): Programme {
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
  const numbered = kinds.flatMap(({ name, count }): Programme['rows'][number][] => {
    const of = [...columns, ...shared].filter(({ kind }) => kind.name === name).map((column): Term => [1, column.name])
    return count === undefined ? [] : [[of, `<= ${count}`]]
  })
  return {
    cost: [
      ...columns.map(({ name, kind }): Term => [kind.pricePerHour, name]),
      ...replicas.map(({ name }): Term => [idleReplica * least, name]),
      ...served.flatMap(({ routes }) => routes.map((name): Term => [0, name])),
      ...shared.map(({ name, kind, content }): Term => [kind.pricePerHour + content.sharers.length * idleReplica * least, name]),
    ],
    rows: [...served.flatMap((rows, m) => withShared(rows, wanted[m]!, shared)), ...room, ...numbered],
    integers: [...columns, ...replicas, ...shared].map(({ name }) => name),
    binaries: served.flatMap(({ binaries }) => binaries),
  }
}

function withShared({ rows, carriedRow }: Served, { model, demandRps }: Wanted, shared: readonly SharedColumn[]): Programme['rows'] {
  if (carriedRow === undefined) return rows
  const more = shared.flatMap(({ name, carries }): Term[] => {
    const rps = carries.get(model)
    return rps === undefined ? [] : [[Math.min(1, rps / demandRps), name]]
  })
  return rows.map(([terms, limit], i) => [i === carriedRow ? [...terms, ...more] : terms, limit])
}

/** The loss of a GPU takes a replica of each segment in use at the least; none needs more of one than carry the demand, and one more. */
const lostRows = (lost: string, own: readonly Replica[], demandRps: number): Programme['rows'][number][] =>
  own.flatMap(({ name, segment }): Programme['rows'][number][] => [
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

export const tooFew = (kinds: readonly GpuKind[]): FleetError =>
  new FleetError(
    `the GPUs that there are do not carry all of it: ${kinds.map(({ name, count }) => (count === undefined ? name : `${count} × ${name}`)).join(', ')}`,
    'raise count:, or leave it out for what the cheapest fleet would be',
  )

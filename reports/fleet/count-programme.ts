/**
 * The programme of counts: how many GPUs are cut in which way, and how many replicas of which
 * segments stand on their slices (`pack.ts` says why that is enough).
 */
import type { Partition } from '../../trials/devices/mig-placements.ts'
import { bucketRows, routedSegment, sameRoutes } from './buckets.ts'
import { fewContents, type SharedColumn } from './content-columns.ts'
import {
  type Counted,
  FleetError,
  type GpuKind,
  type Packing,
  routedAt,
  type Segment,
  type Wanted,
} from './packing.ts'
import { idleReplica, type Programme, solve, type Term } from './programme.ts'
import type { Rules } from './rules.ts'
import type { Content } from './shared-gpus.ts'
import type { TurnGroup } from './turn-groups.ts'
import {
  atLevels,
  isThereAt,
  momentsOf,
  moreRows,
  presentAt,
  timeOf,
  trimmed,
} from './turn-rows.ts'

export interface Uncut {
  readonly kind: GpuKind
  readonly partition: Partition
}

interface Counts {
  readonly gpus: readonly Uncut[]
  /** GPUs under MPS. */
  readonly shared: readonly Content[]
  /** Slices that models share as requests come. */
  readonly turns: readonly TurnGroup[]
  readonly replicas: readonly Counted[]
  readonly bound: number
}

interface More {
  /** Of GPUs under MPS. */
  readonly contents: readonly Content[]
  /** Of models that take turns on a slice. */
  readonly groups: readonly TurnGroup[]
  /** Something to begin from. */
  readonly known?: Packing
}

/**
 * Rounds in which mixtures that carry less than their parts add up to are packed again with that.
 */
const mostRounds = 12
/** Of a rate: what it may be short by. */
const mixtureTolerance = 1e-3

/**
 * Where requests of several buckets share replicas, their times are taken to add up; where a model
 * knows better, a pool whose mixture carries less counts as so much slower, and all is counted
 * again. The bound is that of times that add up.
 */
export async function counted(
  wanted: readonly Wanted[],
  kinds: readonly GpuKind[],
  seconds: number,
  rules: Rules,
  more: More,
): Promise<Counts> {
  const slower = new Map<Segment, number>()
  const mixed = wanted.some(({ buckets, mixedRps }) => buckets && mixedRps)
  let bound: number | undefined
  for (let round = 0; round < mostRounds; round++) {
    const replicas = wanted.flatMap((of, m) =>
      of.best.flatMap((segment, s) =>
        atLevels<Replica>({
          name: `y${m}_${s}`,
          m,
          of,
          segment,
          rates: slowed(segment, slower.get(segment)),
        }),
      ),
    )
    const found = await countedOnce(
      wanted,
      replicas,
      kinds,
      mixed ? seconds / 2 : seconds,
      rules,
      more,
    )
    bound ??= found.bound
    const short = found.routed.filter(({ of, segment, counted: { segment: as } }) => {
      const known = slower.get(segment) ?? 1
      const carried = (as.routed!.levels ?? [routedAt(as, 1)]).flatMap(({ parts, rateRps }) => {
        const addedRps = rateRps / known
        return addedRps > 0
          ? [(of.mixedRps?.(segment, parts, addedRps) ?? addedRps) / addedRps]
          : []
      })
      const least = Math.min(...carried)
      const less = least < known * (1 - mixtureTolerance)
      if (less) slower.set(segment, Math.max(0.01, least))
      return less
    })
    if (short.length === 0) return { ...found, bound }
  }
  const names = wanted.filter(({ mixedRps }) => mixedRps).map(({ model }) => model)
  throw new FleetError(
    `no mixture of the requests of ${names.join(', ')} was found that its GPUs carry`,
    'loosen its SLO, or tell fewer kinds of requests apart',
  )
}

const slowed = ({ bucketRps }: Segment, factor = 1): readonly number[] | undefined =>
  bucketRps?.map((rps) => rps * factor)

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
  /**
   * Of a model that takes turns: so many of it are in memory at that level of its day, the first is
   * 1.
   */
  readonly level?: number
}

async function countedOnce(
  wanted: readonly Wanted[],
  replicas: readonly Replica[],
  kinds: readonly GpuKind[],
  seconds: number,
  rules: Rules,
  { contents, groups, known }: More,
) {
  const columns = kinds.flatMap((kind, k) =>
    kind.partitions.map((partition, p): Column => ({ name: `x${k}_${p}`, kind, partition })),
  )
  const served = wanted.map((of, m) =>
    servedRows(
      m,
      of,
      replicas.filter((replica) => replica.m === m),
      rules.spared.has(of.model),
    ),
  )
  const routes = served.flatMap((rows) => rows.routes)
  const turns = groups.map((group, i): Turns => ({ name: `t${i}`, group }))
  const programme = (shared: readonly SharedColumn[]) =>
    programmeOf({ columns, replicas, kinds, wanted, served, turns, shared })
  const { columns: shared, bound } = await fewContents(contents, programme)
  // What is lost of a model that bears that has variables of its own.
  const start = known && rules.spared.size === 0 ? startFrom(known, columns, replicas) : undefined
  const solved = await solve(programme(shared), seconds, start)
  if (solved === 'infeasible') throw tooFew(kinds, rules)
  const counts = solved.values.map(Math.round)
  const at = columns.length + replicas.length
  const partOf = new Map(routes.map((name, i) => [name, solved.values[at + i] ?? 0]))
  const countOf = new Map(replicas.map(({ name }, i) => [name, counts[columns.length + i] ?? 0]))
  const routed = await routedSegments(wanted, replicas, countOf, partOf)
  const all = replicas.map((replica, i) => {
    const { of, segment, level } = replica
    const count = counts[columns.length + i] ?? 0
    // Level by level of a segment, they stand one after the other.
    const before = level !== undefined && level > 1 ? (counts[columns.length + i - 1] ?? 0) : 0
    const as = (count > 0 ? routed.get(segment) : undefined) ?? segment
    // One to which nothing goes is none.
    const none = of.buckets !== undefined && !isAsked(as)
    return {
      of,
      segment,
      counted: {
        model: of.model,
        segment: as,
        count: none ? 0 : count - before,
        ...(level !== undefined && { from: level }),
      },
    }
  })
  return {
    gpus: columns.flatMap(({ kind, partition }, i) =>
      Array.from({ length: counts[i] ?? 0 }, (): Uncut => ({ kind, partition })),
    ),
    turns: turns.flatMap(({ group }, i) =>
      Array.from({ length: counts[at + routes.length + i] ?? 0 }, () => group),
    ),
    shared: shared.flatMap(({ content }, i) =>
      Array.from({ length: counts[at + routes.length + turns.length + i] ?? 0 }, () => content),
    ),
    replicas: trimmed(
      all.map((one): Counted => one.counted),
      wanted,
      rules.spared,
    ),
    routed: all.filter(
      ({ segment, counted: { segment: as } }, i) =>
        isAsked(as) &&
        all.findIndex((one) => one.counted.segment === as && one.segment === segment) === i,
    ),
    bound: bound ?? solved.bound,
  }
}

/** Whether anything goes there at some level of the day. */
const isAsked = ({ routed }: Segment): boolean =>
  routed !== undefined && [routed, ...(routed.levels ?? [])].some(({ share }) => share > 1e-9)

/**
 * Segments of models with buckets, with what is routed to them: at each level of a day as it was
 * found, or alike at all of them where these replicas do for that.
 */
async function routedSegments(
  wanted: readonly Wanted[],
  replicas: readonly Replica[],
  countOf: ReadonlyMap<string, number>,
  partOf: ReadonlyMap<string, number>,
): Promise<Map<Segment, Segment>> {
  const found = new Map<Segment, Segment>()
  for (const [m, { buckets, best, overDay, demandRps }] of wanted.entries()) {
    if (buckets === undefined) continue
    const levels = overDay?.levels ?? [1]
    const own = best.map((segment) =>
      replicas.filter((replica) => replica.m === m && replica.segment === segment),
    )
    const there = levels.map((level, i) => ({
      demandRps: level * demandRps,
      counts: own.map((each) => countOf.get((each[i] ?? each[0]!).name)!),
    }))
    const rates = own.map((each) => each[0]!.rates!)
    const same = levels.length > 1 ? await sameRoutes(buckets, rates, there) : undefined
    for (const [s, segment] of best.entries()) {
      const at = levels.map((_, i) =>
        buckets.map((__, b) =>
          Math.min(1, Math.max(0, partOf.get(`${routesOf(m, i)}_${s}_${b}`) ?? 0)),
        ),
      )
      found.set(segment, routedSegment(segment, buckets, rates[s]!, same ? [same[s]!] : at))
    }
  }
  return found
}

const routesOf = (m: number, level: number): string => `r${m}_${level}`

/** A packing as counts; undefined where there is more to it, or a segment that is none of these. */
function startFrom(
  { gpus }: Packing,
  columns: readonly Column[],
  replicas: readonly Replica[],
): ReadonlyMap<string, number> | undefined {
  const start = new Map<string, number>()
  for (const { kind, slots } of gpus) {
    const cut = slots
      .map(({ slice }) => slice)
      .sort()
      .join()
    const column = columns.find(
      (one) => one.kind.name === kind && [...one.partition].sort().join() === cut,
    )
    if (column === undefined || slots.some(({ stays, waiting }) => stays ?? waiting))
      return undefined
    start.set(column.name, (start.get(column.name) ?? 0) + 1)
    for (const { model, segment } of slots) {
      if (segment === undefined) continue
      const own = replicas.filter(
        (one) => one.of.model === model && one.of.buckets === undefined && one.segment === segment,
      )
      if (own.length === 0) return undefined
      for (const { name } of own) start.set(name, (start.get(name) ?? 0) + 1 / segment.gpus)
    }
  }
  return start
}

interface Served {
  readonly rows: Programme['rows']
  /**
   * Of the first of these rows, what is to be carried: GPUs that it shares add their part of that.
   * Empty: it shares none.
   */
  readonly carriedRps: readonly number[]
  readonly binaries: readonly string[]
  /** Of its buckets, continuous. */
  readonly routes: readonly string[]
}

function servedRows(
  m: number,
  { demandRps, buckets, overDay }: Wanted,
  own: readonly Replica[],
  spared: boolean,
): Served {
  const binaries = spared ? own.map(({ name }) => `z${name}`) : []
  const levels = overDay?.levels ?? [1]
  const thereAt = (i: number) => own.filter((replica) => isThereAt(replica, i + 1))
  if (buckets !== undefined) {
    const each = levels.map((level, i) => {
      const pools = thereAt(i).map(({ name, rates }) => ({ name, bucketRps: rates! }))
      return bucketRows(
        routesOf(m, i),
        buckets,
        pools,
        level * demandRps,
        spared ? binaries : undefined,
      )
    })
    const rows = [...each.flatMap((one) => one.rows), ...moreRows(own)]
    return { binaries, carriedRps: [], routes: each.flatMap(({ routes }) => routes), rows }
  }
  if (spared) {
    const rows = levels.flatMap((level, i): Programme['rows'][number][] => {
      const lost = `w${m}_${i}`
      const carried = thereAt(i).map(
        ({ name, segment }): Term => [segment.rateRps / demandRps, name],
      )
      return [[[...carried, [-1, lost]], `>= ${level}`], ...lostRows(lost, thereAt(i), demandRps)]
    })
    return { binaries, routes: [], carriedRps: [], rows: [...rows, ...moreRows(own)] }
  }
  const rows = levels.map((level, i): Programme['rows'][number] => {
    // One that carries all of it counts as that alone: the same counts, and parts of GPUs that seem
    // to do are fewer.
    return [
      thereAt(i).map(
        ({ name, segment }): Term => [Math.min(1, segment.rateRps / (demandRps * level)), name],
      ),
      '>= 1',
    ]
  })
  return {
    binaries,
    routes: [],
    rows: [...rows, ...moreRows(own)],
    carriedRps: levels.map((level) => level * demandRps),
  }
}

interface Turns {
  readonly name: string
  readonly group: TurnGroup
}

interface Parts {
  readonly columns: readonly Column[]
  readonly replicas: readonly Replica[]
  readonly kinds: readonly GpuKind[]
  readonly wanted: readonly Wanted[]
  readonly served: readonly Served[]
  readonly turns: readonly Turns[]
  readonly shared: readonly SharedColumn[]
}

function programmeOf({
  columns,
  replicas,
  kinds,
  wanted,
  served,
  turns,
  shared,
}: Parts): Programme {
  const least = Math.min(...kinds.map(({ pricePerHour }) => pricePerHour))
  const slices = kinds.flatMap(({ name, partitions }) =>
    [...new Set(partitions.flat())].map((slice) => ({ gpu: name, slice })),
  )
  const moments = momentsOf(wanted)
  const room = slices.flatMap(({ gpu, slice }): Programme['rows'][number][] => {
    const given = columns.flatMap(({ name, kind, partition }): Term[] => {
      const count = kind.name === gpu ? partition.filter((each) => each === slice).length : 0
      return count > 0 ? [[-count, name]] : []
    })
    const taken = turns.flatMap(({ name, group }): Term[] =>
      group.kind.name === gpu && group.slice === slice ? [[1, name]] : [],
    )
    const own = replicas.filter(({ segment }) => segment.gpu === gpu && segment.slice === slice)
    return moments.map((step) => {
      const used = own
        .filter((replica) => presentAt(replica, step))
        .map(({ name, segment }): Term => [segment.gpus, name])
      return [[...used, ...taken, ...given], '<= 0']
    })
  })
  const numbered = kinds.flatMap(({ name, count }): Programme['rows'][number][] => {
    const of = [...columns, ...shared]
      .filter(({ kind }) => kind.name === name)
      .map((column): Term => [1, column.name])
    return count === undefined ? [] : [[of, `<= ${count}`]]
  })
  return {
    cost: [
      ...columns.map(({ name, kind }): Term => [kind.pricePerHour, name]),
      ...replicas.map((replica): Term => [idleReplica * least * timeOf(replica), replica.name]),
      ...served.flatMap(({ routes }) => routes.map((name): Term => [0, name])),
      ...turns.map(({ name }): Term => [idleReplica * least, name]),
      ...shared.map(
        ({ name, kind, content }): Term => [
          kind.pricePerHour + content.sharers.length * idleReplica * least,
          name,
        ],
      ),
    ],
    rows: [
      ...served.flatMap((rows, m) => withShared(rows, wanted[m]!, turns, shared)),
      ...room,
      ...numbered,
    ],
    integers: [...columns, ...replicas, ...turns, ...shared].map(({ name }) => name),
    binaries: served.flatMap(({ binaries }) => binaries),
  }
}

function withShared(
  { rows, carriedRps }: Served,
  { model }: Wanted,
  turns: readonly Turns[],
  shared: readonly SharedColumn[],
): Programme['rows'] {
  // Turns that were played carry all of it.
  const played = turns.flatMap(({ name, group }): Term[] =>
    group.waiting.some((one) => one.model === model) ? [[1, name]] : [],
  )
  return rows.map(([terms, limit], i) => {
    const asked = carriedRps[i]
    if (asked === undefined) return [terms, limit]
    const more = shared.flatMap(({ name, carries }): Term[] => {
      const rps = carries.get(model)
      return rps === undefined ? [] : [[Math.min(1, rps / asked), name]]
    })
    return [[...terms, ...played, ...more], limit]
  })
}

/**
 * The loss of a GPU takes a replica of each segment in use at the least; none needs more of one
 * than carry the demand, and one more.
 */
const lostRows = (
  lost: string,
  own: readonly Replica[],
  demandRps: number,
): Programme['rows'][number][] =>
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

export const tooFew = (kinds: readonly GpuKind[], { spared, apart }: Rules): FleetError =>
  new FleetError(
    `the GPUs that there are do not carry all of it${spared.size + apart.length > 0 ? ' by what spare: and apart: ask' : ''}: ${kinds.map(({ name, count }) => (count === undefined ? name : `${count} × ${name}`)).join(', ')}`,
    'raise count:, or leave it out for what the cheapest fleet would be',
  )

/**
 * The integer programme of counts: how many GPUs are cut in which way, and how many replicas of
 * which segments stand on their slices (`pack.ts` says why counts are enough).
 */
import type { Partition } from '../../trials/devices/mig-placements.ts'
import { type Constraints, isConstrained } from './constraints.ts'
import { type Programme, replicaCostShare, solve, type Term } from './integer-programme.ts'
import {
  type DemandedModel,
  FleetError,
  type GpuKind,
  type Packing,
  type ReplicaCount,
  type Segment,
} from './packing.ts'

/** A GPU and how it is cut; nothing stands on it yet. */
export interface EmptyGpu {
  readonly kind: GpuKind
  readonly partition: Partition
}

interface Counts {
  readonly gpus: readonly EmptyGpu[]
  readonly replicas: readonly ReplicaCount[]
  readonly boundPerHour: number
}

interface Column extends EmptyGpu {
  readonly name: string
}
interface Replica {
  readonly name: string
  readonly model: string
  readonly segment: Segment
}
type Row = Programme['rows'][number]

/** @param known a feasible packing to start from */
export async function solveCounts(
  demanded: readonly DemandedModel[],
  kinds: readonly GpuKind[],
  maxSeconds: number,
  constraints: Constraints,
  known?: Packing,
): Promise<Counts> {
  const columns = kinds.flatMap((kind, k) =>
    kind.partitions.map((partition, p): Column => ({ name: `x${k}_${p}`, kind, partition })),
  )
  const replicas = demanded.flatMap(({ model, best }, m) =>
    best.map((segment, s): Replica => ({ name: `y${m}_${s}`, model, segment })),
  )
  const programme = buildProgramme(demanded, columns, replicas, kinds, constraints)
  const { redundant } = constraints
  const start = known && redundant.size === 0 ? countsOf(known, columns, replicas) : undefined
  const solved = await solve(programme, maxSeconds, start)
  if (solved === 'infeasible') throw tooFewGpus(kinds, constraints)
  const counts = solved.values.map(Math.round)
  return {
    gpus: columns.flatMap(({ kind, partition }, i) =>
      Array.from({ length: counts[i] ?? 0 }, () => ({ kind, partition })),
    ),
    replicas: replicas.map(({ model, segment }, i) => ({
      model,
      segment,
      count: counts[columns.length + i] ?? 0,
    })),
    boundPerHour: solved.minCost,
  }
}

function buildProgramme(
  demanded: readonly DemandedModel[],
  columns: readonly Column[],
  replicas: readonly Replica[],
  kinds: readonly GpuKind[],
  { redundant }: Constraints,
): Programme {
  const replicaCost = replicaCostShare * Math.min(...kinds.map((kind) => kind.pricePerHour))
  const isUsed = ({ name, model }: Replica): string[] => (redundant.has(model) ? [`z${name}`] : [])
  const carried = demanded.flatMap((of, m) => {
    const own = replicas.filter(({ model }) => model === of.model)
    return redundant.has(of.model) ? redundantRows(of, own, `w${m}`) : [carriedRow(of, own)]
  })
  const available = kinds.flatMap(({ name, count }): Row[] => {
    const own = columns.filter(({ kind }) => kind.name === name)
    return count === undefined ? [] : [[own.map((column): Term => [1, column.name]), `<= ${count}`]]
  })
  return {
    cost: [
      ...columns.map(({ name, kind }): Term => [kind.pricePerHour, name]),
      ...replicas.map(({ name }): Term => [replicaCost, name]),
    ],
    rows: [...carried, ...sliceRows(columns, replicas), ...available],
    integers: [...columns, ...replicas].map(({ name }) => name),
    binaries: replicas.flatMap(isUsed),
  }
}

/**
 * The replicas of a model carry its demand. A rate above the demand counts as the demand: the
 * integer solutions stay the same, and the relaxation gets tighter.
 */
const carriedRow = ({ demandRps }: DemandedModel, own: readonly Replica[]): Row => [
  own.map(({ name, segment }): Term => [Math.min(1, segment.rateRps / demandRps), name]),
  '>= 1',
]

/**
 * The same with one GPU lost: at least one replica of each segment in use. No solution needs more
 * replicas of a segment than carry the demand, and one.
 */
function redundantRows({ demandRps }: DemandedModel, own: readonly Replica[], lost: string): Row[] {
  const shares = own.map(({ name, segment }): Term => [segment.rateRps / demandRps, name])
  return [
    [[...shares, [-1, lost]], '>= 1'],
    ...shares.flatMap(([share, name]): Row[] => [
      [
        [
          [1, lost],
          [-share, `z${name}`],
        ],
        '>= 0',
      ],
      [
        [
          [1, name],
          [-(Math.ceil(1 / share) + 1), `z${name}`],
        ],
        '<= 0',
      ],
    ]),
  ]
}

/** No more slices of a kind are used than the partitions have. */
function sliceRows(columns: readonly Column[], replicas: readonly Replica[]): Row[] {
  const used = new Map<string, Term[]>()
  for (const { name, segment } of replicas) {
    const key = `${segment.gpu}\n${segment.slice}`
    used.set(key, [...(used.get(key) ?? []), [segment.gpus, name]])
  }
  return [...used].map(([key, terms]): Row => {
    const [gpu, slice] = key.split('\n')
    const offered = columns.flatMap(({ name, kind, partition }): Term[] => {
      const count = kind.name === gpu ? partition.filter((each) => each === slice).length : 0
      return count > 0 ? [[-count, name]] : []
    })
    return [[...terms, ...offered], '<= 0']
  })
}

/** A packing as counts by variable; undefined where it has a column or replica that is none here. */
function countsOf(
  { gpus }: Packing,
  columns: readonly Column[],
  replicas: readonly Replica[],
): ReadonlyMap<string, number> | undefined {
  const counts = new Map<string, number>()
  const add = (name: string, count: number) => counts.set(name, (counts.get(name) ?? 0) + count)
  for (const { kind, slots } of gpus) {
    const cut = sortedKey(slots.map(({ slice }) => slice))
    const column = columns.find((one) => one.kind.name === kind && sortedKey(one.partition) === cut)
    if (column === undefined) return undefined
    add(column.name, 1)
    for (const { model, segment } of slots) {
      if (segment === undefined) continue
      const own = replicas.find((one) => one.model === model && one.segment === segment)
      if (own === undefined) return undefined
      add(own.name, 1 / segment.gpus)
    }
  }
  return counts
}

const sortedKey = (slices: readonly string[]): string => [...slices].sort().join('\n')

export const tooFewGpus = (kinds: readonly GpuKind[], constraints: Constraints): FleetError =>
  new FleetError(
    `these GPUs cannot carry all demands${isConstrained(constraints) ? ' under spare: and apart:' : ''}: ${kinds.map(({ name, count }) => (count === undefined ? name : `${count} × ${name}`)).join(', ')}`,
    'raise count:, or leave it out to see what the cheapest fleet would be',
  )

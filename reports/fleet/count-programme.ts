/**
 * The integer programme of counts: how many GPUs are cut in which way, and how many replicas of
 * which segments stand on their slices (`pack.ts` says why counts are enough).
 */
import type { Partition } from '../../trials/devices/mig-placements.ts'
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

/** @param start a packing to start from; one that is not feasible here is ignored */
export async function solveCounts(
  demanded: readonly DemandedModel[],
  kinds: readonly GpuKind[],
  maxSeconds: number,
  start?: Packing,
): Promise<Counts> {
  const columns = kinds.flatMap((kind, k) =>
    kind.partitions.map((partition, p): Column => ({ name: `x${k}_${p}`, kind, partition })),
  )
  const replicas = demanded.flatMap(({ model, best }, m) =>
    best.map((segment, s): Replica => ({ name: `y${m}_${s}`, model, segment })),
  )
  const programme = buildProgramme(demanded, columns, replicas, kinds)
  const solved = await solve(programme, maxSeconds, start && countByName(start, columns, replicas))
  if (solved === 'infeasible')
    throw new FleetError(
      `these GPUs cannot carry all demands: ${kinds.map(({ name, count }) => (count === undefined ? name : `${count} × ${name}`)).join(', ')}`,
      'raise count:, or leave it out to see what the cheapest fleet would be',
    )
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
): Programme {
  const replicaCost = replicaCostShare * Math.min(...kinds.map((kind) => kind.pricePerHour))
  // A rate above the demand counts as the demand: the relaxation is tighter, the solutions equal.
  const carried = demanded.map(
    ({ model, demandRps }): Row => [
      replicas
        .filter((one) => one.model === model)
        .map(({ name, segment }): Term => [Math.min(1, segment.rateRps / demandRps), name]),
      '>= 1',
    ],
  )
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
  }
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

/** A packing as counts by variable. What is no column or replica of this programme is left out. */
function countByName(
  { gpus }: Packing,
  columns: readonly Column[],
  replicas: readonly Replica[],
): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  const add = (name: string | undefined, count: number) => {
    if (name !== undefined) counts.set(name, (counts.get(name) ?? 0) + count)
  }
  for (const { kind, slots } of gpus) {
    const cut = joinSorted(slots.map(({ slice }) => slice))
    add(columns.find((one) => one.kind.name === kind && joinSorted(one.partition) === cut)?.name, 1)
    for (const { model, segment } of slots)
      if (segment)
        add(
          replicas.find((one) => one.model === model && one.segment === segment)?.name,
          1 / segment.gpus,
        )
  }
  return counts
}

const joinSorted = (slices: readonly string[]): string => [...slices].sort().join('\n')

/** What may live on one GPU side by side under MPS: two or three replicas with their shares of its threads, their memory together no more than it has, each as slow as its neighbours make it. */
import type { Wanted } from './assignment.ts'
import { type Interference, interferenceOf, type Neighbour, type Slowdown } from './interference.ts'
import { FleetError, type GpuKind, type Segment } from './packing.ts'
import type { Rules } from './rules.ts'

/** A segment on a share of a GPU, and what it carries beside its neighbours. */
interface Sharer {
  readonly model: string
  readonly segment: Segment
}

/** Of a GPU under MPS. */
export interface Content {
  readonly kind: GpuKind
  readonly sharers: readonly Sharer[]
}

/** Of more models only pairs are looked at: three of them live together in too many ways. */
const mostForTriples = 12

/** Every content whose replicas all carry something. Models that bear the loss of a GPU, and those whose requests are routed by size, have slices or GPUs of their own. */
export function contentsOf(
  wanted: readonly Wanted[],
  kinds: readonly GpuKind[],
  { spared, apart, slows = interferenceOf() }: Rules,
): Content[] {
  const may = wanted.filter(({ model, buckets }) => buckets === undefined && !spared.has(model))
  return kinds.flatMap((kind) => {
    if (kind.mps === undefined) return []
    const sharers = may.map((of) => sharesOn(of, kind)).filter(({ shares }) => shares.length > 0)
    return groupsOf(sharers, sharers.length <= mostForTriples ? 3 : 2)
      .filter((group) =>
        apart.every((names) => new Set(group.map(({ model }) => model).filter((model) => names.includes(model))).size <= 1),
      )
      .flatMap((group) => splitsOf(group, 1))
      .flatMap((split) => {
        const content = filled(kind, split, slows)
        return content === undefined ? [] : [content]
      })
  })
}

interface OnShares {
  readonly model: string
  /** Rows of a share, each with its latency. */
  readonly shares: readonly { readonly share: number; readonly rows: readonly Segment[] }[]
}

function sharesOn({ model, shared = [] }: Wanted, kind: GpuKind): OnShares {
  const rows = shared.filter(({ gpu }) => gpu === kind.name)
  const steps = [...new Set(rows.map(({ share }) => share!))].sort((a, b) => a - b)
  return { model, shares: steps.map((share) => ({ share, rows: rows.filter((row) => row.share === share) })) }
}

/** Two to `most` of them, one of them more than once too. */
function groupsOf(all: readonly OnShares[], most: number): OnShares[][] {
  const pairs = all.flatMap((a, i) => all.slice(i).map((b) => [a, b]))
  if (most < 3) return pairs
  return [...pairs, ...all.flatMap((a, i) => all.slice(i).flatMap((b, j) => all.slice(i + j).map((c) => [a, b, c])))]
}

interface OnShare {
  readonly model: string
  readonly share: number
  readonly rows: readonly Segment[]
}

/** Ways to give them shares, the last as much as is left. */
function splitsOf([first, ...others]: readonly OnShares[], left: number): OnShare[][] {
  const of = (at: { readonly share: number; readonly rows: readonly Segment[] }) => ({ model: first!.model, ...at })
  const fit = first!.shares.filter(({ share }) => share <= left + 1e-9)
  if (others.length === 0) return fit.length === 0 ? [] : [[of(fit.at(-1)!)]]
  return fit.flatMap((at) => splitsOf(others, left - at.share).map((rest) => [of(at), ...rest]))
}

/** Each in the configuration that carries most as slow as it gets; undefined where one carries nothing, or memory is short. */
function filled(kind: GpuKind, split: readonly OnShare[], slows: Interference): Content | undefined {
  const sharers: Sharer[] = []
  for (const [i, { model, rows }] of split.entries()) {
    const others = split.flatMap(({ model: of, share, rows: [row] }, j): Neighbour[] =>
      j === i ? [] : [{ model: of, share, latencyMs: row!.latencyMs! }],
    )
    const best = rows
      .map((row) => ({ row, slowdown: slows(kind.name, { model, share: row.share!, latencyMs: row.latencyMs! }, others) }))
      .map(({ row, slowdown }) => ({ row, slowdown, rateRps: slowedRps(row, slowdown) }))
      .sort((a, b) => b.rateRps - a.rateRps)[0]
    if (best === undefined || best.rateRps <= 0) return undefined
    sharers.push({
      model,
      segment: {
        ...best.row,
        rateRps: best.rateRps,
        beside: { others: others.map((of) => of.model), aloneRps: best.row.rateRps, ...best.slowdown },
      },
    })
  }
  const memoryMiB = sharers.reduce((sum, { segment }) => sum + memoryOf(segment), 0)
  return memoryMiB <= kind.mps!.memoryMiB ? { kind, sharers } : undefined
}

/** A server that takes so many times as long keeps its SLO at that part of its rate, where a batch is done in time. */
const slowedRps = ({ rateRps, latencyMs, limitMs = Number.POSITIVE_INFINITY }: Segment, { upper }: Slowdown): number =>
  latencyMs! * upper <= limitMs ? rateRps / upper : 0

function memoryOf({ memoryMiB, row }: Segment): number {
  if (memoryMiB !== undefined) return memoryMiB
  throw new FleetError(
    `line ${row?.line} of a table is on a share of a GPU, and its memory is not said`,
    'add a column memoryMiB: GPU memory that its processes hold',
  )
}

/**
 * What may live on one GPU side by side under MPS: two or three replicas with their shares of its
 * threads, their memory together no more than it has, each as slow as its neighbours make it; or
 * one on its share, of a model that was not measured on the whole GPU.
 */
import { type Interference, interferenceOf, type Neighbour, type Slowdown } from './interference.ts'
import { FleetError, type GpuKind, type Segment, type Wanted } from './packing.ts'
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

/** Every content whose replicas all carry something. */
export function contentsOf(
  wanted: readonly Wanted[],
  kinds: readonly GpuKind[],
  { apart, slows = interferenceOf() }: Rules,
): Content[] {
  return kinds.flatMap((kind) => {
    if (kind.mps === undefined) return []
    const sharers = wanted.map((of) => sharesOn(of, kind)).filter(({ shares }) => shares.length > 0)
    const onShareAlone = sharers.filter(
      ({ model }) =>
        !wanted.some((of) => of.model === model && of.best.some(({ gpu }) => gpu === kind.name)),
    )
    return [
      ...onShareAlone.map((one) => [one]),
      ...groupsOf(sharers, sharers.length <= mostForTriples ? 3 : 2),
    ]
      .filter((group) =>
        apart.every(
          (names) =>
            new Set(group.map(({ model }) => model).filter((model) => names.includes(model)))
              .size <= 1,
        ),
      )
      .flatMap((group) => contentsOfGroup(kind, group, slows))
  })
}

/**
 * What was reckoned before, whatever was asked of the models then: a fleet is packed for many hours
 * and changes.
 */
const reckoned = new WeakMap<Interference, Map<string, readonly Content[]>>()
const numbers = new WeakMap<Segment, number>()
let numbered = 0

function numberOf(row: Segment): number {
  const number = numbers.get(row) ?? ++numbered
  numbers.set(row, number)
  return number
}

function contentsOfGroup(
  kind: GpuKind,
  group: readonly OnShares[],
  slows: Interference,
): Content[] {
  const before = reckoned.get(slows) ?? new Map<string, readonly Content[]>()
  reckoned.set(slows, before)
  const key = JSON.stringify([
    kind.name,
    kind.mps,
    group.map(({ model, shares }) => [model, shares.map(({ rows }) => rows.map(numberOf))]),
  ])
  const found =
    before.get(key) ??
    withoutLesser(splitsOf(group, 1).flatMap((split) => filled(kind, split, slows)))
  before.set(key, found)
  return found.map((content) => ({ ...content, kind }))
}

/** Those of which no other of the same models carries as much of each. */
function withoutLesser(all: readonly Content[]): Content[] {
  const kept: Content[] = []
  const isNoLess = (one: Content, other: Content) =>
    one.sharers.every(({ segment }, i) => segment.rateRps >= other.sharers[i]!.segment.rateRps)
  for (const content of all) {
    if (kept.some((other) => isNoLess(other, content))) continue
    for (let i = kept.length - 1; i >= 0; i--) if (isNoLess(content, kept[i]!)) kept.splice(i, 1)
    kept.push(content)
  }
  return kept
}

interface OnShares {
  readonly model: string
  /** Rows of a share, each with its latency. */
  readonly shares: readonly { readonly share: number; readonly rows: readonly Segment[] }[]
}

function sharesOn({ model, shared = [] }: Wanted, kind: GpuKind): OnShares {
  const rows = shared.filter(({ gpu }) => gpu === kind.name)
  const steps = [...new Set(rows.map(({ share }) => share!))].sort((a, b) => a - b)
  return {
    model,
    shares: steps.map((share) => ({ share, rows: rows.filter((row) => row.share === share) })),
  }
}

/** Two to `most` of them, one of them more than once too. */
function groupsOf(all: readonly OnShares[], most: number): OnShares[][] {
  const pairs = all.flatMap((a, i) => all.slice(i).map((b) => [a, b]))
  if (most < 3) return pairs
  return [
    ...pairs,
    ...all.flatMap((a, i) =>
      all.slice(i).flatMap((b, j) => all.slice(i + j).map((c) => [a, b, c])),
    ),
  ]
}

interface OnShare {
  readonly model: string
  readonly share: number
  readonly rows: readonly Segment[]
}

/** Ways to give them shares: less for one slows the others less. */
function splitsOf([first, ...others]: readonly OnShares[], left: number): OnShare[][] {
  if (first === undefined) return [[]]
  return first.shares
    .filter(({ share }) => share <= left + 1e-9)
    .flatMap((at) =>
      splitsOf(others, left - at.share).map((rest) => [{ model: first.model, ...at }, ...rest]),
    )
}

/**
 * Each in the configuration that carries most as slow as it gets; where their memory does not fit
 * together, in all that do.
 */
function filled(kind: GpuKind, split: readonly OnShare[], slows: Interference): Content[] {
  const { memoryMiB: room } = kind.mps!
  const options = split.map(({ model, rows }, i) =>
    optionsOf(kind, rows, { model, others: split.filter((_, j) => j !== i) }, slows),
  )
  if (options.some((own) => own.length === 0)) return []
  const most = options.map((own) => own.at(-1)!)
  if (memoryTaken(most) <= room) return [{ kind, sharers: most.map(({ sharer }) => sharer) }]
  const ways = options.reduce<Option[][]>(
    (all, own) =>
      all.flatMap((some) =>
        own.map((one) => [...some, one]).filter((joined) => memoryTaken(joined) <= room),
      ),
    [[]],
  )
  return withoutLesser(ways.map((one) => ({ kind, sharers: one.map(({ sharer }) => sharer) })))
}

interface Option {
  readonly sharer: Sharer
  readonly memoryMiB: number
}

const memoryTaken = (all: readonly Option[]): number =>
  all.reduce((sum, { memoryMiB }) => sum + memoryMiB, 0)

/**
 * Configurations of a model on its share beside these others, lightest first: what takes more
 * memory carries more for it.
 */
function optionsOf(
  kind: GpuKind,
  rows: readonly Segment[],
  { model, others }: { readonly model: string; readonly others: readonly OnShare[] },
  slows: Interference,
): Option[] {
  const beside = others.map(
    ({ model: of, share, rows: [row] }): Neighbour => ({
      model: of,
      share,
      latencyMs: row!.latencyMs!,
    }),
  )
  const options = rows.flatMap((row): Option[] => {
    const slowdown = slows(
      kind.name,
      { model, share: row.share!, latencyMs: row.latencyMs! },
      beside,
    )
    const rateRps = slowedRps(row, slowdown)
    const how = beside.length > 0 && {
      beside: { others: others.map((of) => of.model), aloneRps: row.rateRps, ...slowdown },
    }
    return rateRps > 0
      ? [{ sharer: { model, segment: { ...row, rateRps, ...how } }, memoryMiB: memoryOf(row) }]
      : []
  })
  const rateOf = ({ sharer }: Option) => sharer.segment.rateRps
  return options
    .sort((a, b) => a.memoryMiB - b.memoryMiB || rateOf(b) - rateOf(a))
    .filter((one, i, all) => all.slice(0, i).every((lighter) => rateOf(lighter) < rateOf(one)))
}

/**
 * A server that takes so many times as long keeps its SLO at that part of its rate, where a batch
 * is done in time.
 */
const slowedRps = (
  { rateRps, latencyMs, limitMs = Number.POSITIVE_INFINITY }: Segment,
  { upper }: Slowdown,
): number => (latencyMs! * upper <= limitMs ? rateRps / upper : 0)

function memoryOf({ memoryMiB, row }: Segment): number {
  if (memoryMiB !== undefined) return memoryMiB
  throw new FleetError(
    `line ${row?.line} of a table is on a share of a GPU, and its memory is not said`,
    'add a column memoryMiB: GPU memory that its processes hold',
  )
}

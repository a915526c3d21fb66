/**
 * What a packing keeps beyond its demands, checked on the packing itself: no solver is believed.
 */
import type { Interference } from './interference.ts'
import { type OverDay, stepsOfDay } from './over-day.ts'
import { type PackedGpu, routedAt, type Segment } from './packing.ts'

export interface Rules {
  /** Models that carry their demand with any one GPU lost. */
  readonly spared: ReadonlySet<string>
  /** Groups of models of which no two share a GPU. */
  readonly apart: readonly (readonly string[])[]
  /** What models on one GPU under MPS do to one another; absent: as is assumed. */
  readonly slows?: Interference
}

export const noRules: Rules = { spared: new Set(), apart: [] }

/** Of a demand, what counts as carried: the solver's own tolerance. */
export const enough = 1 - 1e-5

/** @param wanted what each model must carry, requests per second */
export function keepsAll(
  gpus: readonly PackedGpu[],
  wanted: readonly {
    readonly model: string
    readonly demandRps: number
    readonly overDay?: OverDay
  }[],
  { spared, apart }: Rules,
): boolean {
  const demands = new Map<string, number>()
  const turning = wanted.filter(({ overDay }) => overDay !== undefined)
  for (const { model, demandRps, overDay } of wanted)
    if (overDay === undefined) demands.set(model, (demands.get(model) ?? 0) + demandRps)
  const carries = [...demands].every(([model, demandRps]) => {
    const onEach = gpus.map(({ slots }) =>
      slots.flatMap(({ model: of, segment }) => (of === model && segment ? [segment] : [])),
    )
    const carried = (segments: readonly (readonly Segment[])[], asked: number): boolean => {
      const all = segments.flat().reduce((sum, { rateRps, gpus: of }) => sum + rateRps / of, 0)
      // Of a replica on several GPUs nothing is left where one of them is lost.
      const most = Math.max(
        0,
        ...segments.map((on) => on.reduce((sum, { rateRps }) => sum + rateRps, 0)),
      )
      return all - (spared.has(model) ? most : 0) >= asked * enough
    }
    const pools = new Map(
      onEach
        .flat()
        .flatMap((segment) =>
          segment.routed ? [[poolOf(segment), segment.routed.share] as const] : [],
        ),
    )
    if (pools.size === 0) return carried(onEach, demandRps)
    // What is routed to one pool, no other carries.
    const shares = [...pools.values()].reduce((sum, share) => sum + share, 0)
    const each = [...pools].every(([pool, share]) =>
      carried(
        onEach.map((on) => on.filter((segment) => poolOf(segment) === pool)),
        demandRps * share,
      ),
    )
    return shares >= enough && each
  })
  return (
    carries &&
    turning.every((one) =>
      keepsHours(gpus, one.model, one.demandRps, one.overDay!, spared.has(one.model)),
    ) &&
    gpus.every(({ slots }) =>
      apart.every((group) => modelsOf(slots).filter((model) => group.includes(model)).length <= 1),
    )
  )
}

/**
 * Whether what is in memory of a model carries its rate in each step of the day, with any one GPU
 * lost where that is `spared`, and each pool what is routed to it.
 */
function keepsHours(
  gpus: readonly PackedGpu[],
  model: string,
  demandRps: number,
  { levels, levelAt }: OverDay,
  spared: boolean,
): boolean {
  const own = gpus.flatMap(({ slots }) =>
    slots.flatMap((slot) => [slot, ...(slot.stays ?? [])]).filter((one) => one.model === model),
  )
  const pools = new Map(
    own.flatMap(({ segment }) => (segment?.routed ? [[poolOf(segment), segment] as const] : [])),
  )
  if (pools.size === 0) {
    const carried = inMemoryOver(gpus, model, ({ rateRps }) => rateRps)
    const onEach = spared
      ? gpus.map((gpu) => inMemoryOver([gpu], model, ({ rateRps, gpus: of }) => rateRps * of))
      : []
    const lostAt = (step: number) => Math.max(0, ...onEach.map((on) => on[step]!))
    return levelAt.every(
      (level, step) =>
        level === 0 || carried[step]! - lostAt(step) >= demandRps * levels[level - 1]! * enough,
    )
  }
  const all = levels.every(
    (_, i) =>
      [...pools.values()].reduce((sum, segment) => sum + routedAt(segment, i + 1).share, 0) >=
      enough,
  )
  const each = [...pools].every(([pool, segment]) => {
    const there = inMemoryOver(gpus, model, () => 1, pool)
    return levelAt.every((level, step) => {
      if (level === 0) return true
      const { share, rateRps } = routedAt(segment, level)
      return there[step]! * rateRps >= demandRps * share * levels[level - 1]! * enough
    })
  })
  return all && each
}

/**
 * Replicas of a model that are in memory in each step of the day, those that load counted, and what
 * is loaded as requests come as if it always were.
 * @param weigh what one counts as @param pool those alone
 */
export function inMemoryOver(
  gpus: readonly PackedGpu[],
  model: string,
  weigh: (replica: Segment) => number,
  pool?: string,
): number[] {
  const sum = new Array<number>(stepsOfDay).fill(0)
  const add = (
    one: { readonly model?: string; readonly segment?: Segment },
    from = 0,
    to = stepsOfDay,
  ) => {
    if (one.model !== model || !one.segment || (pool !== undefined && poolOf(one.segment) !== pool))
      return
    // A replica on several GPUs stands on each of them.
    for (let step = from; step < to; step++)
      sum[step % stepsOfDay]! += weigh(one.segment) / one.segment.gpus
  }
  for (const { stays = [], waiting = [], ...slot } of gpus.flatMap(({ slots }) => slots)) {
    add(slot)
    for (const one of waiting) add(one)
    for (const stay of stays) add(stay, stay.from, stay.to)
  }
  return sum
}

/** Whether a model may be put on a GPU where these are. */
export const mayJoin = (model: string, slots: PackedGpu['slots'], apart: Rules['apart']): boolean =>
  apart.every(
    (group) =>
      !group.includes(model) ||
      modelsOf(slots).every((other) => other === model || !group.includes(other)),
  )

/** Replicas that are alike. */
export const poolOf = ({ gpu, slice, gpus, label }: Segment): string =>
  [gpu, slice, gpus, label].join('\n')

const modelsOf = (slots: PackedGpu['slots']): string[] => [
  ...new Set(
    slots.flatMap(({ model, stays = [], waiting = [] }) => [
      ...(model === undefined ? [] : [model]),
      ...[...stays, ...waiting].map((one) => one.model),
    ]),
  ),
]

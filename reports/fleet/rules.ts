/** What a packing keeps beyond its demands, checked on the packing itself: no solver is believed. */
import type { Interference } from './interference.ts'
import type { PackedGpu, Segment } from './packing.ts'

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
  wanted: readonly { readonly model: string; readonly demandRps: number }[],
  { spared, apart }: Rules,
): boolean {
  const demands = new Map<string, number>()
  for (const { model, demandRps } of wanted) demands.set(model, (demands.get(model) ?? 0) + demandRps)
  const carries = [...demands].every(([model, demandRps]) => {
    const onEach = gpus.map(({ slots }) => slots.flatMap(({ model: of, segment }) => (of === model && segment ? [segment] : [])))
    const carried = (segments: readonly (readonly Segment[])[], asked: number): boolean => {
      const all = segments.flat().reduce((sum, { rateRps, gpus: of }) => sum + rateRps / of, 0)
      // Of a replica on several GPUs nothing is left where one of them is lost.
      const most = Math.max(0, ...segments.map((on) => on.reduce((sum, { rateRps }) => sum + rateRps, 0)))
      return all - (spared.has(model) ? most : 0) >= asked * enough
    }
    const pools = new Map(onEach.flat().flatMap((segment) => (segment.routed ? [[poolOf(segment), segment.routed.share] as const] : [])))
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
  return carries && gpus.every(({ slots }) => apart.every((group) => modelsOf(slots).filter((model) => group.includes(model)).length <= 1))
}

/** Whether a model may be put on a GPU where these are. */
export const mayJoin = (model: string, slots: PackedGpu['slots'], apart: Rules['apart']): boolean =>
  apart.every((group) => !group.includes(model) || modelsOf(slots).every((other) => other === model || !group.includes(other)))

/** Replicas that are alike. */
export const poolOf = ({ gpu, slice, gpus, label }: Segment): string => [gpu, slice, gpus, label].join('\n')

const modelsOf = (slots: PackedGpu['slots']): string[] => [...new Set(slots.flatMap(({ model }) => (model === undefined ? [] : [model])))]

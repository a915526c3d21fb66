/** What a packing keeps beyond its demands, checked on the packing itself: no solver is believed. */
import type { PackedGpu } from './packing.ts'

export interface Rules {
  /** Models that carry their demand with any one GPU lost. */
  readonly spared: ReadonlySet<string>
  /** Groups of models of which no two share a GPU. */
  readonly apart: readonly (readonly string[])[]
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
  const carries = wanted.every(({ model, demandRps }) => {
    const onEach = gpus.map(({ slots }) => slots.flatMap(({ model: of, segment }) => (of === model && segment ? [segment] : [])))
    const all = onEach.flat().reduce((sum, { rateRps, gpus: of }) => sum + rateRps / of, 0)
    // Of a replica on several GPUs nothing is left where one of them is lost.
    const most = Math.max(0, ...onEach.map((segments) => segments.reduce((sum, { rateRps }) => sum + rateRps, 0)))
    return all - (spared.has(model) ? most : 0) >= demandRps * enough
  })
  return carries && gpus.every(({ slots }) => apart.every((group) => modelsOf(slots).filter((model) => group.includes(model)).length <= 1))
}

/** Whether a model may be put on a GPU where these are. */
export const mayJoin = (model: string, slots: PackedGpu['slots'], apart: Rules['apart']): boolean =>
  apart.every((group) => !group.includes(model) || modelsOf(slots).every((other) => other === model || !group.includes(other)))

const modelsOf = (slots: PackedGpu['slots']): string[] => [...new Set(slots.flatMap(({ model }) => (model === undefined ? [] : [model])))]

/**
 * Models whose requests are told apart by size: what each costs alone on a mix of kinds of GPUs, on
 * the best single kind, and routed by the length of its input alone.
 */
import { byInputAlone } from './buckets.ts'
import { type Compared, comparedOf, ifAny } from './comparisons.ts'
import { pack } from './pack.ts'
import type { FleetModel, GpuKind } from './packing.ts'

export interface Mix {
  readonly model: string
  readonly alone: Compared
  /** Every kind by itself, cheapest first; `unserved`: kinds on which a bucket keeps no SLO. */
  readonly kinds: readonly (Compared & { readonly kind: string })[]
  readonly unserved: readonly string[]
  /** Absent: its buckets are told apart by nothing that is not known beforehand. */
  readonly byInput?: Compared
}

/** A model alone takes the solver less. */
const seconds = 5

/** At the peak, as many GPUs as are wanted. */
export async function mixOf(
  model: FleetModel,
  demandRps: number,
  kinds: readonly GpuKind[],
): Promise<Mix> {
  const packed = (of: FleetModel, on: readonly GpuKind[]) => pack([of], [demandRps], on, seconds)
  const alone = comparedOf(await packed(model, kinds))
  const single: (Compared & { readonly kind: string })[] = []
  for (const kind of kinds) {
    const found = await ifAny(() => packed(model, [kind]))
    if (found) single.push({ kind: kind.name, ...found })
  }
  const merged = byInputAlone(model)
  const byInput = merged && (await ifAny(() => packed(merged, kinds)))
  return {
    model: model.name,
    alone,
    kinds: single.sort((a, b) => a.pricePerHour - b.pricePerHour),
    unserved: kinds.flatMap(({ name }) => (single.some(({ kind }) => kind === name) ? [] : [name])),
    ...(byInput && { byInput }),
  }
}

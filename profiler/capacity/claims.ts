/** What may be claimed of a capacity, beside what was seen of it. */
import type { Capacity } from '../types.ts'
import type { Evidence } from './evidence.ts'
import { between } from './known-capacity.ts'
import type { CapacityPosterior } from './posterior.ts'

/** A capacity is claimed up to this much beyond the highest rate that was seen to be served, and an interval up to that much: the rest is the twin's imagination. */
const claimed = 1.15
const imagined = 1.5

/** The estimate beside what was seen: its lower end was held by an open window, and its upper end lies below none that was held with room to spare. */
export function withEvidence(
  { capacityRps, capacityCi90Rps: [low, high] }: CapacityPosterior,
  { heldRps, surelyHeldRps }: Pick<Evidence, 'heldRps' | 'surelyHeldRps'>,
): Capacity {
  return between(Math.min(low, heldRps), Math.max(high, surelyHeldRps), capacityRps)
}

/** What a cold server or merged reads make the twin imagine beyond what was served is no capacity. */
export function withinReach(
  { capacityRps, capacityCi90Rps: [low, high], ...rest }: CapacityPosterior,
  servedRps: number,
): CapacityPosterior {
  const median = Math.min(capacityRps, claimed * servedRps)
  return {
    capacityRps: median,
    capacityCi90Rps: [Math.min(low, median, servedRps), Math.max(median, Math.min(high, imagined * servedRps))],
    ...rest,
  }
}

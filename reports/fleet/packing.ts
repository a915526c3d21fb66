/** What a fleet is made of: GPUs that may be cut, what was measured of models on their slices, and who stands where. */
import type { Partition } from '../../trials/devices/mig-placements.ts'

/** A GPU that is not cut. */
export const whole = 'whole'

export interface GpuKind {
  readonly name: string
  readonly pricePerHour: number
  /** How many there are. Absent: as many as needed. */
  readonly count?: number
  /** Ways to cut one; `[whole]` is one of them. */
  readonly partitions: readonly Partition[]
}

/** One replica of a model on a slice, as it was measured. */
export interface Segment {
  readonly gpu: string
  /** A MIG profile, or `whole`. */
  readonly slice: string
  /** Whole GPUs that it needs. */
  readonly gpus: number
  /** What it carries within the SLO. */
  readonly rateRps: number
  readonly label: string
  /** Of its experiment. */
  readonly trial?: number
  /** Of its table: where it stands, and what is told with it. */
  readonly row?: { readonly line: number; readonly values: Readonly<Record<string, string>> }
}

export interface FleetModel {
  readonly name: string
  readonly segments: readonly Segment[]
}

/** What stands on a slice; a replica on several GPUs stands on each of them. Absent segment: nothing does. */
interface Slot {
  readonly slice: string
  readonly model?: string
  readonly segment?: Segment
}

export interface PackedGpu {
  readonly kind: string
  readonly slots: readonly Slot[]
}

export interface Packing {
  readonly gpus: readonly PackedGpu[]
  readonly pricePerHour: number
  /** No packing costs less. */
  readonly boundPerHour: number
}

export class FleetError extends Error {
  constructor(
    message: string,
    readonly hint?: string,
  ) {
    super(message)
    this.name = 'FleetError'
  }
  readonly exitCode = 2
}

/** Of all that a model has on a slice, what carries most: a slice costs the same whatever runs on it. */
export function bestPerSlice({ segments }: FleetModel, kinds: readonly GpuKind[]): Segment[] {
  const best = new Map<string, Segment>()
  for (const segment of segments) {
    const key = `${segment.gpu} ${segment.slice} ${segment.gpus}`
    const isThere = kinds.some(
      ({ name, partitions }) => name === segment.gpu && partitions.some((partition) => partition.includes(segment.slice)),
    )
    if (isThere && segment.rateRps > (best.get(key)?.rateRps ?? 0)) best.set(key, segment)
  }
  return [...best.values()]
}

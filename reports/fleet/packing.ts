/** GPUs that may be cut, measurements of models on their slices, and replicas on GPUs. */
import type { Partition } from '../../trials/devices/mig-placements.ts'

/** Slice name of a GPU that is not cut. */
export const wholeGpu = 'whole'

/** 'T4', '3g.20gb of A100-40GB' */
export const formatPlace = ({ gpu, slice }: Pick<Segment, 'gpu' | 'slice'>): string =>
  slice === wholeGpu ? gpu : `${slice} of ${gpu}`

export interface GpuKind {
  readonly name: string
  readonly pricePerHour: number
  /** Number of GPUs that exist. Absent: as many as needed. */
  readonly count?: number
  /** Possible partitions of one GPU, `[whole]` among them. */
  readonly partitions: readonly Partition[]
  /** Memory for all processes on it; absent: it is not shared by MPS. */
  readonly mps?: { readonly memoryMiB: number }
}

/** A measured replica of a model on a slice. */
export interface Segment {
  readonly gpu: string
  /** A MIG profile, a share under MPS, or `whole`. */
  readonly slice: string
  /** Number of whole GPUs that it needs. */
  readonly gpus: number
  /** Requests per second that it carries within the SLO. */
  readonly rateRps: number
  readonly label: string
  /** Share of the GPU's threads under MPS, 0-1. Absent: a whole GPU, or a slice of MIG. */
  readonly share?: number
  /** Under MPS: its rate without neighbours. */
  readonly unsharedRps?: number
  /** Under MPS: latency of its batches, and their limit. */
  readonly latencyMs?: number
  readonly limitMs?: number
  /** Under MPS: GPU memory that its processes hold. */
  readonly memoryMiB?: number
  /** Trial of its experiment. */
  readonly trial?: number
  /** Line of its table, and the other columns of that line. */
  readonly row?: { readonly line: number; readonly values: Readonly<Record<string, string>> }
}

export interface FleetModel {
  readonly name: string
  readonly segments: readonly Segment[]
}

/** A replica on several GPUs has a slot on each. Absent segment: the slice is free. */
export interface Slot {
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
  /** Lower bound: no packing costs less. */
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

/**
 * Selects the segment with the highest rate on each slice: a slice costs the same whatever runs on
 * it.
 */
export function selectBestPerSlice({ segments }: FleetModel, kinds: readonly GpuKind[]): Segment[] {
  const best = new Map<string, Segment>()
  for (const segment of segments) {
    const { gpu, slice, gpus, rateRps } = segment
    const isOffered = kinds.some(
      ({ name, partitions }) =>
        name === gpu && partitions.some((partition) => partition.includes(slice)),
    )
    const key = [gpu, slice, gpus].join('\n')
    if (isOffered && rateRps > (best.get(key)?.rateRps ?? 0)) best.set(key, segment)
  }
  return [...best.values()]
}

/** Requests per second that all replicas of a model carry. */
export const computeCarriedRps = (model: string, gpus: readonly PackedGpu[]): number =>
  gpus
    .flatMap(({ slots }) => slots)
    .reduce(
      (sum, { model: slotModel, segment }) =>
        sum + (slotModel === model && segment ? segment.rateRps / segment.gpus : 0),
      0,
    )

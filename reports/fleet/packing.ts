/**
 * What a fleet is made of: GPUs that may be cut, what was measured of models on their slices, and
 * who stands where.
 */

import type { Partition } from '../../trials/devices/mig-placements.ts'
import type { Slowdown } from './interference.ts'
import type { OverDay } from './over-day.ts'
import type { Asked, Waits } from './waits.ts'

/** A GPU that is not cut. */
export const whole = 'whole'

/** 'T4', '3g.20gb of A100-40GB' */
export const placeOf = ({
  gpu,
  slice,
}: {
  readonly gpu: string
  readonly slice: string
}): string => (slice === whole ? gpu : `${slice} of ${gpu}`)

export interface GpuKind {
  readonly name: string
  readonly pricePerHour: number
  /** How many there are. Absent: as many as needed. */
  readonly count?: number
  /** Ways to cut one; `[whole]` is one of them. */
  readonly partitions: readonly Partition[]
  /**
   * Of a slice, and of the whole, what processes there may hold of its memory; absent: not known.
   */
  readonly memoryMiB?: Readonly<Record<string, number>>
  /** It may be shared by MPS: memory for all processes on it together. */
  readonly mps?: { readonly memoryMiB: number }
}

/** Requests of a model that are alike in size, or of one class. */
export interface Bucket {
  readonly name: string
  /** Of the model's requests, 0-1. */
  readonly share: number
  /**
   * Those of one input length: buckets of the same name here differ by output alone. Absent: a
   * class, told by itself.
   */
  readonly input?: string
}

/** What of a model's requests goes to one segment of it. */
interface Routed {
  /** Of each bucket, 0-1. */
  readonly parts: readonly number[]
  /** Of all requests, 0-1. */
  readonly share: number
  /**
   * Where that changes over the day of a model that takes turns: at each of its levels, the last as
   * above.
   */
  readonly levels?: readonly RoutedAt[]
}

interface RoutedAt extends Omit<Routed, 'levels'> {
  /** What a replica carries of that mixture; 0 where nothing goes there. */
  readonly rateRps: number
}

/**
 * What goes to a segment, and what a replica of it carries, at a level of its model's day, the
 * first is 1.
 */
export const routedAt = ({ routed, rateRps }: Segment, level: number): RoutedAt =>
  routed?.levels?.[level - 1] ?? { parts: routed?.parts ?? [], share: routed?.share ?? 1, rateRps }

/** One replica of a model on a slice, as it was measured. */
export interface Segment {
  readonly gpu: string
  /** A MIG profile, or `whole`. */
  readonly slice: string
  /** Whole GPUs that it needs. */
  readonly gpus: number
  /**
   * What it carries within the SLO; of a model with buckets, of what is routed to it, or of all its
   * requests as they come while nothing is.
   */
  readonly rateRps: number
  /** Of each bucket alone; 0 where it cannot serve it. */
  readonly bucketRps?: readonly number[]
  readonly routed?: Routed
  /** Of the buckets' classes, the one whose experiment or table says how it is started. */
  readonly startedAs?: string
  readonly label: string
  /**
   * Of a GPU under MPS, of its threads, 0-1; its slice is then written '40%'. Absent: a whole one,
   * or a slice of MIG.
   */
  readonly share?: number
  /** Seconds until one that was not in memory serves. */
  readonly loadS?: number
  /** What its batches take, and may take; GPU memory that its processes hold. */
  readonly latencyMs?: number
  readonly limitMs?: number
  /** What one request at a time takes, the SLO's percentile, where that was measured. */
  readonly idleMs?: number
  readonly memoryMiB?: number
  /**
   * Packed beside others under MPS: who they are, what it carries alone on its share, and how much
   * slower they make it.
   */
  readonly beside?: Slowdown & { readonly others: readonly string[]; readonly aloneRps: number }
  /** Of its experiment. */
  readonly trial?: number
  /** Of its table: where it stands, and what is told with it. */
  readonly row?: { readonly line: number; readonly values: Readonly<Record<string, string>> }
}

export interface FleetModel {
  readonly name: string
  readonly segments: readonly Segment[]
  /** Kinds of requests that may go to different GPUs. */
  readonly buckets?: readonly Bucket[]
  /**
   * What a replica carries of a mixture of buckets (parts of each), where more is known than what
   * it carries if the times of all add up.
   */
  readonly mixedRps?: (segment: Segment, parts: readonly number[], addedRps: number) => number
  /** Its rates were not measured: what they are instead, and their error. */
  readonly estimated?: string
  /** It may be put out of memory; absent: it stays. */
  readonly turning?: Turning
  /** What of it is in memory when; absent: all of it always. */
  readonly overDay?: OverDay
  /** Its requests as they come, of one that may be loaded when they do. */
  readonly asked?: Asked
}

/** How a model comes back into memory. */
export interface Turning {
  /** Seconds until its slowest replica serves that was not there. */
  readonly loadS: number
  readonly loadFrom: 'as given' | 'of its table' | 'measured' | 'assumed, from its weights'
  /**
   * It leaves so many seconds before its hours end: what comes then is refused, as the user allows.
   */
  readonly endsEarlyS?: number
  /**
   * Its requests may wait for that: the SLO's percentile, 0-1, and seconds where its weights wait
   * in the host's memory.
   */
  readonly onDemand?: { readonly percentile: number; readonly wakeS?: number }
}

/** A model that asks for something, and the best that it has on each kind of slice. */
export interface Wanted
  extends Pick<FleetModel, 'buckets' | 'mixedRps' | 'overDay' | 'asked' | 'turning'> {
  readonly model: string
  readonly demandRps: number
  readonly best: readonly Segment[]
  /**
   * On shares of GPUs under MPS. Models that bear the loss of a GPU, and those whose requests are
   * routed by size, have slices or GPUs of their own.
   */
  readonly shared?: readonly Segment[]
}

/** Replicas of a model on a kind of slice. */
export interface Counted {
  readonly model: string
  readonly segment: Segment
  readonly count: number
  /**
   * Of a model that takes turns, the level of its day from which on they are in memory, the first
   * is 1; absent: always.
   */
  readonly from?: number
}

/** A replica that is in memory for a part of the day. */
export interface Stay {
  readonly model: string
  readonly segment: Segment
  /**
   * Steps of the day, what it loads in counted; `to` is above the day's end where it stays over
   * midnight.
   */
  readonly from: number
  readonly to: number
}

/** A model that is loaded into a slice when its requests come, in turns with others. */
export interface Waiting {
  readonly model: string
  readonly segment: Segment
  readonly waits: Waits
}

/**
 * Models that are loaded into a slice as their requests come, of which several are in memory at
 * once.
 */
export interface Together {
  /** So many at the most; all of them: none ever leaves. */
  readonly most: number
  /** Who may be there with whom, none of these sets a part of another. */
  readonly sets: readonly (readonly string[])[]
  /** Who leaves first. */
  readonly leaving: readonly string[]
}

/**
 * What stands on a slice; a replica on several GPUs stands on each of them. Absent segment: nothing
 * does, or some do in turns.
 */
interface Slot {
  readonly slice: string
  readonly model?: string
  readonly segment?: Segment
  /** By the hours of the day, in their order. */
  readonly stays?: readonly Stay[]
  /** As requests come. */
  readonly waiting?: readonly Waiting[]
  /** Absent: one of these is in memory at a time. */
  readonly together?: Together
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

/**
 * Of all that a model has on a slice, what carries most: a slice costs the same whatever runs on
 * it. With buckets, all that carry most of any mixture of them may be.
 */
export function bestPerSlice({ segments }: FleetModel, kinds: readonly GpuKind[]): Segment[] {
  const there = segments.filter(
    ({ gpu, slice, share }) =>
      share === undefined &&
      kinds.some(
        ({ name, partitions }) =>
          name === gpu && partitions.some((partition) => partition.includes(slice)),
      ),
  )
  const best: Segment[] = []
  for (const segment of there.filter((one) => ratesOf(one).some((rps) => rps > 0))) {
    if (best.some((other) => isNoLess(other, segment))) continue
    for (let i = best.length - 1; i >= 0; i--) if (isNoLess(segment, best[i]!)) best.splice(i, 1)
    best.push(segment)
  }
  return best
}

const ratesOf = ({ bucketRps, rateRps }: Segment): readonly number[] => bucketRps ?? [rateRps]

const isNoLess = (one: Segment, other: Segment): boolean =>
  one.gpu === other.gpu &&
  one.slice === other.slice &&
  one.gpus === other.gpus &&
  ratesOf(one).every((rps, i) => rps >= ratesOf(other)[i]!)

/**
 * Seconds that a request of a replica which is not busy may wait and still keep its SLO; 0 where
 * nothing is known of that.
 */
export const slackOf = ({ limitMs, idleMs, latencyMs }: Segment): number => {
  const takesMs = idleMs ?? latencyMs
  return limitMs === undefined || takesMs === undefined ? 0 : Math.max(0, limitMs - takesMs) / 1000
}

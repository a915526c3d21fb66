/**
 * Shares of a GPU under MPS as slices, so that the integer programme that chooses the number of
 * GPUs of each partition treats them like MIG slices. A slice is a share of the threads and a part
 * of the memory.
 */
import type { FleetModel, GpuKind, Segment } from './packing.ts'

/**
 * Relative slowdown of a model per unit of GPU share that its neighbours use (1: a whole GPU), in
 * the linear form of iGniter (Xu et al., TPDS 2022). It is the mean of 24 measured pairs plus two
 * standard deviations: about one pair in forty is worse. Four pairs are iGniter's, on a V100.
 * Twenty are BERT-base on an H200 and an H100 (`trials/devices/tables/*-neighbours.csv`).
 */
export const slowdownPerGpu = 0.81

/**
 * Latency beside neighbours over that alone, for a replica on a share of the threads, 0-1.
 * Neighbours count as taking all that it leaves.
 */
export const computeNeighbourSlowdown = (share: number): number => 1 + slowdownPerGpu * (1 - share)

/** Memory is allotted in sixteenths of a GPU, which bounds the number of different slices. */
const stepsPerGpu = 16
/** The slowdown was measured on pairs; more than three processes would stretch it too far. */
const maxReplicasPerGpu = 3
/** With more kinds of slices only pairs are considered, which keeps partitions below 2,000. */
const maxSlicesForTriples = 20

interface MpsSlice {
  readonly name: string
  readonly share: number
  /** Memory in units of 1 / `stepsPerGpu` of the GPU. */
  readonly memorySteps: number
}

/**
 * Extends models and GPUs: GPUs with `mps` may also be cut into shares, and segments on
 * shares have the rate that they reach beside neighbours. A replica is left out if its batch gets
 * slower than the SLO allows, or where it does not fit.
 */
export function addMpsSlices<Model extends FleetModel>(
  models: readonly Model[],
  kinds: readonly GpuKind[],
): { readonly models: readonly Model[]; readonly kinds: readonly GpuKind[] } {
  if (kinds.every(({ mps }) => mps === undefined)) return { models, kinds }
  const slices = new Map<GpuKind, Map<string, MpsSlice>>()
  const sharedModels = models.map((model) => ({
    ...model,
    segments: model.segments.flatMap((segment): Segment[] => {
      const kind = kinds.find(({ name, mps }) => name === segment.gpu && mps)
      if (segment.share === undefined || kind === undefined) return [segment]
      const slice = findSlice(segment, kind.mps!.memoryMiB)
      const slowdown = computeNeighbourSlowdown(segment.share)
      const latencyMs = segment.latencyMs! * slowdown
      if (slice === undefined || latencyMs > (segment.limitMs ?? Number.POSITIVE_INFINITY))
        return []
      const slicesOfKind = slices.get(kind) ?? new Map<string, MpsSlice>()
      slices.set(kind, slicesOfKind.set(slice.name, slice))
      const { rateRps } = segment
      return [{ ...segment, slice: slice.name, rateRps: rateRps / slowdown, unsharedRps: rateRps }]
    }),
  }))
  const cutKinds = kinds.map((kind) => {
    const ownSlices = [...(slices.get(kind)?.values() ?? [])]
    return { ...kind, partitions: [...kind.partitions, ...listPartitions(ownSlices)] }
  })
  return { models: sharedModels, kinds: cutKinds }
}

/**
 * Finds the slice that a segment needs, its memory rounded up; undefined if the GPU has less.
 */
function findSlice({ share = 1, memoryMiB = 0 }: Segment, gpuMiB: number): MpsSlice | undefined {
  const steps = Math.ceil((memoryMiB / gpuMiB) * stepsPerGpu - 1e-9)
  if (steps > stepsPerGpu) return undefined
  const gib = ((steps / stepsPerGpu) * gpuMiB) / 1024
  const name = `${Number((100 * share).toFixed(1))}%, ${gib.toFixed(1)} GiB`
  return { name, share, memorySteps: steps }
}

/** Lists all sets of slices that fit on one GPU together and to which no slice could be added. */
function listPartitions(slices: readonly MpsSlice[]): string[][] {
  const maxSize = slices.length > maxSlicesForTriples ? 2 : maxReplicasPerGpu
  const combinations: string[][] = []
  const extend = (names: readonly string[], from: number, share: number, memory: number): void => {
    const fits = (slice: MpsSlice) =>
      share + slice.share <= 1 + 1e-9 && memory + slice.memorySteps <= stepsPerGpu
    if (names.length > 0 && (names.length === maxSize || !slices.some(fits)))
      combinations.push([...names])
    if (names.length === maxSize) return
    for (const [i, slice] of slices.entries())
      if (i >= from && fits(slice))
        extend([...names, slice.name], i, share + slice.share, memory + slice.memorySteps)
  }
  extend([], 0, 0, 0)
  return combinations
}

/**
 * Which MIG slices fit on one GPU together. A slice starts only at certain memory slices and
 * occupies its share of them (NVIDIA MIG user guide, "MIG Profile Placements"; `nvidia-smi mig
 * -lgipp`). So two 3g slices exclude a 1g, although compute slices are left.
 */
import type { Gpu } from './catalogue.ts'
import { listMigProfiles, type MigProfile } from './mig.ts'

/** Names of the slices of one GPU, largest first. */
export type Partition = readonly string[]

/** All maximal partitions of a GPU; empty without MIG. */
export function enumeratePartitions(gpu: Gpu): Partition[] {
  const profiles = listMigProfiles(gpu)
  if (profiles.length === 0) return []
  const places = Math.max(...profiles.map((profile) => Math.round(1 / profile.memoryFraction)))
  const partitions = new Map<string, Partition>()
  const placeFrom = (place: number, compute: number, taken: Partition): void => {
    if (place >= places) {
      const sorted = taken.toSorted(
        (a, b) => profiles.findIndex((p) => p.name === b) - profiles.findIndex((p) => p.name === a),
      )
      partitions.set(sorted.join(), sorted)
      return
    }
    placeFrom(place + 1, compute, taken)
    for (const profile of profiles) {
      const size = Math.round(profile.memoryFraction * places)
      if (
        !listPlacements(profile, size, places).includes(place) ||
        compute + profile.computeFraction > 1 + 1e-9
      )
        continue
      placeFrom(place + size, compute + profile.computeFraction, [...taken, profile.name])
    }
  }
  placeFrom(0, 0, [])
  const all = [...partitions.values()]
  return all.filter(
    (partition) =>
      !all.some((other) => other.length > partition.length && containsSlices(other, partition)),
  )
}

/**
 * Start positions of a slice of this size: multiples of the size with enough compute slices. The
 * last of eight memory slices has no compute slice.
 */
function listPlacements({ computeFraction }: MigProfile, size: number, places: number): number[] {
  const computing = places === 8 ? 7 : places
  const starts = Array.from({ length: Math.floor(places / size) }, (_, i) => i * size)
  return starts.filter((start) => start + Math.round(computing * computeFraction) <= computing)
}

/** Whether a partition contains all slices of another. */
function containsSlices(partition: Partition, other: Partition): boolean {
  const remaining = [...partition]
  return other.every((slice) => {
    const at = remaining.indexOf(slice)
    if (at >= 0) remaining.splice(at, 1)
    return at >= 0
  })
}

/** Whether all these slices fit on one GPU of such partitions. */
export const canPlaceTogether = (
  partitions: readonly Partition[],
  slices: readonly string[],
): boolean => partitions.some((partition) => containsSlices(partition, slices))

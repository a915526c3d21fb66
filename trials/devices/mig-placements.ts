/**
 * How slices of one GPU can stand beside one another. A slice begins only at certain places of the
 * GPU's memory and takes as many as its part of it (NVIDIA MIG user guide, "MIG Profile
 * Placements"; `nvidia-smi mig -lgipp`): so two 3g exclude a 1g though compute slices are left.
 */
import type { Gpu } from './catalogue.ts'
import { type MigProfile, migProfilesOf } from './mig.ts'

/** Names of the slices of one GPU, largest first. */
export type Partition = readonly string[]

/** All partitions of a GPU that no slice could be added to; empty without MIG. */
export function partitionsOf(gpu: Gpu): Partition[] {
  const profiles = migProfilesOf(gpu)
  if (profiles.length === 0) return []
  const places = Math.max(...profiles.map((profile) => Math.round(1 / profile.memoryFraction)))
  const found = new Map<string, Partition>()
  const from = (place: number, compute: number, taken: Partition): void => {
    if (place >= places) {
      const sorted = taken.toSorted(
        (a, b) => profiles.findIndex((p) => p.name === b) - profiles.findIndex((p) => p.name === a),
      )
      found.set(sorted.join(), sorted)
      return
    }
    from(place + 1, compute, taken)
    for (const profile of profiles) {
      const size = Math.round(profile.memoryFraction * places)
      if (
        !startsOf(profile, size, places).includes(place) ||
        compute + profile.computeFraction > 1 + 1e-9
      )
        continue
      from(place + size, compute + profile.computeFraction, [...taken, profile.name])
    }
  }
  from(0, 0, [])
  const all = [...found.values()]
  return all.filter(
    (partition) => !all.some((other) => other.length > partition.length && holds(other, partition)),
  )
}

/**
 * Where a slice of so many places may begin: at multiples of its size, as far as there is something
 * to compute with. Of eight places the last has nothing of its own.
 */
function startsOf({ computeFraction }: MigProfile, size: number, places: number): number[] {
  const computing = places === 8 ? 7 : places
  const starts = Array.from({ length: Math.floor(places / size) }, (_, i) => i * size)
  return starts.filter((start) => start + Math.round(computing * computeFraction) <= computing)
}

/** Whether one partition has all slices of another. */
function holds(partition: Partition, other: Partition): boolean {
  const left = [...partition]
  return other.every((slice) => {
    const at = left.indexOf(slice)
    if (at >= 0) left.splice(at, 1)
    return at >= 0
  })
}

/** Whether all these slices fit on one GPU of such partitions. */
export const fitTogether = (partitions: readonly Partition[], slices: readonly string[]): boolean =>
  partitions.some((partition) => holds(partition, slices))

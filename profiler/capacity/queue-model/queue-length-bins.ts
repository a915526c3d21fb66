/** Bins of service steps by queue length. */
import { computeMoments } from '../../statistics/moments.ts'
import type { ServiceLog } from '../service-log/service-log.ts'

/** A bin with fewer steps joins its neighbour. Assumed. */
const minStepsPerBin = 8
/** Share by which bins of full batches may miss the largest batch, on average. Assumed. */
const maxMissingShare = 0.1

/** Service steps of a log, binned by the queue length at their start. */
interface Bins {
  /** Bin of each queue length; longer queues than observed use the last bin. */
  readonly binOf: Int32Array
  /** Indices of the steps of each bin, by ascending queue length. */
  readonly bins: readonly Int32Array[]
}

/**
 * Bins steps by queue length. A length with few steps joins the next larger one. Neighbouring bins
 * are merged where they do not differ, or where only chance makes the longer queue faster.
 * @param comparedColumns columns by which bins are compared, one value for each step
 * @param largestBatch largest batch of the closed loops, 0 if unknown
 */
export function binByQueueLength(
  log: ServiceLog,
  comparedColumns: readonly (readonly number[])[],
  largestBatch: number,
): Bins {
  const maxPresent = Math.max(...log.present)
  const byPresent: number[][] = Array.from({ length: maxPresent + 1 }, () => [])
  log.present.forEach((k, i) => {
    byPresent[k]!.push(i)
  })
  const groups: { maxLength: number; members: number[] }[] = []
  for (let k = 1; k <= maxPresent; k++) {
    const last = groups.at(-1)
    if (last !== undefined && last.members.length < minStepsPerBin) {
      last.members.push(...byPresent[k]!)
      last.maxLength = k
    } else groups.push({ maxLength: k, members: byPresent[k]! })
  }
  const lastGroup = groups.at(-1)!
  if (groups.length > 1 && lastGroup.members.length < minStepsPerBin) {
    groups.pop()
    groups.at(-1)!.members.push(...lastGroup.members)
    groups.at(-1)!.maxLength = maxPresent
  }
  for (let g = groups.length - 2; g >= 0; g--) {
    const [low, high] = [groups[g]!, groups[g + 1]!]
    if (
      !isSimilar(comparedColumns, low.members, high.members) &&
      !isFasterWithLongerQueue(log, largestBatch, low.members, high.members)
    )
      continue
    high.members.push(...low.members)
    groups.splice(g, 1)
  }
  const binOf = new Int32Array(maxPresent + 1)
  let bin = 0
  for (let k = 0; k <= maxPresent; k++) {
    if (k > groups[bin]!.maxLength) bin++
    binOf[k] = bin
  }
  return { binOf, bins: groups.map(({ members }) => Int32Array.from(members)) }
}

/**
 * Whether both bins hold full batches and those with the longer queue took less time. No server
 * speeds up with its queue: one bin is sparse, or its steps came after the last arrival. As a
 * separate bin it would make every long queue drain too fast.
 */
function isFasterWithLongerQueue(
  { present, tookMs, departed }: ServiceLog,
  largestBatch: number,
  shorterQueue: readonly number[],
  longerQueue: readonly number[],
): boolean {
  const maxBatch = departed.reduce((a, b) => Math.max(a, b), largestBatch)
  const areFull = (group: readonly number[]) =>
    group.every((i) => present[i]! >= maxBatch) &&
    computeMoments(departed, group).mean >= (1 - maxMissingShare) * maxBatch
  return (
    maxBatch > 1 &&
    areFull(shorterQueue) &&
    areFull(longerQueue) &&
    computeMoments(tookMs, longerQueue).mean < computeMoments(tookMs, shorterQueue).mean
  )
}

/** Whether two bins agree in all compared columns, within two standard errors or 1 %. */
function isSimilar(
  all: readonly (readonly number[])[],
  a: readonly number[],
  b: readonly number[],
): boolean {
  return all.every((values) => {
    const [momentsA, momentsB] = [computeMoments(values, a), computeMoments(values, b)]
    return (
      Math.abs(momentsA.mean - momentsB.mean) <=
      Math.max(
        2 * Math.sqrt(momentsA.variance / a.length + momentsB.variance / b.length),
        0.01 * (momentsA.mean + momentsB.mean) * 0.5,
      )
    )
  })
}

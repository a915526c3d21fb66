/** Bins of service steps by queue length. */
import { computeMoments, type ServiceLog } from '../service-log/service-log.ts'

const minStepsPerBin = 8
/** Full batches may lack on average this part of the largest batch. */
const maxMissingShare = 0.1

/**
 * Bins in order of queue length, the last one also for all larger lengths: indices into the log,
 * and the bin of each length.
 */
interface Bins {
  readonly binOf: Int32Array
  readonly bins: readonly Int32Array[]
}

/**
 * Bins steps by queue length. A length with few steps joins the next larger one, and neighbouring
 * bins that do not differ are merged.
 * @param compared columns by which bins are compared
 * @param largest largest batch of the server, observed in closed loops too
 */
export function binByQueueLength(
  log: ServiceLog,
  compared: readonly (readonly number[])[],
  largest: number,
): Bins {
  const maxPresent = Math.max(...log.present)
  const byPresent: number[][] = Array.from({ length: maxPresent + 1 }, () => [])
  log.present.forEach((k, i) => {
    byPresent[k]!.push(i)
  })
  const groups: { upTo: number; members: number[] }[] = []
  for (let k = 1; k <= maxPresent; k++) {
    const last = groups.at(-1)
    if (last !== undefined && last.members.length < minStepsPerBin) {
      last.members.push(...byPresent[k]!)
      last.upTo = k
    } else groups.push({ upTo: k, members: byPresent[k]! })
  }
  const top = groups.at(-1)!
  if (groups.length > 1 && top.members.length < minStepsPerBin) {
    groups.pop()
    groups.at(-1)!.members.push(...top.members)
    groups.at(-1)!.upTo = maxPresent
  }
  for (let g = groups.length - 2; g >= 0; g--) {
    const [low, high] = [groups[g]!, groups[g + 1]!]
    if (
      !isSimilar(compared, low.members, high.members) &&
      !isFasterWithLongerQueue(log, largest, low.members, high.members)
    )
      continue
    high.members.push(...low.members)
    groups.splice(g, 1)
  }
  const binOf = new Int32Array(maxPresent + 1)
  let bin = 0
  for (let k = 0; k <= maxPresent; k++) {
    if (k > groups[bin]!.upTo) bin++
    binOf[k] = bin
  }
  return { binOf, bins: groups.map(({ members }) => Int32Array.from(members)) }
}

/**
 * Whether both bins hold full batches and those with the longer queue took less time. A server has
 * no reason for that: one bin is sparse, or its steps came after the last arrival. Separate bins
 * would make every long queue drain too fast.
 */
function isFasterWithLongerQueue(
  { present, tookMs, departed }: ServiceLog,
  largest: number,
  fewer: readonly number[],
  more: readonly number[],
): boolean {
  const maxPresent = departed.reduce((a, b) => Math.max(a, b), largest)
  const full = (group: readonly number[]) =>
    group.every((i) => present[i]! >= maxPresent) &&
    computeMoments(departed, group).mean >= (1 - maxMissingShare) * maxPresent
  return (
    maxPresent > 1 &&
    full(fewer) &&
    full(more) &&
    computeMoments(tookMs, more).mean < computeMoments(tookMs, fewer).mean
  )
}

/** Whether two bins agree in all compared columns, within two standard errors or 1 %. */
function isSimilar(
  all: readonly (readonly number[])[],
  a: readonly number[],
  b: readonly number[],
): boolean {
  return all.every((values) => {
    const [x, y] = [computeMoments(values, a), computeMoments(values, b)]
    return (
      Math.abs(x.mean - y.mean) <=
      Math.max(
        2 * Math.sqrt(x.variance / a.length + y.variance / b.length),
        0.01 * (x.mean + y.mean) * 0.5,
      )
    )
  })
}

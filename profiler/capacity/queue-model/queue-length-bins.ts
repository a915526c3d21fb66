/** Groups of a twin's steps by the number of requests present when they began. */
import { moments, type Steps } from '../service-log/service-log.ts'

const fewestPerBin = 8
/**
 * Part of the largest batch that those of a group leave out on the mean, at most, for its batches
 * to be full.
 */
const nearlyFull = 0.1

/**
 * Groups in the order of the number present, the last for all larger numbers too: indices into the
 * steps, and the group of each number.
 */
interface Bins {
  readonly binOf: Int32Array
  readonly bins: readonly Int32Array[]
}

/**
 * Numbers of which few steps were seen are joined with the next larger one, and neighbours that do
 * not differ with each other.
 * @param compared values of each step by which groups differ
 * @param largest requests that the server was seen to take together, in closed loops too
 */
export function binsOf(
  steps: Steps,
  compared: readonly (readonly number[])[],
  largest: number,
): Bins {
  const most = Math.max(...steps.present)
  const byPresent: number[][] = Array.from({ length: most + 1 }, () => [])
  steps.present.forEach((k, i) => {
    byPresent[k]!.push(i)
  })
  const groups: { upTo: number; members: number[] }[] = []
  for (let k = 1; k <= most; k++) {
    const last = groups.at(-1)
    if (last !== undefined && last.members.length < fewestPerBin) {
      last.members.push(...byPresent[k]!)
      last.upTo = k
    } else groups.push({ upTo: k, members: byPresent[k]! })
  }
  const top = groups.at(-1)!
  if (groups.length > 1 && top.members.length < fewestPerBin) {
    groups.pop()
    groups.at(-1)!.members.push(...top.members)
    groups.at(-1)!.upTo = most
  }
  for (let g = groups.length - 2; g >= 0; g--) {
    const [low, high] = [groups[g]!, groups[g + 1]!]
    if (
      !alike(compared, low.members, high.members) &&
      !fasterForMoreWaiting(steps, largest, low.members, high.members)
    )
      continue
    high.members.push(...low.members)
    groups.splice(g, 1)
  }
  const binOf = new Int32Array(most + 1)
  let bin = 0
  for (let k = 0; k <= most; k++) {
    if (k > groups[bin]!.upTo) bin++
    binOf[k] = bin
  }
  return { binOf, bins: groups.map(({ members }) => Int32Array.from(members)) }
}

/**
 * Whether two groups of steps took full batches, and those of them with more waiting behind less
 * time. A server has no reason to: there were few of one, or they came when it had less to do, as
 * after the last arrival. Told apart they would make of every long queue one that is soon gone.
 */
function fasterForMoreWaiting(
  { present, tookMs, departed }: Steps,
  largest: number,
  fewer: readonly number[],
  more: readonly number[],
): boolean {
  const most = departed.reduce((a, b) => Math.max(a, b), largest)
  const full = (group: readonly number[]) =>
    group.every((i) => present[i]! >= most) &&
    moments(departed, group).mean >= (1 - nearlyFull) * most
  return (
    most > 1 &&
    full(fewer) &&
    full(more) &&
    moments(tookMs, more).mean < moments(tookMs, fewer).mean
  )
}

/**
 * Whether two groups of steps differ in none of some values, beyond chance (two standard errors) or
 * 1 %.
 */
function alike(
  all: readonly (readonly number[])[],
  a: readonly number[],
  b: readonly number[],
): boolean {
  return all.every((values) => {
    const [x, y] = [moments(values, a), moments(values, b)]
    return (
      Math.abs(x.mean - y.mean) <=
      Math.max(
        2 * Math.sqrt(x.variance / a.length + y.variance / b.length),
        0.01 * (x.mean + y.mean) * 0.5,
      )
    )
  })
}

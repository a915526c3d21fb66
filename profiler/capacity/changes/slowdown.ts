/**
 * A server that gets slower while it is measured: throttled, leaking, given less of its machine.
 * Steps are compared with what earlier ones let expect of them, for a slower server has longer
 * queues and larger batches, which alone make steps look otherwise.
 */
import { quantileOfSorted } from '../../statistics/percentile.ts'
import { theilSenSlope } from '../../statistics/theil-sen.ts'
import { joinSteps, type Steps, sliceSteps } from '../service-log/service-log.ts'

const fewest = 12
const certain = 4
/**
 * Slower by less than this share is left to the windows' own weight: rates differ, and what a step
 * takes depends a little on them.
 */
const least = 0.1
/**
 * Each lot before was faster by this part of the change at least: else the server is slow now and
 * then, which is its own.
 */
const eachFaster = 1 / 3
/** Lots that the steps of a window are parted into, of a dozen at least. */
const mostLots = 8
/** Steps of which a line through all pairs is drawn. */
const mostPaired = 150
const fewestAlike = 8

export interface Slowdown {
  /** Speed since over that before: 0.5 = half as fast. */
  readonly speed: number
  /** The first run that lies wholly after it; as many as there are where none does. */
  readonly from: number
}

/**
 * Where a server got slower and did not get faster again: the place among the lots of steps that
 * parts them best. Undefined where none does, beyond 10 % and chance (four standard errors).
 * @param runs in the order of time
 */
export function slowdownSeen(runs: readonly Steps[]): Slowdown | undefined {
  const parts = runs.flatMap((steps, run) =>
    partsOf(steps).map((part, place) => ({ steps: part, first: run + Math.min(1, place) })),
  )
  const stepsIn = (from: number, to?: number) =>
    joinSteps(parts.slice(from, to).map(({ steps }) => steps))
  let best: { readonly at: number; readonly slower: number; readonly certainty: number } | undefined
  for (let at = 1; at < parts.length; at++) {
    const { slower, error } = comparison(stepsIn(0, at), stepsIn(at))
    const certainty = slower / Math.max(error, 1e-3)
    if (slower > least && certainty > (best?.certainty ?? certain)) best = { at, slower, certainty }
  }
  if (best === undefined) return undefined
  const since = stepsIn(best.at)
  const fasterThan = (part: number) => comparison(parts[part]!.steps, since)
  const enough = eachFaster * best.slower
  // What parts them best may lie a little after the change, and that within a lot.
  let at = best.at
  while (at > 1 && fasterThan(at - 1).slower < enough) at--
  for (let part = 0; part < at - 1; part++) {
    const { slower, error } = fasterThan(part)
    if (slower + error < enough) return undefined
  }
  return { speed: Math.exp(-best.slower), from: parts[at]!.first }
}

/** @param speed at the end over that before @param goesOn its last window may have been slower still */
export function slowdownInWords(speed: number, goesOn: boolean): string {
  const times = `its steps took ${(1 / speed).toFixed(2)} times as long at the end as at the beginning`
  if (!goesOn) return `got slower while it was measured: ${times}`
  return speed < 1 ? `still slowing down: ${times} already` : 'slowing down at the end'
}

/**
 * Ln of how many times as long the later steps take as such steps took earlier, and its standard
 * error: infinite where too few are alike.
 */
export function comparison(
  before: Steps,
  after: Steps,
): { readonly slower: number; readonly error: number } {
  const expected = expectation(before)
  const logs = (steps: Steps) =>
    Float64Array.from(
      steps.tookMs.flatMap((ms, i) => {
        const expectedMs = expected(steps.present[i]!, steps.departed[i]!)
        return expectedMs > 0 && ms > 0 ? [Math.log(ms / expectedMs)] : []
      }),
    ).sort()
  const [a, b] = [logs(before), logs(after)]
  if (a.length < fewest || b.length < fewest) return { slower: 0, error: Number.POSITIVE_INFINITY }
  const [was, is] = [medianWithError(a), medianWithError(b)]
  return { slower: is.middle - was.middle, error: Math.hypot(was.error, is.error) }
}

/**
 * What a step is expected to take, ms: one that serves a single request as those with as many
 * present, more than were seen being as the most that were; a batch by a straight line over its
 * size (Theil 1950, Sen 1968). NaN of larger sizes than were seen, and of fewer present than were
 * usual: where workers are free, fewer of them take longer.
 */
function expectation(seen: Steps): (present: number, departed: number) => number {
  const singles: { present: number; ms: number }[] = []
  const batches: { size: number; ms: number }[] = []
  for (const [i, ms] of seen.tookMs.entries()) {
    if (seen.departed[i] === 1) singles.push({ present: seen.present[i]!, ms })
    else batches.push({ size: seen.departed[i]!, ms })
  }
  singles.sort((a, b) => a.present - b.present)
  const groups: { readonly upTo: number; readonly usual: number; readonly ms: number }[] = []
  for (let from = 0; from < singles.length; ) {
    let to = Math.min(singles.length, from + fewestAlike)
    while (to < singles.length && singles[to]!.present === singles[to - 1]!.present) to++
    if (singles.length - to < fewestAlike) to = singles.length
    const group = singles.slice(from, to)
    groups.push({
      upTo: group.at(-1)!.present,
      usual: group[group.length >> 1]!.present,
      ms: median(group.map(({ ms }) => ms)),
    })
    from = to
  }
  const largest = batches.reduce((most, { size }) => Math.max(most, size), 0)
  const line = lineThrough(batches)
  return (present, departed) => {
    if (departed > 1)
      return batches.length < fewestAlike || departed > largest ? Number.NaN : line(departed)
    const group = groups.find(({ upTo }) => present <= upTo) ?? groups.at(-1)
    return group === undefined || singles.length < fewestAlike || present < group.usual
      ? Number.NaN
      : group.ms
  }
}

function lineThrough(all: readonly { size: number; ms: number }[]): (size: number) => number {
  const some = all.filter((_, i) => i % Math.ceil(all.length / mostPaired) === 0)
  const msEach = Math.max(0, theilSenSlope(some.map(({ size, ms }) => ({ x: size, y: ms }))))
  const baseMs = all.length > 0 ? median(all.map(({ size, ms }) => ms - msEach * size)) : 0
  return (size) => baseMs + msEach * size
}

/**
 * Median, and its standard error by the mean deviation, were they normal and independent: a mixture
 * of two speeds deviates, however many are alike.
 */
function medianWithError(ascending: Float64Array): {
  readonly middle: number
  readonly error: number
} {
  const middle = quantileOfSorted(ascending, 0.5)
  const deviation = ascending.reduce((sum, x) => sum + Math.abs(x - middle), 0) / ascending.length
  return { middle, error: (1.2533 ** 2 * deviation) / Math.sqrt(ascending.length) }
}

const median = (values: readonly number[]): number =>
  quantileOfSorted(Float64Array.from(values).sort(), 0.5)

/** Its steps in lots, one after the other. */
function partsOf(steps: Steps): Steps[] {
  const n = steps.tookMs.length
  const lots = Math.min(mostLots, Math.max(1, Math.floor(n / fewest)))
  const from = (part: number) => Math.floor((part * n) / lots)
  return Array.from({ length: lots }, (_, part) => sliceSteps(steps, from(part), from(part + 1)))
}

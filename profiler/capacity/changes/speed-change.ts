/**
 * Whether a server got faster or slower from one window to another, by its steps: what the load
 * does to its queue does not matter.
 */
import { quantileOfSorted } from '../../statistics/percentile.ts'
import { servedBy, usualTimes } from '../service-log/typical-durations.ts'
import { joinSteps, type Steps } from '../service-log/service-log.ts'

const fewest = 12
const certain = 4
const least = 0.05

/**
 * Speed of the later steps over that of the earlier, by the median step of as many requests: 1.12 =
 * 12 % faster. 1 unless they differ by more than 5 % and chance.
 */
export function changeOfSteps(before: Steps, after: Steps): number {
  if (before.tookMs.length < fewest || after.tookMs.length < fewest) return 1
  const usualMs = usualTimes([joinSteps([before, after])])
  const logs = (steps: Steps) =>
    Float64Array.from(steps.tookMs, (ms, i) =>
      Math.log(Math.max(1e-6, ms) / Math.max(1e-6, usualMs[servedBy(steps, i)]!)),
    ).sort()
  const [a, b] = [robust(logs(before)), robust(logs(after))]
  const faster = a.middle - b.middle
  return Math.abs(faster) > Math.max(least, certain * Math.hypot(a.error, b.error))
    ? Math.exp(faster)
    : 1
}

/**
 * Median of ascending values, and its standard error by their median deviation, were they normal
 * and independent.
 */
function robust(ascending: Float64Array): { middle: number; error: number } {
  const middle = quantileOfSorted(ascending, 0.5)
  const deviation = quantileOfSorted(ascending.map((x) => Math.abs(x - middle)).sort(), 0.5)
  return { middle, error: (1.2533 * 1.4826 * deviation) / Math.sqrt(ascending.length) }
}

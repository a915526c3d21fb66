/**
 * Compares the speed of a server between two windows by its service steps, which queueing does not
 * change.
 */
import { quantileOfSorted } from '../../statistics/percentile.ts'
import { joinServiceLogs, type ServiceLog } from '../service-log/service-log.ts'
import { countServed, typicalDurations } from '../service-log/typical-durations.ts'

const minSteps = 12
const minStandardErrors = 4
const minChange = 0.05

/**
 * Computes the speed of the later steps over that of the earlier ones: 1.12 is 12 % faster.
 * Durations are compared for the same number of requests served. 1 unless the difference exceeds 5
 * % and four standard errors.
 */
export function compareSpeeds(before: ServiceLog, after: ServiceLog): number {
  if (before.tookMs.length < minSteps || after.tookMs.length < minSteps) return 1
  const typicalMs = typicalDurations([joinServiceLogs([before, after])])
  const logs = (log: ServiceLog) =>
    Float64Array.from(log.tookMs, (ms, i) =>
      Math.log(Math.max(1e-6, ms) / Math.max(1e-6, typicalMs[countServed(log, i)]!)),
    ).sort()
  const [earlier, later] = [medianWithError(logs(before)), medianWithError(logs(after))]
  const logSpeed = earlier.median - later.median
  return Math.abs(logSpeed) >
    Math.max(minChange, minStandardErrors * Math.hypot(earlier.error, later.error))
    ? Math.exp(logSpeed)
    : 1
}

/**
 * Median of ascending values and its standard error by the median absolute deviation, for
 * independent normal values.
 */
function medianWithError(ascending: Float64Array): { median: number; error: number } {
  const median = quantileOfSorted(ascending, 0.5)
  const deviation = quantileOfSorted(ascending.map((x) => Math.abs(x - median)).sort(), 0.5)
  return { median, error: (1.2533 * 1.4826 * deviation) / Math.sqrt(ascending.length) }
}

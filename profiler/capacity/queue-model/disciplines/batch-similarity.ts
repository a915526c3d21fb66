/**
 * Checks batching parameters: batches that they imply for closed loops must take as long as those
 * of open windows.
 */
import { median } from 'simple-statistics'
import { theilSenSlope } from '../../../statistics/theil-sen.ts'
import type { ServiceLog } from '../../service-log/service-log.ts'

/**
 * Relative difference between the batch durations of a closed loop and the line through those of
 * open load that counts as equal.
 */
const maxDifference = 0.05
/** Standard errors of the difference that count as equal. */
const maxStandardErrors = 3
/**
 * Factor by which the spread of a loop's batches about the line may exceed that of open load. Wrong
 * parameters take one batch for two, which gives a large spread.
 */
const maxSpreadFactor = 3
/** Consecutive batches whose median shows the drift of the machine's speed. */
const blockSize = 10

/**
 * Whether batches of a closed loop took as long as those of open load, within noise and the drift
 * of the machine's speed.
 * @param known batches of open load
 * @param other batches of the closed loop
 */
export function areBatchesSimilar(known: ServiceLog, other: ServiceLog): boolean {
  if (other.tookMs.length === 0) return true
  const slope = Math.max(0, theilSenSlope(samplePairs(known)))
  const baseMs = Math.max(
    1e-3,
    median(known.tookMs.map((ms, i) => ms - slope * known.departed[i]!)),
  )
  const logs = (log: ServiceLog) =>
    log.tookMs.map((ms, i) => Math.log(Math.max(1e-3, ms) / (baseMs + slope * log.departed[i]!)))
  const [knownLogs, otherLogs] = [logs(known), logs(other)]
  const shift = median(otherLogs)
  const spread = robustSd(knownLogs)
  if (
    robustSd(otherLogs.map((log) => log - shift)) >
    maxSpreadFactor * Math.max(maxDifference, spread)
  )
    return false
  const blockMedians = Array.from({ length: Math.floor(knownLogs.length / blockSize) }, (_, row) =>
    median(knownLogs.slice(row * blockSize, (row + 1) * blockSize)),
  )
  const blockSd = Math.max(
    spread / Math.sqrt(blockSize),
    blockMedians.length > 1 ? robustSd(blockMedians) : 0,
  )
  return (
    Math.abs(shift) <
    Math.max(
      maxDifference,
      maxStandardErrors *
        blockSd *
        Math.sqrt(blockSize / knownLogs.length + blockSize / otherLogs.length),
    )
  )
}

/** Robust standard deviation, from the median absolute value. */
const robustSd = (values: readonly number[]): number => 1.5 * median(values.map(Math.abs))

const maxPairedBatches = 150
const samplePairs = ({ tookMs, departed }: ServiceLog) =>
  tookMs
    .map((y, i) => ({ x: departed[i]!, y }))
    .filter((_, i) => i % Math.ceil(tookMs.length / maxPairedBatches) === 0)

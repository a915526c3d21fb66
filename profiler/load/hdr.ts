/** HDR histograms of latencies, for exchange with other tools. */
import hdr from 'hdr-histogram-js'
import { computeBinMiddleMs } from './latency-record.ts'

/** From a microsecond to an hour, to three significant digits. */
const range = {
  lowestDiscernibleValue: 1,
  highestTrackableValue: 3_600_000_000,
  numberOfSignificantValueDigits: 3,
} as const

/**
 * Encodes latencies as an HDR histogram in its own exchange format: V2, compressed, base64
 * (https://github.com/HdrHistogram/HdrHistogram). Its values are whole microseconds of answered
 * requests; failed ones (NaN) are left out. It takes a few kB for any number of requests, and
 * histograms of several windows or machines can be added.
 */
export function encodeHdrHistogram(latencyMs: Float64Array): string {
  const histogram = createHistogram()
  for (const ms of latencyMs) if (!Number.isNaN(ms)) histogram.recordValue(toMicroseconds(ms))
  return hdr.encodeIntoCompressedBase64(histogram)
}

/**
 * Converts a recorded histogram (latency-record.ts) to microseconds. Each latency becomes the
 * middle of its bin, which is within 2.2 % of it.
 */
export function buildHdrHistogram(record: readonly number[]): ReturnType<typeof hdr.build> {
  const histogram = createHistogram()
  for (let i = 0; i < record.length; i += 2)
    histogram.recordValueWithCount(toMicroseconds(computeBinMiddleMs(record[i]!)), record[i + 1]!)
  return histogram
}

const createHistogram = (): ReturnType<typeof hdr.build> =>
  hdr.build({ ...range, bitBucketSize: 64 })
const toMicroseconds = (ms: number): number =>
  Math.min(range.highestTrackableValue, Math.max(1, Math.round(1000 * ms)))

import hdr from 'hdr-histogram-js'

/** From a microsecond to an hour, to three significant digits. */
const range = { lowestDiscernibleValue: 1, highestTrackableValue: 3_600_000_000, numberOfSignificantValueDigits: 3 } as const

/**
 * Latencies as an HDR histogram in its own exchange format: V2, compressed, base64 (https://github.com/HdrHistogram/HdrHistogram).
 * Its values are whole microseconds of answered requests; failed ones (NaN) are left out. A histogram of any length has a few kB, and
 * those of several windows or machines add up to that of all.
 */
export function hdrHistogram(latencyMs: Float64Array): string {
  const histogram = hdr.build({ ...range, bitBucketSize: 64 })
  for (const ms of latencyMs)
    if (!Number.isNaN(ms)) histogram.recordValue(Math.min(range.highestTrackableValue, Math.max(1, Math.round(1000 * ms))))
  return hdr.encodeIntoCompressedBase64(histogram)
}

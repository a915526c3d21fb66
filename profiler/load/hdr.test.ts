import { inflateSync } from 'node:zlib'
import hdr from 'hdr-histogram-js'
import { expect, test } from 'vitest'
import { createUniform, sampleNormal } from '../seeded-random.ts'
import { selectQuantile } from '../statistics/percentile.ts'
import { encodeHdrHistogram } from './hdr.ts'

const lognormal = (n: number, uniform = createUniform(3)) =>
  Float64Array.from({ length: n }, () => 20 * Math.exp(0.5 * sampleNormal(uniform)))
const decoded = (text: string) => hdr.decodeFromCompressedBase64(text)

test('percentiles are those of the latencies, to three digits in microseconds', () => {
  const latencyMs = lognormal(20_000)
  const histogram = decoded(encodeHdrHistogram(latencyMs))
  latencyMs.sort()
  for (const p of [0.5, 0.9, 0.99, 0.999]) {
    const ratio = histogram.getValueAtPercentile(100 * p) / (1000 * selectQuantile(latencyMs, p))
    expect(Math.abs(ratio - 1)).toBeLessThan(0.0015)
  }
})

test('omits failed requests, and clamps latencies out of range', () => {
  const histogram = decoded(encodeHdrHistogram(Float64Array.of(Number.NaN, 0.0001, 4e9)))
  expect([histogram.totalCount, histogram.minNonZeroValue]).toEqual([2, 1])
  expect(histogram.maxValue / 3.6e9).toBeCloseTo(1, 2)
})

test('a latency is rounded to the nearest microsecond', () => {
  expect(
    [0.0126, 0.0124].map((ms) => decoded(encodeHdrHistogram(Float64Array.of(ms))).minNonZeroValue),
  ).toEqual([13, 12])
})

test('histograms of two windows add up to that of both', () => {
  const [a, b] = [lognormal(3000), lognormal(5000, createUniform(4))]
  const sum = decoded(encodeHdrHistogram(a))
  sum.add(decoded(encodeHdrHistogram(b)))
  const both = decoded(encodeHdrHistogram(Float64Array.of(...a, ...b)))
  expect(sum.totalCount).toBe(8000)
  for (const p of [50, 99, 100])
    expect(sum.getValueAtPercentile(p)).toBe(both.getValueAtPercentile(p))
})

test('the bytes are the format’s: its compressed cookie, its payload’s V2 cookie, three digits', () => {
  const bytes = Buffer.from(encodeHdrHistogram(Float64Array.of(5, 7)), 'base64')
  expect(bytes.readUInt32BE(0)).toBe(0x1c849314)
  const payload = inflateSync(bytes.subarray(8, 8 + bytes.readUInt32BE(4)))
  expect(payload.readUInt32BE(0)).toBe(0x1c849313)
  expect(payload.readInt32BE(12)).toBe(3)
})

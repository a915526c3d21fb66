import hdr from 'hdr-histogram-js'
import { expect, test } from 'vitest'
import { recordLatencies } from '../../profiler/load/latency-record.ts'
import { createUniform, sampleNormal } from '../../profiler/seeded-random.ts'
import { selectQuantile } from '../../profiler/statistics/percentile.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { complete, measured } from '../samples.contract.ts'
import { renderLatencyLog } from './latency-log.ts'

const uniform = createUniform(11)
const latencyMs = Float64Array.from(
  { length: 5_000 },
  () => 20 * Math.exp(0.5 * sampleNormal(uniform)),
)
const latencies = recordLatencies({ latencyMs } as Parameters<typeof recordLatencies>[0])
const sample = complete(3, { cpuCores: 1 }, measured(200, 10)) as Extract<
  FinishedTrial,
  { state: 'complete' }
>
const trial: FinishedTrial = {
  ...sample,
  measurement: {
    ...sample.measurement,
    points: sample.measurement.points.map((point, i) =>
      i === 1 ? { ...point, latencies } : { ...point, latencies: undefined },
    ),
  },
}

test('a reader of the format finds the step by its tag, with as many answers and their percentiles', () => {
  const log = renderLatencyLog([trial])
  const found = new hdr.HistogramLogReader(log).nextIntervalHistogram()!
  expect(found.tag).toBe(`trial-3-step-2-${trial.measurement.points[1]!.load.kind}-e2e`)
  expect(found.totalCount).toBe(latencyMs.length)
  const sorted = latencyMs.slice().sort()
  for (const p of [0.5, 0.9, 0.99]) {
    const ratio = found.getValueAtPercentile(100 * p) / (1000 * selectQuantile(sorted, p))
    expect(Math.abs(ratio - 1), `p${100 * p}`).toBeLessThan(0.024)
  }
})

test('steps without recorded latencies, and trials that never served, have no line', () => {
  const lines = renderLatencyLog([
    trial,
    { ...sample, state: 'failed', error: 'x' } as unknown as FinishedTrial,
  ])
    .trimEnd()
    .split('\n')
  expect(lines.filter((line) => !line.startsWith('#') && !line.startsWith('"'))).toHaveLength(1)
  expect(lines[0]).toMatch(/^#\[Histogram log format version 1\.\d\]$/)
})

/**
 * Latencies of every load step in the HDR histogram log format
 * (https://github.com/HdrHistogram/HdrHistogram), for the tools that read it.
 */
import hdr from 'hdr-histogram-js'
import { buildHdrHistogram } from '../../profiler/load/hdr.ts'
import type { LatencyMetric } from '../../profiler/model/latency-metrics.ts'
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import type { FinishedTrial } from '../../trials/types.ts'

const { HistogramLogWriter } = hdr
/** Microseconds in the unit of the log's largest values, ms. */
const perMs = 1000

/**
 * Renders an interval for each load step and each of its latencies, with a tag such as
 * `trial-3-step-2-open-e2e`. Steps follow each other from the start of their trial, because their
 * start times are not recorded. Steps without recorded latencies are left out.
 */
export function renderLatencyLog(trials: readonly FinishedTrial[]): string {
  const lines: string[] = []
  const writer = new HistogramLogWriter((text) => lines.push(text))
  writer.outputLogFormatVersion()
  writer.outputComment(
    '[Latencies in microseconds, each at the middle of its bin, within 2.2 %; largest values in ms]',
  )
  writer.outputLegend()
  for (const trial of trials) {
    if (trial.state !== 'complete') continue
    let atS = Date.parse(trial.startedAt) / 1000
    for (const [step, point] of trial.measurement.points.entries()) {
      const seconds = Number.isFinite(point.seconds) ? point.seconds : 0
      for (const [metric, record] of listRecords(point)) {
        const histogram = buildHdrHistogram(record)
        histogram.tag = `trial-${trial.number}-step-${step + 1}-${point.load.kind}-${metric}`
        writer.outputIntervalHistogram(histogram, atS, atS + seconds, perMs)
      }
      atS += seconds
    }
  }
  return lines.join('')
}

function listRecords({
  latencies,
}: LoadPoint): readonly (readonly [LatencyMetric, readonly number[]])[] {
  if (!latencies) return []
  const { dispersion: _, ...records } = latencies
  return (Object.entries(records) as [LatencyMetric, readonly number[]][]).filter(
    ([, record]) => record.length > 0,
  )
}

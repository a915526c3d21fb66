/** A server's own metrics. A trial reads them at one rate, that of its capacity. */
import { tabulateReadings } from '../../profiler/prometheus.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { rateTolerance } from './windows.ts'

export type MetricValues = Readonly<Record<string, number>>

/**
 * Metrics by name at a rate, from the last trial that read them there. Undefined at other rates: a
 * queue at half the load has another length, so a load curve says nothing about it.
 */
export const findMetricsAt = (
  trials: readonly FinishedTrial[],
  rateRps: number,
): MetricValues | undefined =>
  findLastMetrics(
    trials.filter(
      (t) =>
        t.state === 'complete' &&
        rateRps > 0 &&
        Math.abs(t.measurement.capacityRps / rateRps - 1) <= rateTolerance,
    ),
  )

/** Gets the metrics by name from the last trial that read them, at any rate. */
export function findLastMetrics(trials: readonly FinishedTrial[]): MetricValues | undefined {
  const last = trials
    .flatMap((t) =>
      (t.state === 'complete' ? (t.measurement.metrics ?? []) : []).length > 0 ? [t] : [],
    )
    .at(-1)
  return last?.state === 'complete' ? tabulateReadings(last.measurement.metrics) : undefined
}

/** A server's own metrics as trials read them, each at the one rate that it was read at. */
import { metricValues } from '../../profiler/prometheus.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { sameRate } from './windows.ts'

export type MetricValues = Readonly<Record<string, number>>

/**
 * By name, of the last of the trials that read them at a rate. Undefined at any other rate: a queue
 * at half the load is another queue, so that what a load curve says of another SLO says nothing of
 * them.
 */
export const metricsAt = (
  trials: readonly FinishedTrial[],
  rateRps: number,
): MetricValues | undefined =>
  metricsRead(
    trials.filter(
      (t) =>
        t.state === 'complete' &&
        rateRps > 0 &&
        Math.abs(t.measurement.capacityRps / rateRps - 1) <= sameRate,
    ),
  )

/** The same at whichever rate they were read last. */
export function metricsRead(trials: readonly FinishedTrial[]): MetricValues | undefined {
  const last = trials
    .flatMap((t) =>
      (t.state === 'complete' ? (t.measurement.metrics ?? []) : []).length > 0 ? [t] : [],
    )
    .at(-1)
  return last?.state === 'complete' ? metricValues(last.measurement.metrics) : undefined
}

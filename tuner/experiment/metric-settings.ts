/** `metrics` of the experiment file: what of the server's own metrics is read, and what bounds it. */
import type { AskedMetric } from '../../profiler/prometheus.ts'
import type { PredictorTemplate } from '../../trials/launchers/template.ts'
import type { Context } from './context.ts'

const usualPlace = '/metrics'

export function resolveMetrics({ entries, report }: Pick<Context, 'entries' | 'report'>, predictor: PredictorTemplate): AskedMetric[] {
  const asked = (entries.metrics ?? []).map(({ from, ...rest }): AskedMetric => ({ ...rest, from: from ?? usualPlace }))
  if (asked.length === 0) return asked
  if ((entries.backend ?? 'local') !== 'local')
    report(['metrics'], `metrics of a server are not read with backend ${entries.backend}`, 'leave them out, or use backend: local')
  if (predictor.kind !== 'builtin' && /^(grpc|tfserving-grpc)/.test(predictor.protocol))
    for (const { name, from } of asked)
      if (!/^https?:/i.test(from))
        report(['metrics'], `${name}: a gRPC port has no ${from}`, 'give the URL of its HTTP port: from: http://127.0.0.1:8002/metrics')
  return asked
}

export const metricEntries = (asked: readonly AskedMetric[]) => (asked.length === 0 ? undefined : asked.map((metric) => ({ ...metric })))

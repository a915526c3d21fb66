/**
 * `metrics` of the experiment file: what of the server's own metrics is read, and what bounds it.
 */
import type { AskedMetric } from '../../../profiler/model/server-metric.ts'
import { protocolTable } from '../../../profiler/protocols/protocol-table.ts'
import type { PredictorTemplate } from '../../../trials/launchers/template.ts'
import type { Context } from '../context.ts'

const usualPlace = '/metrics'

export function resolveMetrics(
  { entries, report }: Pick<Context, 'entries' | 'report'>,
  predictor: PredictorTemplate,
): AskedMetric[] {
  const asked = (entries.metrics ?? []).map(
    ({ from, ...rest }): AskedMetric => ({ ...rest, from: from ?? usualPlace }),
  )
  if (asked.length === 0) return asked
  if (entries.backend === 'simulated')
    report(
      ['metrics'],
      'metrics of a server are not read with backend simulated',
      'leave them out, or use backend: local or kubernetes',
    )
  const grpc =
    predictor.kind !== 'builtin' && protocolTable[predictor.protocol].transport === 'grpc'
  const forwarded =
    entries.backend === 'kubernetes' && entries.kubernetes?.loadFrom === 'port-forward'
  const triton = predictor.kind === 'command' && predictor.server?.kind === 'triton'
  for (const { name, from } of asked) {
    if (triton && from === usualPlace)
      report(
        ['metrics'],
        `${name}: Triton has its metrics on a port of its own`,
        'name it: from: ":8002/metrics"',
      )
    if (grpc && !/^(https?)?:/i.test(from))
      report(
        ['metrics'],
        `${name}: a gRPC port has no ${from}`,
        'give its HTTP port: from: ":8002/metrics"',
      )
    if (forwarded && from.startsWith(':'))
      report(
        ['metrics'],
        `${name}: of a forwarded pod no port but the predictor's is reached, not ${from}`,
        'say loadFrom: cluster, or here',
      )
  }
  return asked
}

export const metricEntries = (asked: readonly AskedMetric[]) =>
  asked.length === 0 ? undefined : asked.map((metric) => ({ ...metric }))

/** Resolves `metrics`: which of the server's metrics are read, where, and their bounds. */
import type { ServerMetric } from '../../../profiler/model/server-metric.ts'
import { protocolTable } from '../../../profiler/protocols/protocol-table.ts'
import type { PredictorTemplate } from '../../../trials/launchers/template.ts'
import type { Context } from '../context.ts'

const defaultMetricsPath = '/metrics'

export function resolveMetrics(
  { entries, report }: Pick<Context, 'entries' | 'report'>,
  predictor: PredictorTemplate,
): ServerMetric[] {
  const serverMetrics = (entries.metrics ?? []).map(
    ({ from, ...rest }): ServerMetric => ({ ...rest, from: from ?? defaultMetricsPath }),
  )
  if (serverMetrics.length === 0) return serverMetrics
  if (entries.backend === 'simulated')
    report(
      ['metrics'],
      'backend simulated cannot read metrics of a server',
      'remove them, or use backend: local or kubernetes',
    )
  const isGrpc =
    predictor.kind !== 'builtin' && protocolTable[predictor.protocol].transport === 'grpc'
  const isPortForwarded =
    entries.backend === 'kubernetes' && entries.kubernetes?.loadFrom === 'port-forward'
  const isTriton = predictor.kind === 'command' && predictor.server?.kind === 'triton'
  for (const { name, from } of serverMetrics) {
    if (isTriton && from === defaultMetricsPath)
      report(
        ['metrics'],
        `${name}: Triton serves its metrics on a separate port`,
        'set it: from: ":8002/metrics"',
      )
    if (isGrpc && !/^(https?)?:/i.test(from))
      report(
        ['metrics'],
        `${name}: a gRPC port does not serve ${from}`,
        'set the HTTP port: from: ":8002/metrics"',
      )
    if (isPortForwarded && from.startsWith(':'))
      report(
        ['metrics'],
        `${name}: port forwarding reaches only the port of the predictor, not ${from}`,
        'set loadFrom: cluster or here',
      )
  }
  return serverMetrics
}

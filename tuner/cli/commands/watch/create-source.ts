/** Creates the source of production metrics for `tune watch`: Prometheus, or an access log. */
import { resolveDeployed } from '../../../../reports/figures.ts'
import { parseDurationMs } from '../../../config/values/units.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { parseChoice } from '../command-options.ts'
import type { ReopenedExperiment } from '../reopen-experiment.ts'
import { logShapes, parseFieldFlags } from './access-log/index.ts'
import {
  buildDefaultQueries,
  type FigureName,
  figureNames,
  monitoredServers,
  type Queries,
} from './default-queries.ts'
import type { DeployedConfiguration } from './deployed-configuration.ts'
import { LogSource } from './log-source.ts'
import type { ProductionSource } from './production-source.ts'
import { PrometheusSource } from './prometheus-source.ts'
import type { WatchFlags } from './watch-flags.ts'

/** @throws UserError */
export function createSource(
  flags: WatchFlags,
  windowS: number,
  reopened: ReopenedExperiment,
  deployed: DeployedConfiguration,
): ProductionSource {
  if ((flags.prometheus === undefined) === (flags.log === undefined))
    throw new UserError(
      'tune watch needs exactly one source',
      'set --prometheus http://prometheus:9090, or --log access.log',
      exitCodes.usage,
    )
  const { percentile } = deployed.slo
  if (flags.log !== undefined) {
    if (deployed.replicas === undefined)
      throw new UserError(
        'a log does not contain the number of replicas',
        'set it with --replicas',
        exitCodes.usage,
      )
    return new LogSource({
      path: flags.log,
      ...(flags.logFormat !== undefined && {
        shape: parseChoice(flags.logFormat, logShapes, '--log-format'),
      }),
      fields: parseFieldFlags(flags.field, flags.versionLabel),
      paths: flags.path,
      windowS,
      percentile,
    })
  }
  const { rate, latency, ...optionalQueries } = resolveQueries(flags, reopened, deployed)
  if (rate === undefined || latency === undefined) {
    const missing = rate === undefined ? 'rate' : 'latency'
    throw new UserError(
      `there is no query for the ${missing}`,
      `choose the server or mesh that reports it with --server (${monitoredServers.join(', ')}), or write a query: --query '${missing}=...'`,
      exitCodes.usage,
    )
  }
  const initialLookbackS = parseDurationMs(flags.since) / 1000
  const token = process.env.TUNE_PROMETHEUS_TOKEN
  return new PrometheusSource({
    url: parsePrometheusUrl(flags.prometheus!),
    queries: { rate, latency, ...optionalQueries },
    windowS,
    selector: flags.selector,
    percentile,
    initialLookbackS,
    ...(token && { token }),
  })
}

function parsePrometheusUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url !== undefined && (url.username !== '' || url.password !== ''))
    throw new UserError(
      '--prometheus contains a password',
      'set a bearer token in TUNE_PROMETHEUS_TOKEN instead',
      exitCodes.usage,
    )
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  throw new UserError(
    `--prometheus ${text} is not a URL`,
    'write, for example, http://prometheus.monitoring:9090',
    exitCodes.usage,
  )
}

/** Resolves the queries: the defaults of the server, overridden by those of the user. */
function resolveQueries(
  { server, query, versionLabel, replicas }: WatchFlags,
  { recommendation }: ReopenedExperiment,
  { slo }: DeployedConfiguration,
): Queries {
  const measuredServer =
    recommendation.measuredWith && resolveDeployed(recommendation.measuredWith).server
  const monitoredServer =
    server === undefined
      ? monitoredServers.find((one) => one === measuredServer)
      : parseChoice(server, monitoredServers, '--server')
  const defaultQueries =
    monitoredServer === undefined
      ? {}
      : buildDefaultQueries(monitoredServer, slo.metric ?? 'e2e', versionLabel)
  // --replicas fixes the number of replicas, so that its query is not needed.
  const { replicas: replicasQuery, ...otherQueries } = defaultQueries
  const userQueries = query.map((text): [FigureName, string] => {
    const [, name = '', promql = ''] = /^\s*(\w+)\s*=\s*(\S[\s\S]*)$/.exec(text) ?? []
    return [parseChoice(name, figureNames, '--query'), promql]
  })
  return {
    ...otherQueries,
    ...(replicas === undefined && replicasQuery && { replicas: replicasQuery }),
    ...Object.fromEntries(userQueries),
  }
}

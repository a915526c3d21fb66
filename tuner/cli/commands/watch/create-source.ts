/** Creates the source of production data from the flags. */
import { resolveDeployed } from '../../../../reports/figures.ts'
import { parseDurationMs } from '../../../config/units.ts'
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
  const { rate, latency, ...others } = resolveQueries(flags, reopened, deployed)
  if (rate === undefined || latency === undefined) {
    const missing = rate === undefined ? 'rate' : 'latency'
    throw new UserError(
      `there is no query for the ${missing}`,
      `choose the server or mesh that reports it with --server (${monitoredServers.join(', ')}), or write a query: --query '${missing}=...'`,
      exitCodes.usage,
    )
  }
  const firstS = parseDurationMs(flags.since) / 1000
  const token = process.env.TUNE_PROMETHEUS_TOKEN
  return new PrometheusSource({
    url: parsePrometheusUrl(flags.prometheus!),
    queries: { rate, latency, ...others },
    windowS,
    selector: flags.selector,
    percentile,
    firstS,
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

/** Default queries of the server, overridden by the user's own. */
function resolveQueries(
  { server, query, versionLabel, replicas }: WatchFlags,
  { recommendation }: ReopenedExperiment,
  { slo }: DeployedConfiguration,
): Queries {
  const measured =
    recommendation.measuredWith && resolveDeployed(recommendation.measuredWith).server
  const named =
    server === undefined
      ? monitoredServers.find((one) => one === measured)
      : parseChoice(server, monitoredServers, '--server')
  const known =
    named === undefined ? {} : buildDefaultQueries(named, slo.metric ?? 'e2e', versionLabel)
  const { replicas: counted, ...rest } = known
  const own = query.map((text): [FigureName, string] => {
    const [, name = '', promql = ''] = /^\s*(\w+)\s*=\s*(\S[\s\S]*)$/.exec(text) ?? []
    return [parseChoice(name, figureNames, '--query'), promql]
  })
  return {
    ...rest,
    ...(replicas === undefined && counted && { replicas: counted }),
    ...Object.fromEntries(own),
  }
}

/** Which source the flags ask for. */
import { deployedFor } from '../../../reports/figures.ts'
import { parseDurationMs } from '../../config/units.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import { oneOf } from '../one-of.ts'
import type { Reopened } from '../reopened.ts'
import { logShapes, parseFieldFlags } from './access-log/index.ts'
import {
  defaultQueries,
  type FigureName,
  figureNames,
  type Queries,
  tellingServers,
} from './default-queries.ts'
import { LogSource } from './log-source.ts'
import type { Source } from './production-source.ts'
import { PrometheusSource } from './prometheus-source.ts'
import type { WatchFlags } from './watch-flags.ts'
import type { Deployed } from './watched.ts'

/** @throws UserError */
export function sourceOf(
  flags: WatchFlags,
  windowS: number,
  reopened: Reopened,
  deployed: Deployed,
): Source {
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
        shape: oneOf(flags.logFormat, logShapes, '--log-format'),
      }),
      fields: parseFieldFlags(flags.field, flags.versionLabel),
      paths: flags.path,
      windowS,
      percentile,
    })
  }
  const { rate, latency, ...others } = queriesOf(flags, reopened, deployed)
  if (rate === undefined || latency === undefined) {
    const missing = rate === undefined ? 'rate' : 'latency'
    throw new UserError(
      `there is no query for the ${missing}`,
      `choose the server or mesh that reports it with --server (${tellingServers.join(', ')}), or write a query: --query '${missing}=...'`,
      exitCodes.usage,
    )
  }
  const firstS = parseDurationMs(flags.since) / 1000
  const token = process.env.TUNE_PROMETHEUS_TOKEN
  return new PrometheusSource({
    url: addressOf(flags.prometheus!),
    queries: { rate, latency, ...others },
    windowS,
    selector: flags.selector,
    percentile,
    firstS,
    ...(token && { token }),
  })
}

function addressOf(text: string): URL {
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

/** Those of the server, with the user's own in their places. */
function queriesOf(
  { server, query, versionLabel, replicas }: WatchFlags,
  { recommendation }: Reopened,
  { slo }: Deployed,
): Queries {
  const measured = recommendation.measuredWith && deployedFor(recommendation.measuredWith).server
  const named =
    server === undefined
      ? tellingServers.find((one) => one === measured)
      : oneOf(server, tellingServers, '--server')
  const known = named === undefined ? {} : defaultQueries(named, slo.metric ?? 'e2e', versionLabel)
  const { replicas: counted, ...rest } = known
  const own = query.map((text): [FigureName, string] => {
    const [, name = '', promql = ''] = /^\s*(\w+)\s*=\s*(\S[\s\S]*)$/.exec(text) ?? []
    return [oneOf(name, figureNames, '--query'), promql]
  })
  return {
    ...rest,
    ...(replicas === undefined && counted && { replicas: counted }),
    ...Object.fromEntries(own),
  }
}

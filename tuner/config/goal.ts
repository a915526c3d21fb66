/** Resolves the SLO, the objective and the headroom. */
import { latencyMetrics } from '../../profiler/model/latency-metrics.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import { formatMetric } from '../../profiler/prometheus.ts'
import { protocolNames, protocolTable } from '../../profiler/protocols/protocol-table.ts'
import {
  createObjective,
  defaultObjectiveKind,
  getRequiredInput,
  listKindsRequiring,
  type Objective,
  type ObjectiveKind,
} from '../../search/objective.ts'
import type { Context } from './context.ts'
import { defaults } from './names.ts'
import { listClassLimits } from './settings/class-settings.ts'
import { createSlo, listLimits } from './values/parse-slo.ts'

/** @param streams whether answers are streamed token by token, which some metrics require */
export function resolveSlo(context: Context, streams: boolean): Slo {
  const { entries, report, invalidKeys } = context
  const entry = entries.slo
  const { percentile, errorRate, limit } = entry
  const limits = listLimits(entry)
  const ofClasses = listClassLimits(context, limits.length > 0)
  if (limits.length === 0 && ofClasses.length === 0 && !invalidKeys.has('slo'))
    report(['slo'], 'no SLO', 'set a latency limit: --slo 50ms, or `slo: 50ms` in the file')
  if (errorRate >= 1)
    report(
      ['slo', 'errorRate'],
      'an error rate of 100 % allows every request to fail',
      `write, for example, ${defaults.errorRate}`,
    )
  for (const { metric } of limits)
    if (latencyMetrics[metric].streamed && !streams)
      report(
        ['slo', entry[metric] === undefined ? 'metric' : metric],
        `${metric} is a latency of streamed answers`,
        `use it with protocol ${protocolNames.filter((name) => protocolTable[name].streams).join(', ')}, or leave it out`,
      )
  // Two limits of one latency would contradict each other.
  const metric = entry.metric ?? 'e2e'
  if (limit !== undefined && entry[metric] !== undefined)
    report(['slo', 'limit'], `two limits for ${metric}`, 'use only the stricter one')
  const configuredLimits = [...limits, ...ofClasses]
  const all =
    configuredLimits.length > 0 ? configuredLimits : [{ metric: 'e2e', limitMs: 1 } as const]
  const classes = Object.keys(entries.load.payload?.classes ?? {})
  return {
    ...createSlo(all, percentile, errorRate),
    ...(classes.length > 0 && { classes }),
  }
}

export function resolveObjective({ entries, report, invalidKeys }: Context): Objective {
  const { demand, headroom, maxPricePerHour, objectiveMetric } = entries
  if (headroom >= 1)
    report(
      ['headroom'],
      'a headroom of 100 % leaves no capacity',
      `write less, for example ${defaults.headroom}`,
    )
  const kind: ObjectiveKind =
    entries.objective ??
    (demand === undefined ? defaultObjectiveKind.plain : defaultObjectiveKind.withDemand)
  const asks = getRequiredInput(kind)
  const bounded = listKindsRequiring('price bound').join(' or ')
  if (demand !== undefined && asks !== 'demand')
    report(
      ['demand'],
      `the objective ${kind} does not use a demand`,
      `leave the demand out, or use objective ${listKindsRequiring('demand').join(' or ')}`,
    )
  if (maxPricePerHour !== undefined && asks !== 'price bound')
    report(
      ['maxPricePerHour'],
      `the objective ${kind} does not use a price bound`,
      `use it with --objective ${bounded}`,
    )
  if (asks === 'demand' && demand === undefined && !invalidKeys.has('demand'))
    report(
      ['objective'],
      `${kind} needs a demand`,
      'set the requests per second: --rps 500, or `demand: 500 rps`',
    )
  if (
    asks === 'price bound' &&
    maxPricePerHour === undefined &&
    !invalidKeys.has('maxPricePerHour')
  )
    report(
      ['objective'],
      `${kind} needs a price bound`,
      'set it: --max-price $2, or `maxPricePerHour: $2`',
    )
  if (objectiveMetric !== undefined && asks !== 'metric')
    report(
      ['objectiveMetric'],
      `the objective ${kind} does not use a metric`,
      `use it with objective ${listKindsRequiring('metric').join(' or ')}`,
    )
  const metric =
    asks === 'metric' ? resolveRankedMetric({ entries, report, invalidKeys }) : undefined
  return createObjective(kind, {
    demandRps: demand ?? 1,
    headroom,
    maxPricePerHour: maxPricePerHour ?? 1,
    metric,
  })
}

/**
 * Resolves the metric that `objectiveMetric` names, with or without labels; by default the only
 * configured metric.
 */
function resolveRankedMetric({
  entries,
  report,
  invalidKeys,
}: Pick<Context, 'entries' | 'report' | 'invalidKeys'>): string {
  const { objective, objectiveMetric, metrics = [] } = entries
  const [only, ...others] =
    objectiveMetric === undefined
      ? metrics
      : metrics.filter((m) => [m.name, formatMetric(m)].includes(objectiveMetric))
  if (only !== undefined && others.length === 0) return formatMetric(only)
  const texts = metrics.map(formatMetric)
  if (invalidKeys.has('metrics') || invalidKeys.has('objectiveMetric')) return objectiveMetric ?? ''
  if (objectiveMetric === undefined)
    report(
      ['objective'],
      `${objective} needs a metric`,
      texts.length === 0
        ? 'set a metric of the server: `metrics: queue_depth`'
        : `choose one with \`objectiveMetric: ...\` or --objective-metric: ${texts.join(', ')}`,
    )
  else if (only === undefined)
    report(
      ['objectiveMetric'],
      `metrics do not include ${objectiveMetric}`,
      texts.length === 0
        ? `add it: \`metrics: ${objectiveMetric}\``
        : `choose one of ${texts.join(', ')}, or add it to metrics`,
    )
  else
    report(
      ['objectiveMetric'],
      `several metrics have the name ${objectiveMetric}`,
      `choose one with its labels: ${texts.join(', ')}`,
    )
  return objectiveMetric ?? ''
}

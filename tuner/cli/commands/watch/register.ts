import type { Command } from 'commander'
import { specTargets } from '../../../../reports/specs/index.ts'
import { collectValues, createStoreOption } from '../command-options.ts'
import { logShapes } from './access-log/index.ts'
import { figureNames, monitoredServers } from './default-queries.ts'
import type { WatchFlags } from './watch-flags.ts'

/** `tune watch`: checks whether a recommendation is still valid in production. */
export function registerWatch(program: Command): void {
  program
    .command('watch')
    .description(
      'compare production (Prometheus or an access log) with the recommendation, and report when it is no longer valid',
    )
    .argument('[experiment]', 'id, as in tune list (default: the newest)')
    .option(
      '--prometheus <url>',
      'URL of Prometheus, e.g. http://prometheus:9090; TUNE_PROMETHEUS_TOKEN sets a bearer token',
    )
    .option('--log <file>', 'access log to follow instead of Prometheus, across rotations')
    .option(
      '--server <name>',
      `server whose metrics are queried: ${monitoredServers.join(' | ')} (default: the measured one)`,
    )
    .option(
      '--selector <labels>',
      `labels that select the series, e.g. 'namespace="shop",job="bert"'`,
      '',
    )
    .option(
      '--query <name=promql>',
      `your own query for ${figureNames.join(', ')}; may contain $window, $selector, $percentile; repeatable`,
      collectValues,
      [],
    )
    .option(
      '--log-format <name>',
      `format of the log: ${logShapes.join(' | ')} (default: detected from its first lines)`,
    )
    .option(
      '--field <name=field>',
      'field of the log: latency=NAME:UNIT (s, ms, us, ns), status=code, time=at, path=request.uri',
      collectValues,
      [],
    )
    .option(
      '--path <prefix>',
      'with --log: only requests whose path starts with this prefix; repeatable',
      collectValues,
      [],
    )
    .option('--version-label <name>', 'label or JSON field with the version of the model')
    .option(
      '--replicas <n>',
      'deployed replicas, if the metrics do not report them (required with --log)',
    )
    .option('--trial <n>', 'trial of the deployed configuration (default: the recommended one)')
    .option('--window <time>', 'length of the windows in which production is evaluated', '5m')
    .option('--since <time>', 'how far back the first query of Prometheus goes', '1h')
    .option('--tolerance <share>', 'slowdown that does not count as drift', '7%')
    .option('--false-alarm-days <n>', 'mean days between false drift alarms, at least', '365')
    .option(
      '--detour <time>',
      'latency that the ingress path adds to the observed latencies, but did not add in the trials',
    )
    .option('--prices <file>', "today's price book (default: the experiment's)")
    .option(
      '--headroom <share>',
      "share of the capacity kept free when sizing replicas (default: the experiment's)",
    )
    .option(
      '--min-gain <share>',
      'propose another configuration only if it costs at least this much less',
      '5%',
    )
    .option('--out <folder>', 'folder for the new spec, if one is proposed')
    .option('--target <name>', specTargets.join(' | '), 'kubernetes')
    .option(
      '--name <name>',
      'name under which the store saves the observations (default: the experiment)',
    )
    .option('--reset', 'discard the observations saved under that name')
    .option('--once', 'evaluate once, then exit with an exit code, for a CronJob')
    .option('--json', 'print a line of JSON per evaluation')
    .addOption(createStoreOption())
    .addHelpText(
      'after',
      `
Exit codes of --once: 0 the recommendation holds; 3 production violates the SLO; 5 it no longer holds for another reason; 1 production could not be read; 2 usage.
Only the store and --out are written.

Examples:
  tune watch --prometheus http://prometheus:9090 --selector 'namespace="shop"'
  tune watch --log /var/log/nginx/access.log --path /v2/models/bert --replicas 3
  tune watch --prometheus http://prometheus:9090 --once --json --out proposal`,
    )
    .action(async (id: string | undefined, flags: WatchFlags) => {
      const { watch } = await import('./run.ts')
      process.exitCode = await watch(id, flags)
    })
}

import type { Command } from 'commander'
import { specTargets } from '../../../reports/specs/index.ts'
import { severalTimes } from '../several-times.ts'
import { storeOption } from '../store-option.ts'
import { logShapes } from './access-log/index.ts'
import { figureNames, tellingServers } from './default-queries.ts'
import type { WatchFlags } from './watch-flags.ts'

/** `tune watch`: whether a recommendation still holds in production. */
export function registerWatch(program: Command): void {
  program
    .command('watch')
    .description(
      'compare production (Prometheus or an access log) with the recommendation, and report when it no longer holds',
    )
    .argument('[experiment]', 'id, as in tune list (default: the newest)')
    .option(
      '--prometheus <url>',
      'Prometheus, e.g. http://prometheus:9090; a bearer token is read from TUNE_PROMETHEUS_TOKEN',
    )
    .option(
      '--log <file>',
      'an access log in place of it: it is followed as it grows and is rotated',
    )
    .option(
      '--server <name>',
      `whose metrics are asked for: ${tellingServers.join(' | ')} (default: the one that was measured)`,
    )
    .option('--selector <labels>', `labels of the series, e.g. 'namespace="shop",job="bert"'`, '')
    .option(
      '--query <name=promql>',
      `a query of your own for ${figureNames.join(', ')}; may hold $window, $selector, $percentile`,
      severalTimes,
      [],
    )
    .option('--log-format <name>', `${logShapes.join(' | ')} (default: by its first lines)`)
    .option(
      '--field <name=field>',
      'field of a log: latency=NAME:UNIT (s, ms, us, ns), status=code, time=at, path=request.uri',
      severalTimes,
      [],
    )
    .option('--path <prefix>', 'of a log: only requests whose path begins so', severalTimes, [])
    .option('--version-label <name>', "label or JSON field that has the model's version")
    .option('--replicas <n>', 'deployed replicas, where the metrics do not say (a log never does)')
    .option('--trial <n>', 'the configuration that is deployed (default: the recommended one)')
    .option('--window <time>', 'production is looked at in windows of this length', '5m')
    .option('--since <time>', 'how far back the first look at Prometheus goes', '1h')
    .option('--tolerance <share>', 'slower by less is no drift', '7%')
    .option(
      '--false-alarm-days <n>',
      'a server that has not changed is called slow once in so many days on average, or more rarely',
      '365',
    )
    .option(
      '--detour <time>',
      'what the way to the server adds where it is observed, and trials did not have',
    )
    .option('--prices <file>', "today's price book (default: the experiment's)")
    .option(
      '--headroom <share>',
      "share of the capacity kept free when replicas are counted (default: the experiment's)",
    )
    .option('--min-gain <share>', 'another configuration must cost so much less', '5%')
    .option('--out <folder>', 'write the new spec there when one is proposed')
    .option('--target <name>', specTargets.join(' | '), 'kubernetes')
    .option(
      '--name <name>',
      'under which what was seen is kept in the store (default: the experiment)',
    )
    .option('--reset', 'forget what was seen under that name')
    .option('--once', 'one look, then end with an exit code: for a CronJob')
    .option('--json', 'print a line of JSON for each look')
    .addOption(storeOption())
    .addHelpText(
      'after',
      `
Exit codes of --once: 0 the recommendation holds; 3 the SLO is broken now; 5 it no longer holds for another reason; 1 production could not be read; 2 usage.
Nothing is changed but the store and --out.

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

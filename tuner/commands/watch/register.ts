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
      'URL of Prometheus, e.g. http://prometheus:9090; TUNE_PROMETHEUS_TOKEN may hold a bearer token',
    )
    .option(
      '--log <file>',
      'access log instead of Prometheus; it is followed as it grows and rotates',
    )
    .option(
      '--server <name>',
      `server whose metrics to query: ${tellingServers.join(' | ')} (default: the measured one)`,
    )
    .option('--selector <labels>', `labels of the series, e.g. 'namespace="shop",job="bert"'`, '')
    .option(
      '--query <name=promql>',
      `your own query for ${figureNames.join(', ')}; it may contain $window, $selector, $percentile`,
      severalTimes,
      [],
    )
    .option(
      '--log-format <name>',
      `format of the log: ${logShapes.join(' | ')} (default: derived from its first lines)`,
    )
    .option(
      '--field <name=field>',
      'field of the log: latency=NAME:UNIT (s, ms, us, ns), status=code, time=at, path=request.uri',
      severalTimes,
      [],
    )
    .option('--path <prefix>', 'log: only requests whose path begins with this', severalTimes, [])
    .option('--version-label <name>', "label or JSON field with the model's version")
    .option('--replicas <n>', 'number of deployed replicas, if the metrics do not report it')
    .option('--trial <n>', 'trial of the deployed configuration (default: the recommended one)')
    .option('--window <time>', 'length of an observation window', '5m')
    .option('--since <time>', 'how far back the first query of Prometheus goes', '1h')
    .option('--tolerance <share>', 'slowdown that is no drift', '7%')
    .option('--quiet-days <n>', 'mean days between false drift alarms', '365')
    .option('--detour <time>', 'network delay that production observes and trials did not have')
    .option('--prices <file>', "current price book (default: the experiment's)")
    .option(
      '--headroom <share>',
      "share of the capacity kept free, for the number of replicas (default: the experiment's)",
    )
    .option('--min-gain <share>', 'minimum saving of another configuration that is proposed', '5%')
    .option('--out <folder>', 'folder for the spec of a proposed configuration')
    .option('--target <name>', specTargets.join(' | '), 'kubernetes')
    .option('--name <name>', 'name of the stored observations (default: the experiment)')
    .option('--reset', 'delete the stored observations of that name')
    .option('--once', 'observe once and exit with a code, for a CronJob')
    .option('--json', 'print a line of JSON for each observation')
    .addOption(storeOption())
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

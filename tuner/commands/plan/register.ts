import type { Command } from 'commander'
import { demandPatterns } from '../../../reports/plan/demand.ts'
import { defaults } from '../../experiment/names.ts'
import { severalTimes } from '../several-times.ts'
import { storeOption } from '../store-option.ts'
import type { PlanFlags } from './run.ts'

/** `tune plan`: replicas and money over time. */
export function registerPlan(program: Command): void {
  program
    .command('plan')
    .description(
      'plan capacity: replicas over time, hours within the SLO, cost per month, spares, break-even points',
    )
    .argument('[experiment]', 'id, as in tune list (default: the newest)')
    .option(
      '--demand <rate>',
      "demand: requests per second, or a day: '0-8:20, 8-20:200, 20-24:60'",
    )
    .option('--trace <file>', 'demand from a CSV file: timestamp and requests per second')
    .option('--pattern <name>', `${demandPatterns.join(' | ')}, with --peak`)
    .option('--peak <rate>', 'peak of the pattern, requests per second')
    .option('--growth <share>', 'growth of the demand per month, e.g. 5%', '0%')
    .option('--months <n>', 'months to plan (default: 12 with growth, else 1)')
    .option('--headroom <share>', 'share of the capacity kept free', defaults.headroom)
    .option('--trials <list>', 'trials to plan with, e.g. 3,7 (default: the best three)')
    .option(
      '--fleet <n x trial>',
      'report the demand that an existing fleet can serve: 6x3 is six replicas of trial 3',
    )
    .option('--zones <n>', 'number of zones; the plan survives the loss of one', '3')
    .option(
      '--startup <time>',
      'time from the start of a replica to ready on an existing node (default: as measured, else 30s, with a GPU 90s, for a language model 3min)',
    )
    .option(
      '--node <time>',
      'time from the order of a node until it accepts replicas, images pulled; 0s: nodes always exist (default: as measured, else 2min, with a GPU 4min, for a language model 5min)',
    )
    .option(
      '--reaction <time>',
      'delay of the rate that the autoscaler reads, before its mean over a minute',
      '30s',
    )
    .option(
      '--min-replicas <n>',
      'minimum replicas of a fleet; 0: an autoscaler may scale to zero',
      '1',
    )
    .option(
      '--prices <file>',
      'price book (YAML) or provider; repeatable, to compare price lists',
      severalTimes,
      [],
    )
    .option(
      '--committed <price>',
      "price of committed capacity: a share of on demand (63%), or $ per hour of an instance (default: the price list's)",
    )
    .option('--slo <slo>', "plan for another SLO, e.g. 30ms or 'p95<80ms'")
    .option('--out <file>', 'write .md, .html, .csv or .json (default: text on stdout)')
    .option(
      '--spec <folder>',
      'write a deployment there whose autoscaler loses no minute of the SLO',
    )
    .option('--json', 'print JSON')
    .addOption(storeOption())
    .addHelpText(
      'after',
      `
Examples:
  tune plan --demand 500
  tune plan --pattern evening-bursts --peak 2000 --growth 5% --out plan.html
  tune plan --trace last-month.csv --prices aws --prices aws-reserved
  tune plan --pattern daily --peak 2000 --committed 63%
  tune plan --demand 300 --fleet 6x3`,
    )
    .action(async (id: string | undefined, flags: PlanFlags) => {
      const { plan } = await import('./run.ts')
      process.exitCode = await plan(id, flags)
    })
}

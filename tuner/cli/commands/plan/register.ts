import type { Command } from 'commander'
import { demandPatterns } from '../../../../reports/plan/demand.ts'
import { defaults } from '../../../config/names.ts'
import { collectValues, createStoreOption } from '../command-options.ts'
import type { PlanFlags } from './run.ts'

/** `tune plan`: replicas and money over time. */
export function registerPlan(program: Command): void {
  program
    .command('plan')
    .description(
      'plan capacity: replicas over time, SLO violations, cost per month, spare replicas, break-even points',
    )
    .argument('[experiment]', 'id, as in tune list (default: the newest)')
    .option('--demand <rate>', "requests per second, or a day: '0-8:20, 8-20:200, 20-24:60'")
    .option('--trace <file>', 'CSV of timestamp and requests per second')
    .option('--pattern <name>', `demand pattern: ${demandPatterns.join(' | ')}; needs --peak`)
    .option('--peak <rate>', 'highest rate of the pattern, requests per second')
    .option('--growth <share>', 'growth of the demand per month, e.g. 5%', '0%')
    .option('--months <n>', 'horizon (default: 12 with growth, else 1)')
    .option('--headroom <share>', 'share of the capacity kept free', defaults.headroom)
    .option('--trials <list>', 'trials to plan with, e.g. 3,7 (default: the best three)')
    .option('--fleet <n x trial>', 'check an existing fleet: 6x3 is six replicas of trial 3')
    .option('--zones <n>', 'number of zones; the plan survives the loss of one', '3')
    .option(
      '--startup <time>',
      'time from the start of a replica to ready, on an existing node (default: as measured, else 30s; with a GPU 90s, for a language model 3min)',
    )
    .option(
      '--node <time>',
      'time from requesting a node until it accepts replicas, with images pulled; 0s: always available (default: as measured, else 2min; with a GPU 4min, for a language model 5min)',
    )
    .option(
      '--reaction <time>',
      "delay of the autoscaler's rate by scrapes and adapter, in addition to its one-minute mean",
      '30s',
    )
    .option(
      '--min-replicas <n>',
      'minimum replicas of any fleet; 0: an autoscaler may remove the last one',
      '1',
    )
    .option(
      '--prices <file>',
      'price book (YAML); repeatable, to compare on-demand, reserved and other clouds',
      collectValues,
      [],
    )
    .option(
      '--committed <price>',
      'price of committed capacity: a share of on demand (63%), or $ per hour and instance (default: from the price list)',
    )
    .option('--slo <slo>', "plan for another SLO, e.g. 30ms or 'p95<80ms'")
    .option(
      '--out <file>',
      'output file: .md, .html, .csv or .json (default: text on the terminal)',
    )
    .option(
      '--spec <folder>',
      'write a deployment with autoscaler settings that avoid SLO violations',
    )
    .option('--json', 'print JSON')
    .addOption(createStoreOption())
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

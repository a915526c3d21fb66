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
    .option('--demand <rate>', "requests per second, or a day: '0-8:20, 8-20:200, 20-24:60'")
    .option('--trace <file>', 'CSV of timestamp and requests per second')
    .option('--pattern <name>', `${demandPatterns.join(' | ')}, with --peak`)
    .option('--peak <rate>', 'highest rate of the pattern, requests per second')
    .option('--growth <share>', 'more demand each month, e.g. 5%', '0%')
    .option('--months <n>', 'horizon (default: 12 with growth, else 1)')
    .option('--headroom <share>', 'share of the capacity kept free', defaults.headroom)
    .option('--trials <list>', 'trials to plan with, e.g. 3,7 (default: the best three)')
    .option(
      '--fleet <n x trial>',
      'how much can the fleet that is there take? e.g. 6x3 = six replicas of trial 3',
    )
    .option('--zones <n>', 'zones; the plan stands the loss of one', '3')
    .option(
      '--startup <time>',
      'from the start of a replica to ready, on a node that is there (default: as measured, else 30s; with a GPU 90s, a language model 3min)',
    )
    .option(
      '--node <time>',
      'from the order of a node until it takes replicas, images pulled; 0s: always there (default: as measured, else 2min; with a GPU 4min, for a language model 5min)',
    )
    .option(
      '--reaction <time>',
      "age of the autoscaler's rate: scrapes and adapter, before the minute that it is a mean of",
      '30s',
    )
    .option(
      '--min-replicas <n>',
      'least replicas of any fleet; 0: an autoscaler takes the last one, too',
      '1',
    )
    .option(
      '--prices <file>',
      'price book (YAML); repeat it to compare lists: on-demand, reserved, other clouds',
      severalTimes,
      [],
    )
    .option(
      '--committed <price>',
      'of committed capacity: a part of on demand (63%), or $ an hour for each instance (default: of the price list)',
    )
    .option('--slo <slo>', "plan for another SLO, e.g. 30ms or 'p95<80ms'")
    .option('--out <file>', '.md, .html, .csv or .json (default: text on the terminal)')
    .option(
      '--spec <folder>',
      'write a deployment there whose autoscaler has the settings that lose no minute',
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

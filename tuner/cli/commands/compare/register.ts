import type { Command } from 'commander'
import { createStoreOption } from '../command-options.ts'
import type { CompareFlags } from './run.ts'

/** `tune compare`: compares the results of experiments. */
export function registerCompare(program: Command): void {
  program
    .command('compare')
    .description('compare experiments with the first one, with intervals for the differences')
    .argument(
      '<experiments...>',
      'ids, as in tune list, or recommendation.json files; a single one is compared with the newest experiment',
    )
    .addOption(createStoreOption())
    .option('--slo <slo>', "rank all by this SLO, e.g. 30ms or 'p95<80ms'")
    .option('--rps <rate>', 'rank all by the price of serving this demand, requests per second')
    .option('--headroom <share>', 'share of the capacity kept free, e.g. 20% (with --rps)')
    .option('--min-quality <number>', 'exclude model variants below this quality')
    .option('--prices <file>', 'price book (YAML) for all of them')
    .option('--json', 'print JSON')
    .action(async (names: readonly string[], flags: CompareFlags) => {
      const { compare } = await import('./run.ts')
      process.exitCode = await compare(names, flags)
    })
}

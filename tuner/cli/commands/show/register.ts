import type { Command } from 'commander'
import { createStoreOption } from '../command-options.ts'
import type { ShowFlags } from './run.ts'

/**
 * `tune show`: prints verdict and trials, also re-ranked under another SLO, demand or price book.
 */
export function registerShow(program: Command): void {
  program
    .command('show')
    .description(
      'print verdict and trials of an experiment; --slo, --rps and --prices re-rank without new trials',
    )
    .argument('[experiment]', 'id, as in tune list (default: the newest)')
    .addOption(createStoreOption())
    .option('--slo <slo>', "rank by another SLO, e.g. 30ms or 'p95<80ms'")
    .option('--rps <rate>', 'rank by the price of serving this demand, requests per second')
    .option('--headroom <share>', 'share of the capacity kept free, e.g. 20% (with --rps)')
    .option('--min-quality <number>', 'exclude model variants below this quality')
    .option('--prices <file>', 'another price book (YAML)')
    .option('--json', 'print the recommendation document')
    .action(async (id: string | undefined, options: ShowFlags) => {
      const { show } = await import('./run.ts')
      process.exitCode = await show(id, options)
    })
}

import type { Command } from 'commander'
import { storeOption } from '../store-option.ts'
import type { CleanFlags } from './run.ts'

/**
 * `tune clean`: ends and removes what a tuner that was killed left, on this machine and on a
 * cluster.
 */
export function registerClean(program: Command): void {
  program
    .command('clean')
    .description('list and remove what experiments left behind on this machine or the cluster')
    .argument('[experiment]', 'end and remove what this one has there (default: only show)')
    .option(
      '--all',
      'end what every killed experiment left on this machine, control groups without a note included, and remove what every one has in the namespace, also running ones',
    )
    .addOption(
      storeOption(
        'trial store: what listens on ports that its killed runs had, and is known by nothing else, is shown',
      ),
    )
    .option('--local', 'this machine alone')
    .option('--namespace <name>', 'default: that of the current context')
    .option('--json', 'print JSON')
    .action(async (experiment: string | undefined, flags: CleanFlags) => {
      const { clean } = await import('./run.ts')
      process.exitCode = await clean(experiment, flags)
    })
}

import type { Command } from 'commander'
import { createStoreOption } from '../command-options.ts'
import type { CleanFlags } from './run.ts'

/** `tune clean`: ends and removes what killed tuners left on this machine and on a cluster. */
export function registerClean(program: Command): void {
  program
    .command('clean')
    .description('list and remove what experiments left behind on this machine or the cluster')
    .argument('[experiment]', 'experiment to end and remove (default: only list)')
    .option(
      '--all',
      'end everything that killed experiments left on this machine, including unidentified control groups, and remove the objects of all experiments in the namespace, running ones included',
    )
    .addOption(
      createStoreOption(
        'trial store: processes that listen on ports of its killed runs are listed too',
      ),
    )
    .option('--local', 'clean only this machine')
    .option('--namespace <name>', 'Kubernetes namespace (default: that of the current context)')
    .option('--json', 'print JSON')
    .action(async (experiment: string | undefined, flags: CleanFlags) => {
      const { clean } = await import('./run.ts')
      process.exitCode = await clean(experiment, flags)
    })
}

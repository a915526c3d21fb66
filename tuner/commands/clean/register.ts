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
    .argument('[experiment]', 'experiment to clean up (default: list only)')
    .option(
      '--all',
      'clean up after every experiment: processes and control groups of killed ones on this machine, and all objects in the namespace, also of running ones',
    )
    .addOption(storeOption('trial store, to find processes on the ports of killed runs'))
    .option('--local', 'only this machine')
    .option('--namespace <name>', "namespace (default: the current context's)")
    .option('--json', 'print JSON')
    .action(async (experiment: string | undefined, flags: CleanFlags) => {
      const { clean } = await import('./run.ts')
      process.exitCode = await clean(experiment, flags)
    })
}

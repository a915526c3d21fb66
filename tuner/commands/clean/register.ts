import type { Command } from 'commander'
import type { CleanFlags } from './run.ts'

/** `tune clean`: removes what a tuner that was killed left on a cluster. */
export function registerClean(program: Command): void {
  program
    .command('clean')
    .description('show what experiments have on the cluster, and remove it: what a killed tuner left behind')
    .argument('[experiment]', 'remove what this one has there (default: only show)')
    .option('--all', 'remove what every experiment has in the namespace, running ones included')
    .option('--namespace <name>', 'default: that of the current context')
    .option('--json', 'print JSON')
    .action(async (experiment: string | undefined, flags: CleanFlags) => {
      const { clean } = await import('./run.ts')
      process.exitCode = await clean(experiment, flags)
    })
}

import { type Command, Option } from 'commander'

/** `tune doctor`: what this machine can do. */
export function registerDoctor(program: Command): void {
  program
    .command('doctor')
    .description('check this machine or cluster: cores, cgroups, GPUs, packages, permissions')
    .addOption(
      new Option('--backend <name>', 'check this machine or the cluster')
        .choices(['local', 'kubernetes'])
        .default('local'),
    )
    .option(
      '--namespace <name>',
      "namespace, with --backend kubernetes (default: the current context's)",
    )
    .option('--json', 'print JSON')
    .action(async (options: { json?: boolean; backend?: string; namespace?: string }) => {
      const { doctor } = await import('./run.ts')
      process.exitCode = await doctor(options)
    })
}

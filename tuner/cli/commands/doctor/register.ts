import { type Command, Option } from 'commander'

/** `tune doctor`: checks what this machine or cluster supports. */
export function registerDoctor(program: Command): void {
  program
    .command('doctor')
    .description('check this machine or cluster: cores, cgroups, GPUs, packages, permissions')
    .addOption(
      new Option('--backend <name>', 'what to check: this machine or the cluster')
        .choices(['local', 'kubernetes'])
        .default('local'),
    )
    .option(
      '--namespace <name>',
      'with --backend kubernetes: namespace (default: that of the current context)',
    )
    .option('--json', 'print JSON')
    .action(async (options: { json?: boolean; backend?: string; namespace?: string }) => {
      const { doctor } = await import('./run.ts')
      process.exitCode = await doctor(options)
    })
}

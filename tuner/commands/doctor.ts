import type { Command } from 'commander'

/** `tune doctor`: what this machine can do. */
export function registerDoctor(program: Command): void {
  program
    .command('doctor')
    .description('what this machine can do: cores, cgroups, GPUs, packages, cluster')
    .option('--json', 'print JSON')
    .action(async (options: { json?: boolean }) => {
      const { doctor } = await import('../doctor.ts')
      process.exitCode = await doctor(options)
    })
}

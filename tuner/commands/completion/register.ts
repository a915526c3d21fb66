import type { Command } from 'commander'
import { oneOf } from '../one-of.ts'
import type { Shell } from './completion-script.ts'

const shells: readonly Shell[] = ['bash', 'zsh', 'fish']

/** `tune completion SHELL`: what a shell completes commands and flags by. */
export function registerCompletion(program: Command): void {
  program
    .command('completion')
    .description('print a shell completion script: source <(tune completion bash)')
    .argument('<shell>', shells.join(' | '))
    .action(async (name: string) => {
      const shell = oneOf(name, shells, 'completion')
      const { completionScript } = await import('./completion-script.ts')
      process.stdout.write(completionScript(shell, program))
    })
}

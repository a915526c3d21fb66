import type { Command } from 'commander'
import { parseChoice } from '../command-options.ts'
import type { Shell } from './completion-script.ts'

const shells: readonly Shell[] = ['bash', 'zsh', 'fish']

/** `tune completion SHELL`: prints a completion script. */
export function registerCompletion(program: Command): void {
  program
    .command('completion')
    .description('print a shell completion script: source <(tune completion bash)')
    .argument('<shell>', shells.join(' | '))
    .action(async (name: string) => {
      const shell = parseChoice(name, shells, 'completion')
      const { renderCompletionScript: completionScript } = await import('./completion-script.ts')
      process.stdout.write(completionScript(shell, program))
    })
}

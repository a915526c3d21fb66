import type { Command } from 'commander'
import { defaults, samplerNames } from '../experiment/names.ts'

export interface ReplayFlags {
  readonly table: string
  readonly task: string
  readonly sampler: string
  readonly maxTrials: string
  readonly seed: string
  readonly json?: boolean
}

/** `tune replay`: the search on recorded measurements. */
export function registerReplay(program: Command): void {
  program
    .command('replay')
    .description('recommend from recorded measurements (a CSV table and a task), without running anything')
    .requiredOption('--table <file>', 'CSV: a row for each configuration, with what was measured')
    .requiredOption('--task <file>', 'JSON or YAML: parameters, price column, objective, constraint (docs/search.md)')
    .option('--sampler <name>', samplerNames.join(' | '), defaults.sampler)
    .option('--max-trials <n>', 'most look-ups', '40')
    .option('--seed <n>', 'seed of all randomness', String(defaults.seed))
    .option('--json', 'print JSON')
    .action(async (flags: ReplayFlags) => {
      const { replayTable } = await import('../replay.ts')
      process.exitCode = await replayTable(flags)
    })
}

import type { Command } from 'commander'
import { samplerNames } from '../../../search/samplers/sampler-names.ts'
import { defaults } from '../../experiment/names.ts'
import type { ReplayFlags } from './run.ts'

/** `tune replay`: the search on recorded measurements. */
export function registerReplay(program: Command): void {
  program
    .command('replay')
    .description('recommend from recorded measurements (a CSV table and a task), without running anything')
    .requiredOption(
      '--table <file>',
      "CSV: a row for each configuration, with what was measured; Model Analyzer's and perf_analyzer's need --slo instead of a task",
    )
    .option('--task <file>', 'JSON or YAML: parameters, price column, objective, constraint (docs/search.md)')
    .option('--slo <slo>', "for tables of Model Analyzer and perf_analyzer: the limit, e.g. 50ms or 'p95<80ms'")
    .option('--price-per-hour <money>', 'for the same: price of one server (default: $1, which ranks by throughput)')
    .option('--sampler <name>', samplerNames.join(' | '), defaults.sampler)
    .option('--max-trials <n>', 'most look-ups', '40')
    .option('--seed <n>', 'seed of all randomness', String(defaults.seed))
    .option('--json', 'print JSON')
    .action(async (flags: ReplayFlags) => {
      const { replayTable } = await import('./run.ts')
      process.exitCode = await replayTable(flags)
    })
}

import type { Command } from 'commander'
import { samplerNames } from '../../../search/samplers/sampler-names.ts'
import { defaults } from '../../experiment/names.ts'
import type { ReplayFlags } from './run.ts'

/** `tune replay`: the search on recorded measurements. */
export function registerReplay(program: Command): void {
  program
    .command('replay')
    .description(
      'recommend from recorded measurements: your own tables or results of other load testers',
    )
    .argument(
      '[files...]',
      'a CSV table that --task explains; or results of Model Analyzer, perf_analyzer, GuideLLM or AIPerf (CSV, JSON), one file or one for each configuration',
    )
    .option(
      '--task <file>',
      'JSON or YAML that says what the columns of a table mean (docs/how-to/import-results.md)',
    )
    .option(
      '--slo <slo>',
      "for results of other tools: the limit, e.g. 50ms, 'p95<80ms' or 'ttft p99<300ms' (default: none)",
    )
    .option(
      '--price-per-hour <money>',
      'for the same: price of one server (default: $1, which ranks by throughput)',
    )
    .option('--sampler <name>', samplerNames.join(' | '), defaults.sampler)
    .option('--max-trials <n>', 'most look-ups', '40')
    .option(
      '--noise <share>',
      'noise to draw on every reading, e.g. 5%: its standard deviation as a share',
    )
    .option('--seed <n>', 'seed of all randomness', String(defaults.seed))
    .option(
      '--seeds <n>',
      'replay with so many seeds, from --seed on, and say how soon the search was near the cheapest',
      '1',
    )
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
Exit codes: 0 the recommended row keeps the limit; 2 flags, task or table are wrong (each fault with its line); 3 nothing that was looked up keeps the limit, or with
--noise the recommended row does not by its recorded figures; 1 failure.`,
    )
    .action(async (files: string[], flags: ReplayFlags) => {
      const { replayFiles } = await import('./run.ts')
      process.exitCode = await replayFiles(files, flags)
    })
}

import type { Command } from 'commander'
import { samplerNames } from '../../../../search/samplers/sampler-names.ts'
import { defaults } from '../../../config/names.ts'
import type { ReplayFlags } from './run.ts'

/** `tune replay`: runs the search on recorded measurements. */
export function registerReplay(program: Command): void {
  program
    .command('replay')
    .description(
      'recommend from recorded measurements: your own tables or results of other load testers',
    )
    .argument(
      '[files...]',
      'a CSV table described by --task; or results of Model Analyzer, perf_analyzer, GuideLLM or AIPerf (CSV, JSON), in one file or one per configuration',
    )
    .option(
      '--task <file>',
      'JSON or YAML file that describes the columns of a table (docs/how-to/import-results.md)',
    )
    .option(
      '--slo <slo>',
      "for results of other tools: latency limit, e.g. 50ms, 'p95<80ms' or 'ttft p99<300ms' (default: none)",
    )
    .option(
      '--price-per-hour <money>',
      'for results of other tools: price of one server (default: $1, which ranks by throughput)',
    )
    .option('--sampler <name>', samplerNames.join(' | '), defaults.sampler)
    .option('--max-trials <n>', 'maximum number of look-ups', '40')
    .option(
      '--noise <share>',
      'noise to add to every measurement, as a relative standard deviation, e.g. 5%',
    )
    .option('--seed <n>', 'random seed', String(defaults.seed))
    .option(
      '--seeds <n>',
      'replay with this many seeds, starting at --seed, and report how soon the search came near the cheapest',
      '1',
    )
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
Exit codes: 0 the recommended row meets the limit; 2 flags, task or table are wrong; 3 no row that was looked up meets the limit, or with
--noise the recommended row violates it by its recorded figures; 1 failure.`,
    )
    .action(async (files: string[], flags: ReplayFlags) => {
      const { runReplay } = await import('./run.ts')
      process.exitCode = await runReplay(files, flags)
    })
}

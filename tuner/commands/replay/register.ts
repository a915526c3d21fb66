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
      'a CSV table with its --task, or results of Model Analyzer, perf_analyzer, GuideLLM or AIPerf (CSV, JSON): one file, or one per configuration',
    )
    .option(
      '--task <file>',
      'JSON or YAML that says what the columns of a table mean (docs/replay.md)',
    )
    .option(
      '--slo <slo>',
      "limit for results of other tools: 50ms, 'p95<80ms' or 'ttft p99<300ms' (default: none)",
    )
    .option(
      '--price-per-hour <money>',
      'price of one server, for results of other tools (default: $1, which ranks by throughput)',
    )
    .option('--sampler <name>', samplerNames.join(' | '), defaults.sampler)
    .option('--max-trials <n>', 'maximum number of look-ups', '40')
    .option(
      '--noise <share>',
      'add noise to every reading: its standard deviation as a share, e.g. 5%',
    )
    .option('--seed <n>', 'random seed', String(defaults.seed))
    .option(
      '--seeds <n>',
      'replay with this many seeds, from --seed on, and report when the search came near the cheapest',
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
      const { replayFiles } = await import('./run.ts')
      process.exitCode = await replayFiles(files, flags)
    })
}

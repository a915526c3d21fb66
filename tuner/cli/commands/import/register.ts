import type { Command } from 'commander'
import { createStoreOption } from '../command-options.ts'
import type { ImportFlags } from './run.ts'

/** `tune import`: stores results of other load testers as an experiment. */
export function registerImport(program: Command): void {
  program
    .command('import')
    .description('import results of other load testers as a finished experiment')
    .argument(
      '<files...>',
      'results of Model Analyzer (including its GPU table), perf_analyzer, vllm bench serve, SGLang, GuideLLM, AIPerf or k6; gpu=L4,batchSize=8@FILE sets the configuration of a file',
    )
    .requiredOption('--slo <slo>', "latency SLO, one limit: 50ms, 'p95<80ms' or 'ttft p99<300ms'")
    .option(
      '--on <values>',
      'resources of the server, for its price: gpu=T4,cpuCores=4,memoryMiB=16GiB; SETTINGS@FILE overrides them for one file',
    )
    .option(
      '--one-server',
      'treat several files as loads on one server (default: files with the same settings are separate servers)',
    )
    .option('--model <name>', 'name of the model, if the files do not contain it')
    .option('--name <name>', 'name of the experiment (default: the model)')
    .option('--rps <rate>', 'rank by the price of serving this demand, requests per second')
    .addOption(createStoreOption())
    .option('--prices <file>', 'price book, YAML (default: on-demand list prices)')
    .option('--json', 'print the recommendation as JSON')
    .addHelpText(
      'after',
      '\ntune show, list, compare, report and dashboard show the experiment; they mark its figures as imported and name their files.',
    )
    .action(async (files: readonly string[], flags: ImportFlags) => {
      const { importFiles } = await import('./run.ts')
      process.exitCode = await importFiles(files, flags)
    })
}

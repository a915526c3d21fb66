import type { Command } from 'commander'
import { storeOption } from '../store-option.ts'
import type { ImportFlags } from './run.ts'

/** `tune import`: results of other load testers, kept as an experiment. */
export function registerImport(program: Command): void {
  program
    .command('import')
    .description('import results of other load testers as a finished experiment')
    .argument(
      '<files...>',
      'results of Model Analyzer (its table of GPUs too), perf_analyzer, vllm bench serve, SGLang, GuideLLM, AIPerf or k6; gpu=L4,batchSize=8@FILE says what a file is of',
    )
    .requiredOption('--slo <slo>', "latency SLO, one limit: 50ms, 'p95<80ms' or 'ttft p99<300ms'")
    .option(
      '--on <values>',
      'what served, for its price: gpu=T4,cpuCores=4,memoryMiB=16GiB; FILE may say otherwise of itself',
    )
    .option(
      '--one-server',
      'several files are loads on one server; else each is a server of its own, where nothing tells them apart',
    )
    .option('--model <name>', 'what was served, where the files do not say')
    .option('--name <name>', 'name of the experiment (default: the model)')
    .option('--rps <rate>', 'ranked by the price of serving this demand, requests per second')
    .addOption(storeOption())
    .option('--prices <file>', 'price book, YAML (default: on-demand list prices)')
    .option('--json', 'print the recommendation as JSON')
    .addHelpText(
      'after',
      '\nThe experiment is one for show, list, compare, report and dashboard, where its figures are called imported, with their files.',
    )
    .action(async (files: readonly string[], flags: ImportFlags) => {
      const { importFiles } = await import('./run.ts')
      process.exitCode = await importFiles(files, flags)
    })
}

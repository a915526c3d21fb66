import type { Command } from 'commander'
import { storeOption } from '../store-option.ts'
import type { FleetFlags } from './run.ts'

/** `tune fleet`: several models on shared GPUs. */
export function registerFleet(program: Command): void {
  program
    .command('fleet')
    .description(
      'which GPUs, cut by MIG, shared by MPS or in turns, serve several models at the least money',
    )
    .requiredOption('-f, --file <file>', 'fleet file: models, their demand, the GPUs to be had')
    .option('--prices <file>', 'price book (YAML), or a provider')
    .option(
      '--solver-time <time>',
      'for the solver, after which the best that is known is taken',
      '40s',
    )
    .option(
      '--out <file>',
      '.md, .html, .json or .txt; or a folder, for manifests as well (default: text on the terminal)',
    )
    .option('--target <name>', 'of the manifests: kubernetes | kserve (default: kubernetes)')
    .option(
      '--measure-pairs <file>',
      'measure what models on one GPU under MPS do to one another, where the packing rests on it; adds to a CSV',
    )
    .option('--json', 'print JSON')
    .addOption(storeOption('trial store (SQLite), for models that name an experiment'))
    .addHelpText(
      'after',
      `
A fleet file:
  gpus:
    A100-80GB: {count: 8}                # count, price, mig: false and mps: true are optional
    L4:
  models:
    bert: {experiment: bert-4f2a, demand: '0-8:20, 8-20:800, 20-24:60'}
    resnet50: {table: resnet50.csv, gpu: A100-80GB, slo: 200ms, demand: 2200}
    nightly: {table: nightly.csv, slo: 30s, demand: '0-6:25, 6-24:0', turns: byHour, load: 4m}
    chat: {llm: {model: llama-3.1-8b, lengths: requests.csv}, slo: 'p90 tpot<80ms', demand: 20}

Examples:
  tune fleet -f fleet.yaml
  tune fleet -f fleet.yaml --out fleet            # what is said of it, and what is applied
  tune fleet -f fleet.yaml --json`,
    )
    .action(async (flags: FleetFlags) => {
      const { fleet } = await import('./run.ts')
      process.exitCode = await fleet(flags)
    })
}

import type { Command } from 'commander'
import { createStoreOption } from '../command-options.ts'
import type { FleetFlags } from './run.ts'

/** `tune fleet`: several models on shared GPUs. */
export function registerFleet(program: Command): void {
  program
    .command('fleet')
    .description('find the cheapest GPUs for several models, partitioned by MIG or shared by MPS')
    .requiredOption('-f, --file <file>', 'fleet file: models, their demand and the available GPUs')
    .option('--prices <file>', 'price book (YAML), or a provider')
    .option(
      '--solver-time <time>',
      'time limit of the solver; after it, the best packing found so far is used',
      '40s',
    )
    .option(
      '--out <file>',
      'output file (.md, .html, .json or .txt), or a folder for manifests as well (default: text on stdout)',
    )
    .option('--target <name>', 'target of the manifests: kubernetes | kserve (default: kubernetes)')
    .option('--json', 'print JSON')
    .addOption(createStoreOption('trial store (SQLite), for models with an experiment'))
    .addHelpText(
      'after',
      `
A fleet file:
  gpus:
    A100-80GB: {count: 8, perNode: 2}    # optional: count, price, perNode, mig: false, mps: true
    L4:
  models:
    bert: {experiment: bert-4f2a, demand: '0-8:20, 8-20:800, 20-24:60'}
    resnet50: {table: resnet50.csv, gpu: A100-80GB, slo: 200ms, demand: 2200}
  headroom: 10%                          # also: timezone

Examples:
  tune fleet -f fleet.yaml
  tune fleet -f fleet.yaml --out fleet            # a folder with report and manifests
  tune fleet -f fleet.yaml --json`,
    )
    .action(async (flags: FleetFlags) => {
      const { fleet } = await import('./run.ts')
      process.exitCode = await fleet(flags)
    })
}

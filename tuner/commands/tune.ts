import type { Command } from 'commander'
import { addExperimentOptions, type ExperimentFlags } from '../experiment/options.ts'

export interface TuneFlags extends ExperimentFlags {
  readonly json?: boolean
  readonly events?: boolean
  readonly plain?: boolean
  readonly dryRun?: boolean
}

const examples = `
Examples:
  $ tune --model bert --slo 50ms                        cheapest configuration for BERT with p99 under 50 ms
  $ tune --model bert --slo 'p95<80ms' --rps 500        ... for 500 requests per second, replicas included
  $ tune --model resnet50 --slo 100ms --gpus T4,L4      only these GPUs
  $ tune --model bert-tiny --slo 50ms --devices cpu     real inference on this machine's CPU
  $ tune -f experiment.yaml --max-trials 30             any server, any knob
  $ tune --model bert --slo 50ms --json > result.json   for programs
`

/** \`tune\` itself: runs an experiment and recommends. */
export function registerTune(program: Command): void {
  program.addHelpText('beforeAll', `${examples.trim()}\n`)
  addExperimentOptions(program)
  program
    .option('--dry-run', 'print what would be run, then stop')
    .option('--json', 'print one JSON document on stdout')
    .option('--events', 'print every event as a line of JSON on stdout')
    .option('--plain', 'plain lines instead of the live screen')
    .action(async (flags: TuneFlags) => {
      const { tune } = await import('../execute.ts')
      process.exitCode = await tune(flags)
    })
}

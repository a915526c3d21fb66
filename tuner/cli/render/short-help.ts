/** `tune --help` on one screen; `tune help options` lists every flag. */
import type { Command } from 'commander'
import { wrapText } from './columns.ts'

export const description =
  'Finds the cheapest way to serve a model within its latency SLO, by load tests.'

export const examples: readonly (readonly [command: string, what: string])[] = [
  ['tune --model bert --slo 50ms', 'cheapest per request'],
  ["tune --model bert --slo 'p95<80ms' --rps 500", 'cheapest for 500 req/s'],
  ['tune --model bert --slo 50ms --backend simulated', 'in seconds, not measured'],
  ['tune init http://localhost:8000 --slo 100ms', 'file for your own server'],
  ['tune -f experiment.yaml --max-trials 10', 'flags override the file'],
]

/** Commands by purpose, with their line in the short help. */
export const commandGroups: readonly {
  readonly title: string
  readonly commands: Readonly<Record<string, string>>
}[] = [
  {
    title: 'Measure',
    commands: {
      init: 'write an experiment file for a server, command or model',
      resume: 'continue an interrupted experiment, or add trials',
      profile: 'load-test a running server: capacity under an SLO',
      verify: 'load-test the recommendation again, here or deployed',
      estimate: 'predict every configuration by the device model',
    },
  },
  {
    title: 'Results',
    commands: {
      show: 'print verdict and trials; ask another SLO or demand',
      list: 'list experiments',
      dashboard: 'open experiments in the browser',
      report: 'write one file: HTML, Markdown, CSV or JSON',
      compare: 'compare experiments',
    },
  },
  {
    title: 'Deploy',
    commands: {
      spec: 'write deployment specs of a configuration',
      plan: 'plan replicas and cost over time',
      fleet: 'place several models on shared GPUs',
      ci: 'fail a build where serving became more expensive',
      watch: 'report when production no longer matches',
    },
  },
]

/** Commands that the short help only names. */
export const otherCommands = [
  'annotate',
  'calibrate',
  'clean',
  'completion',
  'config',
  'delete',
  'doctor',
  'import',
  'predictor',
  'replay',
  'store',
] as const

const commonFlags: readonly (readonly [flags: string, what: string])[] = [
  ['-m, --model <name>', 'bert, resnet50, ..., or the path of your model'],
  ['--slo <slo>', "50ms (p99), p95<80ms, 'p90 ttft<200ms tpot<30ms'"],
  ['--rps <rate>', 'demand to serve: 500, 30k/min'],
  ['--command <command>', 'your own server, with ${port}, ${batchSize}, ... in it'],
  ['--cores <values>', 'CPU cores to try: 1..4 or 1,2,8'],
  ['--gpus <list>', 'GPU models to try: T4,L4,A100-40GB'],
  ['--batch <values>', 'batch sizes to try: 1..32 or 1,4,16'],
  ['--backend <name>', 'local, kubernetes or simulated'],
  ['--max-trials <n>', 'maximum number of trials'],
  ['-f, --file <path>', 'experiment file (YAML)'],
]

const nameWidth = 22

/** @param exitStatus one line */
export function formatShortHelp(exitStatus: string): string {
  const row = (name: string, what: string) => `  ${name.padEnd(nameWidth)}${what}`
  const width = Math.max(...examples.map(([command]) => command.length))
  return [
    `Usage: tune --model <name> --slo <slo> [options]   or   tune <command> [options]`,
    description,
    '',
    ...examples.map(([command, what]) => `  ${command.padEnd(width)}  # ${what}`),
    '',
    ...commandGroups.flatMap(({ title, commands }) => [
      `${title}:`,
      ...Object.entries(commands).map(([name, what]) => row(name, what)),
    ]),
    ...wrapText(`Also: ${otherCommands.join(', ')}`, 80),
    '',
    'Common options:',
    ...commonFlags.map(([flags, what]) => row(flags, what)),
    '',
    'tune help options lists every option, tune help <command> explains a command.',
    ...wrapText(`Exit codes: ${exitStatus}`, 80),
    '',
  ].join('\n')
}

/** Formats every option of `tune` itself, as commander writes it. */
export const formatAllOptions = (program: Command): string => {
  const help = program.createHelp()
  help.helpWidth = process.stdout.columns ?? 100
  return help.formatHelp(program, help)
}

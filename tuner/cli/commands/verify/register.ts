import { Command } from 'commander'
import { addChosenOptions } from '../../../config/flags/flags.ts'
import { createStoreOption } from '../command-options.ts'
import type { VerifyFlags } from './run.ts'

/** Flags of an experiment that say how a service is asked. */
const requestFlags = [
  '--url',
  '--model',
  '--slo',
  '--error-rate',
  '--protocol',
  '--path',
  '--health-path',
  '--header',
  '--body',
  '--expect',
  '--http2',
  '--ca',
  '--insecure-skip-verify',
  '--payload',
  '--items',
  '--arrivals',
  '--timeout',
] as const

/** `tune verify`: whether a recommendation still holds, measured from now. */
export function registerVerify(program: Command): void {
  const command = new Command('verify')
    .description(
      'load-test the recommended configuration or its deployed service again, and report whether it meets the SLO',
    )
    .argument('[experiment]', 'id, as in tune list (default: the newest)')
    .option('--trial <n>', 'verify this trial instead of the recommended one')
    .option(
      '--rate <rate>',
      'rate at which the SLO must be met, requests per second (default: the recommended rate)',
    )
    .option(
      '--confirm-time <duration>',
      'time under load (default: as in the experiment, else 30 s)',
    )
    .addOption(createStoreOption())
    .option('--json', 'print one JSON document on stdout')
  command.optionsGroup('A running service instead of an experiment:')
  command.option(
    '-f, --file <path>',
    'experiment file that describes the requests, including headers and certificates; flags override it',
  )
  addChosenOptions(command, requestFlags)
  command
    .addHelpText(
      'after',
      `
Examples:
  tune verify                                                    # the newest experiment's recommendation
  tune verify bert-7f3a --confirm-time 2min --json
  tune verify --url http://bert.example:8000 --model bert --slo 50ms --rate 800

The measurement is added to the experiment as a confirmation. Exit codes: 0 the SLO is met; 4 violated; 1 inconclusive; 2 usage; 3 nothing to verify.`,
    )
    .action(async (id: string | undefined, flags: VerifyFlags) => {
      const { verify } = await import('./run.ts')
      process.exitCode = await verify(id, flags)
    })
  program.addCommand(command)
}

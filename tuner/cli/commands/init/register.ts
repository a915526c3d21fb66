import { Command } from 'commander'
import { knownServerTitles } from '../../../../trials/servers/known-servers.ts'
import { addChosenOptions } from '../../../config/flags/flags.ts'
import { serverFlags } from '../../../config/flags/server-flags.ts'
import type { InitFlags } from './run.ts'

/** Experiment flags that `tune init` offers besides those of the server. */
const offeredFlags = [
  '--model',
  '--slo',
  '--slo-ttft',
  '--slo-tpot',
  '--rps',
  '--devices',
  '--param',
  '--pin',
  '--payload',
] as const

/** `tune init`: writes an experiment file for a server, a command or a model. */
export function registerInit(program: Command): void {
  const command = new Command('init')
    .description(
      'write an experiment file for a server, a command or a model: probe it, propose a search space, run one trial',
    )
    .argument('[target...]', 'the URL of a running server, the command that starts one, or a model')
    .option('-f, --file <path>', 'file to write', 'experiment.yaml')
    .option('--force', 'overwrite it')
    .option('-y, --yes', 'ask no questions (as without a terminal)')
    .option('--no-smoke', 'skip the trial: send no load')
    .passThroughOptions()
  addChosenOptions(command, [
    ...offeredFlags,
    ...serverFlags.map(({ flags }) => flags.split(' ')[0]!),
  ])
  command
    .addHelpText(
      'after',
      `
Examples:
  tune init http://127.0.0.1:8000 --slo 50ms
  tune init --slo 50ms gunicorn --workers 4 app:app
  tune init --slo 50ms --path /predict --body '{"text": "{{text}}"}' 'python3 app.py --port 8080'
  tune init bert --slo 50ms

Flags precede the command, unless the command is one word in quotes. Recognised servers: ${knownServerTitles.join(', ')}.
Exit codes: 0 the file was written and the server answered; 1 the server did not answer; 2 usage.`,
    )
    .action(async (target: string[]) => {
      const { init, startsCommand } = await import('./run.ts')
      const [first, ...rest] = target
      // Flags behind a command belong to the command. Behind a URL, a model or a quoted command
      // they
      // belong to tune.
      if (first === undefined || rest.length === 0 || startsCommand(first)) {
        process.exitCode = await init(target, command.opts<InitFlags>())
        return
      }
      const { operands, unknown } = command.parseOptions(rest)
      if (unknown.length > 0) command.error(`error: unknown option '${unknown[0]}'`)
      process.exitCode = await init([first, ...operands], command.opts<InitFlags>())
    })
  program.addCommand(command)
}

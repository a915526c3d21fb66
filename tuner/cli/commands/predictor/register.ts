import type { Command } from 'commander'

/** `tune predictor`: starts the built-in model server, as in a trial. */
export function registerPredictor(program: Command): void {
  program
    .command('predictor')
    .description('start the built-in model server (its --help lists its flags)')
    .allowUnknownOption()
    .allowExcessArguments()
    .helpOption(false)
    .argument('[flags...]', 'flags of the server, e.g. --model bert-tiny --port 8000')
    .action(async (_flags: string[], _options: unknown, command: Command) => {
      const { main } = await import('../../../../trials/predictor/main.ts')
      process.exitCode = await main(command.args)
    })
}

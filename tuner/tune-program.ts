/**
 * The `tune` command line: its commands and their flags. Commands load what they need when they
 * run, so that help is instant.
 */
import { Command, CommanderError } from 'commander'
import { namesNear } from '../trials/near-names.ts'
import { registerAnnotate } from './commands/annotate/register.ts'
import { registerCalibrate } from './commands/calibrate/register.ts'
import { registerCi } from './commands/ci/register.ts'
import { registerClean } from './commands/clean/register.ts'
import { registerCompare } from './commands/compare/register.ts'
import { registerCompletion } from './commands/completion/register.ts'
import { registerConfig } from './commands/config/register.ts'
import { registerDashboard } from './commands/dashboard/register.ts'
import { registerDelete } from './commands/delete/register.ts'
import { registerDoctor } from './commands/doctor/register.ts'
import { registerEstimate } from './commands/estimate/register.ts'
import { registerFleet } from './commands/fleet/register.ts'
import { registerImport } from './commands/import/register.ts'
import { registerInit } from './commands/init/register.ts'
import { registerList } from './commands/list/register.ts'
import { registerLoad } from './commands/load/register.ts'
import { registerPlan } from './commands/plan/register.ts'
import { registerPredictor } from './commands/predictor/register.ts'
import { registerProfile } from './commands/profile/register.ts'
import { registerReplay } from './commands/replay/register.ts'
import { registerReport } from './commands/report/register.ts'
import { registerResume } from './commands/resume/register.ts'
import { registerShow } from './commands/show/register.ts'
import { registerSpec } from './commands/spec/register.ts'
import { registerStore } from './commands/store/register.ts'
import { registerTune } from './commands/tune/register.ts'
import { registerVerify } from './commands/verify/register.ts'
import { registerWatch } from './commands/watch/register.ts'
import { exitCodes, UserError } from './exit-codes.ts'
import { programVersion } from './program-version.ts'
import { allOptionsHelp, description, shortHelp } from './render/short-help.ts'
import { cut, reportError } from './report-error.ts'

export const exitStatus =
  '0 met and confirmed; 1 failure; 2 usage; 3 SLO not met; 4 not confirmed; 5 no longer valid (watch); 6 too expensive (ci); 130 interrupted'

/** Not yet parsed. What is wrong with what is parsed is a CommanderError. */
export function commandLine(): Command {
  const program = new Command('tune')
    .description(description)
    .option('-v, --version', 'print the version and the commit of the build')
    .on('option:version', () => {
      process.stdout.write(`${programVersion()}\n`)
      process.exit(exitCodes.ok)
    })
    .showHelpAfterError('(tune help options lists every flag)')
    .showSuggestionAfterError()
    .helpCommand('help [command]', 'explain a command; tune help options: every flag')
    .enablePositionalOptions()
    .exitOverride()

  registerTune(program)
  for (const register of [
    registerInit,
    registerList,
    registerShow,
    registerAnnotate,
    registerDelete,
    registerCompare,
    registerCi,
    registerSpec,
    registerPlan,
    registerFleet,
    registerReport,
    registerVerify,
    registerWatch,
    registerDashboard,
    registerResume,
    registerReplay,
    registerImport,
    registerConfig,
    registerEstimate,
    registerCalibrate,
    registerClean,
    registerStore,
    registerLoad,
    registerPredictor,
    registerProfile,
    registerDoctor,
    registerCompletion,
  ])
    register(program)

  const cutErrors = {
    outputError: (text: string, write: (text: string) => void) => write(`${cut(text.trimEnd())}\n`),
  }
  // Those that are made by themselves have none of them yet: unknown flags would end the process,
  // with another exit code.
  for (const command of program.commands) command.copyInheritedSettings(program)
  for (const command of [program, ...program.commands]) command.configureOutput(cutErrors)

  program.helpInformation = () => shortHelp(exitStatus)
  return program
}

/** Whether a word is a built-in model, or looks like the path of one. */
async function isModel(word: string): Promise<boolean> {
  if (/[/\\]|\.(onnx|json|gguf|savedmodel)$/.test(word)) return true
  const { architectureOf } = await import('../trials/devices/architecture.ts')
  try {
    return architectureOf(word) !== undefined
  } catch {
    return false
  }
}

/** @throws UserError where the first word, or what help is requested for, is no command. */
async function checkCommand(program: Command, words: readonly string[]): Promise<void> {
  const word = words[0] === 'help' ? words[1] : words[0]
  const known = [...program.commands.map((command) => command.name()), 'help']
  if (word === undefined || word.startsWith('-') || known.includes(word)) return
  if (words[0] !== 'help' && (await isModel(word)))
    throw new UserError(
      `there is no command '${word}', but a model can be tuned`,
      `write: tune --model ${[word, ...words.slice(1)].join(' ')}`,
      exitCodes.usage,
    )
  throw new UserError(
    `there is no command '${word}'`,
    `${namesNear(word, known)} (tune --help lists all commands)`,
    exitCodes.usage,
  )
}

/**
 * Parses and runs the words of a command line; whatever is wrong is told on stderr, and its exit
 * code left in `process.exitCode`.
 */
export async function run(words: readonly string[]): Promise<void> {
  try {
    const program = commandLine()
    if (words[0] === 'help' && words[1] === 'options') {
      process.stdout.write(allOptionsHelp(program))
      return
    }
    await checkCommand(program, words)
    await program.parseAsync(words, { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError)
      process.exitCode = error.exitCode === 0 ? exitCodes.ok : exitCodes.usage
    else process.exitCode = reportError(error, process.stderr)
  }
}

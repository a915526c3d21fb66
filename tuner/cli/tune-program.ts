/**
 * The `tune` command line: its commands and their flags. Commands and their flags are loaded on
 * demand, so that help is fast.
 */
import { Command, CommanderError } from 'commander'
import { suggestNames } from '../../trials/near-names.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import { readProgramVersion } from './program-version.ts'
import { description, formatAllOptions, formatShortHelp } from './render/short-help.ts'
import { reportError, truncateText } from './report-error.ts'

export const exitCodesText =
  '0 met and confirmed; 1 failure; 2 usage; 3 SLO not met; 4 not confirmed; 5 no longer valid (watch); 6 too expensive (ci); 130 interrupted'

type Register = (program: Command) => void

/** Loaders of the commands, in the order of the help. */
const commands: Readonly<Record<string, () => Promise<Register>>> = {
  init: async () => (await import('./commands/init/register.ts')).registerInit,
  list: async () => (await import('./commands/list/register.ts')).registerList,
  show: async () => (await import('./commands/show/register.ts')).registerShow,
  annotate: async () => (await import('./commands/annotate/register.ts')).registerAnnotate,
  delete: async () => (await import('./commands/delete/register.ts')).registerDelete,
  compare: async () => (await import('./commands/compare/register.ts')).registerCompare,
  ci: async () => (await import('./commands/ci/register.ts')).registerCi,
  spec: async () => (await import('./commands/spec/register.ts')).registerSpec,
  plan: async () => (await import('./commands/plan/register.ts')).registerPlan,
  fleet: async () => (await import('./commands/fleet/register.ts')).registerFleet,
  report: async () => (await import('./commands/report/register.ts')).registerReport,
  verify: async () => (await import('./commands/verify/register.ts')).registerVerify,
  watch: async () => (await import('./commands/watch/register.ts')).registerWatch,
  dashboard: async () => (await import('./commands/dashboard/register.ts')).registerDashboard,
  resume: async () => (await import('./commands/resume/register.ts')).registerResume,
  replay: async () => (await import('./commands/replay/register.ts')).registerReplay,
  import: async () => (await import('./commands/import/register.ts')).registerImport,
  config: async () => (await import('./commands/config/register.ts')).registerConfig,
  estimate: async () => (await import('./commands/estimate/register.ts')).registerEstimate,
  calibrate: async () => (await import('./commands/calibrate/register.ts')).registerCalibrate,
  clean: async () => (await import('./commands/clean/register.ts')).registerClean,
  store: async () => (await import('./commands/store/register.ts')).registerStore,
  load: async () => (await import('./commands/load/register.ts')).registerLoad,
  predictor: async () => (await import('./commands/predictor/register.ts')).registerPredictor,
  profile: async () => (await import('./commands/profile/register.ts')).registerProfile,
  doctor: async () => (await import('./commands/doctor/register.ts')).registerDoctor,
  completion: async () => (await import('./commands/completion/register.ts')).registerCompletion,
}

/** Loads the registration of one command, or of `tune` itself and all commands. */
export async function loadCommands(only?: string): Promise<readonly Register[]> {
  if (only !== undefined) return [await commands[only]!()]
  const { registerTune } = await import('./commands/tune/register.ts')
  return [registerTune, ...(await Promise.all(Object.values(commands).map((load) => load())))]
}

/** Creates the program. Parsing errors are CommanderErrors. */
export function createProgram(registers: readonly Register[]): Command {
  const program = new Command('tune')
    .description(description)
    .option('-v, --version', 'print the version and the commit of the build')
    .on('option:version', () => {
      process.stdout.write(`${readProgramVersion()}\n`)
      process.exit(exitCodes.ok)
    })
    .showHelpAfterError('(tune help options lists every flag)')
    .showSuggestionAfterError()
    .helpCommand('help [command]', 'explain a command; tune help options: every flag')
    .enablePositionalOptions()
    .exitOverride()

  for (const register of registers) register(program)

  const truncatedErrors = {
    outputError: (text: string, write: (text: string) => void) =>
      write(`${truncateText(text.trimEnd())}\n`),
  }
  // Commands created with `new Command` do not inherit settings: unknown flags would exit the
  // process with another exit code.
  for (const command of program.commands) command.copyInheritedSettings(program)
  for (const command of [program, ...program.commands]) command.configureOutput(truncatedErrors)

  program.helpInformation = () => formatShortHelp(exitCodesText)
  return program
}

/** Whether a word is a built-in model, or looks like the path of one. */
async function isModel(word: string): Promise<boolean> {
  if (/[/\\]|\.(onnx|json|gguf|savedmodel)$/.test(word)) return true
  const { findArchitecture } = await import('../../trials/devices/architecture.ts')
  try {
    return findArchitecture(word) !== undefined
  } catch {
    return false
  }
}

/** @throws UserError if the first word, or the word after 'help', is no command. */
async function checkCommand(words: readonly string[]): Promise<void> {
  const word = words[0] === 'help' ? words[1] : words[0]
  const knownWords = [...Object.keys(commands), 'help']
  if (word === undefined || word.startsWith('-') || knownWords.includes(word)) return
  if (words[0] !== 'help' && (await isModel(word)))
    throw new UserError(
      `there is no command '${word}', but a model can be tuned`,
      `write: tune --model ${[word, ...words.slice(1)].join(' ')}`,
      exitCodes.usage,
    )
  throw new UserError(
    `there is no command '${word}'`,
    `${suggestNames(word, knownWords)} (tune --help lists all commands)`,
    exitCodes.usage,
  )
}

/** Parses and runs a command line. Errors are printed on stderr and set `process.exitCode`. */
export async function run(words: readonly string[]): Promise<void> {
  try {
    if (words.length === 1 && ['--help', '-h', 'help'].includes(words[0]!)) {
      process.stdout.write(formatShortHelp(exitCodesText))
      return
    }
    if (words[0] === 'help' && words[1] === 'options') {
      process.stdout.write(formatAllOptions(createProgram(await loadCommands())))
      return
    }
    await checkCommand(words)
    const commandName = words[0] === 'help' ? words[1] : words[0]
    // A completion script names every command.
    const isSingleCommand =
      commandName !== undefined &&
      commandName !== 'completion' &&
      Object.hasOwn(commands, commandName)
    const program = createProgram(await loadCommands(isSingleCommand ? commandName : undefined))
    await program.parseAsync(words, { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError)
      process.exitCode = error.exitCode === 0 ? exitCodes.ok : exitCodes.usage
    else process.exitCode = reportError(error, process.stderr)
  }
}

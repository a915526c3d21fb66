/**
 * Drafts settings of an experiment file from a target, before any server is contacted. Reads only
 * paths that the target names.
 */
import { existsSync, readdirSync } from 'node:fs'
import { basename, isAbsolute, join, resolve } from 'node:path'
import {
  readTypedCommand,
  type TypedCommand,
  writeCommand,
} from '../../../../trials/launchers/typed-command.ts'
import {
  recogniseServer,
  rewriteCommand,
  type TunedCommand,
} from '../../../../trials/servers/own-command.ts'
import { OwnSettings } from '../../../../trials/servers/own-settings.ts'
import { listTfservingModels } from '../../../../trials/servers/tfserving.ts'
import { ShellError } from '../../../../trials/shell-words.ts'
import { isModelName } from '../../../config/schema/model-schema.ts'
import { parseSlo } from '../../../config/values/parse-slo.ts'
import { UnitError } from '../../../config/values/units.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { rewriteSettingsFile } from './settings-file.ts'

export type Target =
  | { readonly kind: 'url'; readonly url: string }
  | ({ readonly kind: 'command' } & TypedCommand)
  | { readonly kind: 'model'; readonly model: string }

/**
 * Classifies the words: a URL, a command of several words, an existing program, or otherwise a
 * model.
 */
export function parseTarget(
  words: readonly string[],
  isProgram: (name: string) => boolean,
): Target {
  const [first = ''] = words
  if (words.length > 1) return parseCommandTarget(words)
  if (/^((https?|grpcs?|http\+unix):\/\/|unix:)/i.test(first)) return { kind: 'url', url: first }
  if (/^[\w.-]+:\d{1,5}(\/|$)/.test(first)) return { kind: 'url', url: `http://${first}` }
  if (/\s/.test(first.trim())) return parseCommandTarget(first)
  if (recogniseServer([first]) || (isProgram(first) && !/\.(onnx|gguf|json)$/.test(first)))
    return { kind: 'command', words: [first] }
  return { kind: 'model', model: first }
}

/** @throws UserError for a malformed command */
export function parseCommandTarget(
  typed: string | readonly string[],
): Extract<Target, { kind: 'command' }> {
  try {
    return { kind: 'command', ...readTypedCommand(typed, process.env) }
  } catch (error) {
    if (!(error instanceof ShellError)) throw error
    throw new UserError(error.message, error.hint, exitCodes.usage)
  }
}

/** Parts of an experiment file, with comments. */
export interface ExperimentDraft {
  readonly predictor: Readonly<Record<string, unknown>>
  readonly space?: Readonly<Record<string, unknown>>
  /** Key path in the experiment file → comment. */
  readonly comments: Readonly<Record<string, string>>
  readonly model?: unknown
}

/**
 * Drafts the settings for a command that trials start.
 * @param userCwd folder in which the user runs tune; the command may change to another
 * @param hasUserModel whether the user names the model, which is then not derived from the command
 */
export function draftFromCommand(
  userCommand: TypedCommand,
  userCwd: string,
  hasUserModel = false,
): ExperimentDraft & { readonly tuned: TunedCommand } {
  const commandCwd = resolve(userCwd, userCommand.cwd ?? '.')
  const tuned = rewriteCommand(userCommand.words)
  const settings = rewriteSettingsFile(tuned, commandCwd)
  const { server, env } = tuned
  const command = writeCommand(userCommand, settings?.command ?? tuned.command)
  const parameters: TunedCommand['parameters'] = settings?.parameters ?? tuned.parameters
  const comments: Record<string, string> = {}
  for (const { name, what: description, was: currentValue } of parameters)
    comments[`space.${name}`] =
      currentValue === undefined ? description : `${description}; currently ${currentValue}`
  const space = Object.fromEntries(
    parameters.map(({ name, values, args, env: variable, setting }) => [
      name,
      // A parameter that reaches the server through its command, environment or file.
      args || variable || setting
        ? { values: typeof values === 'string' ? values : [...values], category: 'server' }
        : typeof values === 'string'
          ? values
          : [...values],
    ]),
  )
  if (!tuned.setsPort && settings === undefined)
    comments['predictor.env'] =
      'the command sets no port: if it does not read this variable, put ${port} where it sets the port'
  const predictor = {
    ...(server?.preset ? { server: server.preset.kind } : {}),
    // A preset's default command is left out.
    ...(server?.preset && command.length === 1 && command[0] === server.programs[0]
      ? {}
      : { command: [...command] }),
    ...(Object.keys(env).length > 0 && settings === undefined ? { env } : {}),
    ...(settings && { files: settings.files }),
    ...(userCommand.cwd !== undefined && { cwd: userCommand.cwd }),
    ...(server?.protocol ? { protocol: server.protocol } : {}),
  }
  const findModel = () =>
    server?.preset
      ? findServedModel(resolveModelFolder(tuned, userCommand.cwd), userCwd)
      : tuned.model === undefined
        ? undefined
        : formatModelName(tuned.model)
  const model = hasUserModel ? undefined : findModel()
  return {
    predictor: predictor,
    space,
    comments,
    tuned: { ...tuned, parameters },
    ...(model !== undefined && { model }),
  }
}

/** Resolves the folder of models against the working directory of the command. */
const resolveModelFolder = (tuned: TunedCommand, cwd: string | undefined): TunedCommand =>
  cwd === undefined || tuned.models === undefined || isAbsolute(tuned.models)
    ? tuned
    : { ...tuned, models: join(cwd, tuned.models) }

/** Formats a model name for the experiment file: as an object if it could be read as a path. */
export const formatModelName = (name: string): unknown => (isModelName(name) ? name : { name })

/**
 * Finds the model in the arguments of Triton or TensorFlow Serving.
 * @throws UserError if they do not name exactly one
 */
function findServedModel(
  { server, command, models: modelsFolder, model: modelName }: TunedCommand,
  cwd: string,
): unknown {
  const { kind, models: folderFlag } = server!.preset!
  const configuredModels =
    kind === 'tfserving' ? listTfservingModels(new OwnSettings(command, cwd)) : []
  if (configuredModels.length > 1)
    throw new UserError(
      `${server!.title} serves several models: ${configuredModels.map(({ name }) => name).join(', ')}`,
      `choose one with --model and its folder: ${configuredModels.map((one) => one.folder).join(', ')}; then set its name in the file: model: {path: ..., name: ...}`,
      exitCodes.usage,
    )
  if (configuredModels[0])
    return { path: configuredModels[0].folder, name: configuredModels[0].name }
  const folder = modelsFolder === undefined ? undefined : resolve(cwd, modelsFolder)
  if (modelsFolder === undefined || folder === undefined || !existsSync(folder))
    throw new UserError(
      `${server!.title} serves the folder of ${folderFlag}, but ${modelsFolder === undefined ? 'that argument is missing' : `${modelsFolder} is not a folder`}`,
      `add ${folderFlag}=FOLDER`,
      exitCodes.usage,
    )
  if (kind === 'tfserving')
    return {
      path: modelsFolder,
      ...(modelName !== undefined && modelName !== basename(folder) && { name: modelName }),
    }
  const names = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
  if (names.length === 1) return { path: join(modelsFolder, names[0]!) }
  const hint =
    names.length > 1
      ? `one of ${names
          .slice(0, 8)
          .map((name) => join(modelsFolder, name))
          .join(', ')}`
      : 'and put the model into that folder'
  throw new UserError(
    `${modelsFolder} contains ${names.length} models: one must be chosen`,
    `add --model, ${hint}`,
    exitCodes.usage,
  )
}

/**
 * Suggests a round latency limit of at least 10 ms, and at least five times the latency of one
 * answer.
 */
export function suggestSlo(answerMs: number): string {
  const limitMs = Math.max(10, 5 * answerMs)
  const powerOfTen = 10 ** Math.floor(Math.log10(limitMs))
  const ms = [1, 2, 5, 10]
    .map((multiple) => multiple * powerOfTen)
    .find((value) => value >= limitMs)!
  return ms >= 1000 ? `${ms / 1000}s` : `${ms}ms`
}

/**
 * @returns why an SLO is invalid, to print before the prompt repeats; undefined if it is valid or
 * empty
 */
export function explainSloFault(text: string): string | undefined {
  try {
    if (text !== '') parseSlo(text)
    return undefined
  } catch (error) {
    if (!(error instanceof UnitError)) throw error
    return `${error.message}: ${error.hint}`
  }
}

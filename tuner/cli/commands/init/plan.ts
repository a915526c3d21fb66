/**
 * Derives settings of an experiment file from a target, before any server is contacted. Reads only
 * the named paths.
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
import { createTfservingModels } from '../../../../trials/servers/tfserving.ts'
import { ShellError } from '../../../../trials/shell-words.ts'
import { parseSlo } from '../../../config/parse-slo.ts'
import { isModelName } from '../../../config/schema/model-schema.ts'
import { UnitError } from '../../../config/units.ts'
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
export interface Plan {
  readonly predictor: Readonly<Record<string, unknown>>
  readonly space?: Readonly<Record<string, unknown>>
  /** Path of the file → comment. */
  readonly comments: Readonly<Record<string, string>>
  readonly model?: unknown
}

/**
 * Settings for a command that trials start.
 * @param userCwd folder in which the user runs tune; the command may change to another
 */
export function planCommand(
  typed: TypedCommand,
  userCwd: string,
  hasUserModel = false,
): Plan & { readonly tuned: TunedCommand } {
  const commandCwd = resolve(userCwd, typed.cwd ?? '.')
  const tuned = rewriteCommand(typed.words)
  const settings = rewriteSettingsFile(tuned, commandCwd)
  const { server, env } = tuned
  const command = writeCommand(typed, settings?.command ?? tuned.command)
  const parameters: TunedCommand['parameters'] = settings?.parameters ?? tuned.parameters
  const comments: Record<string, string> = {}
  for (const { name, what, was } of parameters)
    comments[`space.${name}`] = was === undefined ? what : `${what}; was ${was}`
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
  if (!tuned.saysPort && settings === undefined)
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
    ...(typed.cwd !== undefined && { cwd: typed.cwd }),
    ...(server?.protocol ? { protocol: server.protocol } : {}),
  }
  const findModel = () =>
    server?.preset
      ? findServedModel(resolveModelFolder(tuned, typed.cwd), userCwd)
      : tuned.model === undefined
        ? undefined
        : nameModel(tuned.model)
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

/** A model name for the experiment file, also if it looks like a path. */
export const nameModel = (name: string): unknown => (isModelName(name) ? name : { name })

/**
 * The model in the arguments of Triton or TensorFlow Serving. @throws UserError if they do not name
 * exactly one
 */
function findServedModel({ server, command, models, model }: TunedCommand, cwd: string): unknown {
  const { kind, models: argument } = server!.preset!
  const configuredModels =
    kind === 'tfserving' ? createTfservingModels(new OwnSettings(command, cwd)) : []
  if (configuredModels.length > 1)
    throw new UserError(
      `${server!.title} serves several models: ${configuredModels.map(({ name }) => name).join(', ')}`,
      `choose one with --model and its folder: ${configuredModels.map((one) => one.folder).join(', ')}; then set its name in the file: model: {path: ..., name: ...}`,
      exitCodes.usage,
    )
  if (configuredModels[0])
    return { path: configuredModels[0].folder, name: configuredModels[0].name }
  const folder = models === undefined ? undefined : resolve(cwd, models)
  if (models === undefined || folder === undefined || !existsSync(folder))
    throw new UserError(
      `${server!.title} serves the folder of ${argument}, but ${models === undefined ? 'that argument is missing' : `${models} is not a folder`}`,
      `add ${argument}=FOLDER`,
      exitCodes.usage,
    )
  if (kind === 'tfserving')
    return {
      path: models,
      ...(model !== undefined && model !== basename(folder) && { name: model }),
    }
  const names = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
  if (names.length === 1) return { path: join(models, names[0]!) }
  const hint =
    names.length > 1
      ? `one of ${names
          .slice(0, 8)
          .map((name) => join(models, name))
          .join(', ')}`
      : 'and put the model into that folder'
  throw new UserError(
    `${models} contains ${names.length} models: one must be chosen`,
    `add --model, ${hint}`,
    exitCodes.usage,
  )
}

/** A round latency limit, about five times the latency of one answer. */
export function suggestSlo(answerMs: number): string {
  const limitMs = Math.max(10, 5 * answerMs)
  const step = 10 ** Math.floor(Math.log10(limitMs))
  const ms = [1, 2, 5, 10].map((times) => times * step).find((value) => value >= limitMs)!
  return ms >= 1000 ? `${ms / 1000}s` : `${ms}ms`
}

/** Why a typed SLO is invalid, to print before asking again; undefined for a valid or empty one. */
export function explainSloFault(text: string): string | undefined {
  try {
    if (text !== '') parseSlo(text)
    return undefined
  } catch (error) {
    if (!(error instanceof UnitError)) throw error
    return `${error.message}: ${error.hint}`
  }
}

/** Fills a template with a configuration: the argument list, environment and files of one trial. */
import { join } from 'node:path'
import type { Configuration } from '../../search/types.ts'
import { OwnSettings, removeFlags, SettingsFileError } from '../servers/own-settings.ts'
import { createServerTuning, selectServerParameters } from '../servers/preset.ts'
import { LaunchError } from '../types.ts'
import {
  argsPlaceholder,
  fillPlaceholders,
  findPlaceholders,
  formatArgumentNames,
  formatEnvironmentName,
  formatPlaceholderHint,
  getArgFormat,
  isInvalidFilePath,
  joinNames,
  type LauncherValues,
  listPrepareTexts,
  preparedName,
  preparePlaceholders,
  type TunedParameter,
} from './placeholders.ts'
import { type CommandTemplate, defaultPrepareTimeoutS, type PrepareStep } from './template.ts'

export interface FilledTemplate {
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly files: readonly { readonly path: string; readonly contents: string }[]
  readonly cwd?: string
}

/** A `prepare` step of one configuration. */
export interface FilledPrepare {
  /**
   * Contains `preparedPlaceholder` for the folder: the cache key must not depend on the location.
   */
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly inputs: readonly string[]
  readonly timeoutS: number
  /** Whether it contains a value of the configuration, so that results differ between them. */
  readonly varies: boolean
}
export const preparedPlaceholder = `\${${preparedName}}`

/** @throws LaunchError naming every placeholder without a value */
export const fillPrepare = (
  { command, env = {}, inputs = [], timeoutS = defaultPrepareTimeoutS }: PrepareStep,
  configuration: Configuration,
  values: LauncherValues,
): FilledPrepare => {
  const missing = new Set<string>()
  const knownValues = Object.fromEntries(
    preparePlaceholders.flatMap((name) =>
      values[name] === undefined ? [] : [[name, values[name]]],
    ),
  )
  const fill = (text: string) =>
    fillPlaceholders(
      text,
      { ...knownValues, ...configuration, [preparedName]: preparedPlaceholder },
      (name) => missing.add(name),
    )
  const texts = [...command, ...Object.values(env)]
  const filled = {
    argv: command.map(fill),
    env: Object.fromEntries(Object.entries(env).map(([name, value]) => [name, fill(value)])),
    inputs,
    timeoutS,
    varies: texts
      .flatMap(findPlaceholders)
      .some((name) => name !== preparedName && name !== 'model'),
  }
  requireNoMissing('prepare', missing)
  return filled
}

/** @throws LaunchError for placeholders without a value */
const requireNoMissing = (step: 'prepare' | 'reconfigure', missing: ReadonlySet<string>): void => {
  if (missing.size > 0)
    throw new LaunchError(
      `${step}: no value for ${joinNames([...missing])}`,
      `pin it, or remove it from \`${step}\``,
    )
}

/** @throws LaunchError naming every placeholder without a value */
export const fillReconfigure = (
  words: readonly string[],
  configuration: Configuration,
  values: LauncherValues,
): string[] => {
  const missing = new Set<string>()
  const filled = words.map((word) =>
    fillPlaceholders(word, { ...values, ...configuration }, (name) => missing.add(name)),
  )
  requireNoMissing('reconfigure', missing)
  return filled
}

/**
 * Lists the parameters that reach a server only by its `reconfigure` command, so that another value
 * needs no restart.
 */
export const listReconfigurable = (
  template: CommandTemplate,
  parameters: readonly TunedParameter[],
): ReadonlySet<string> => {
  const { command, env = {}, files = [], cwd = '', prepare } = template
  const startTexts = [
    ...command,
    ...Object.values(env),
    ...files.flatMap((file) => [file.path, file.template]),
    cwd,
    ...listPrepareTexts(prepare),
  ]
  const namesAtStart = new Set(startTexts.flatMap(findPlaceholders))
  const namesAtRunTime = new Set((template.reconfigure ?? []).flatMap(findPlaceholders))
  return new Set(
    parameters.flatMap(({ name, category }) =>
      category === 'server' && namesAtRunTime.has(name) && !namesAtStart.has(name) ? [name] : [],
    ),
  )
}

/**
 * Lists the arguments, each with the flag before it, and the variables of a template that contain
 * placeholders for parameters.
 * @returns in `elsewhere` the parameters that reach the server by files, by its preset, or at run
 * time
 */
export const listTunedParts = (
  template: CommandTemplate,
  parameters: readonly TunedParameter[],
): { readonly template: CommandTemplate; readonly elsewhere: readonly string[] } => {
  const parameterNames = new Set(parameters.map(({ name }) => name))
  const isTuned = (text: string) => findPlaceholders(text).some((name) => parameterNames.has(name))
  const isFlag = (word: string | undefined) => word !== undefined && /^--?[^=\s]+$/.test(word)
  const command = template.command.flatMap((word, i) => {
    if (!isTuned(word)) return []
    const previous = template.command[i - 1]
    return !word.startsWith('-') && isFlag(previous) ? [previous!, word] : [word]
  })
  const env = Object.fromEntries(
    Object.entries(template.env ?? {}).filter(([, text]) => isTuned(text)),
  )
  const passedNames = new Set([...command, ...Object.values(env)].flatMap(findPlaceholders))
  const presetNames =
    template.server && selectServerParameters(template.server.kind, [...parameterNames])
  return {
    template: { ...template, command, env, files: [], server: undefined },
    elsewhere: parameters.flatMap(({ name, category }) =>
      !passedNames.has(name) && (category === 'server' || presetNames?.has(name)) ? [name] : [],
    ),
  }
}

/** @throws LaunchError naming every placeholder without a value */
export const fillCommand = (
  template: CommandTemplate,
  parameters: readonly TunedParameter[],
  configuration: Configuration,
  values: LauncherValues,
): FilledTemplate => {
  const missing = new Set<string>()
  const fill = (text: string) =>
    fillPlaceholders(text, { ...values, ...configuration }, (name) => missing.add(name))
  const args = parameters
    .filter((parameter) => parameter.category === 'args' && parameter.name in configuration)
    .flatMap(({ name }) =>
      (template.argFormat ?? getArgFormat(template.server?.kind)).map((part) =>
        fillPlaceholders(part, formatArgumentNames(name, String(configuration[name])), (n) =>
          missing.add(n),
        ),
      ),
    )
  const hasArgsPlaceholder = template.command.includes(argsPlaceholder)
  const command = template.command.flatMap((part) =>
    part === argsPlaceholder ? args : [fill(part)],
  )
  const cwd = template.cwd === undefined ? undefined : fill(template.cwd)
  const writtenFiles = (template.files ?? []).map((file) => ({
    path: fill(file.path),
    contents: fill(file.template),
  }))
  const server =
    template.server &&
    createTuning(
      template.server,
      configuration,
      {
        host: String(values.host),
        port: String(values.port),
        model: template.model,
        dir: String(values.dir),
        gpuMemoryFraction: Number(values.gpuMemoryFraction ?? 0),
      },
      new OwnSettings(
        command,
        cwd,
        new Map(
          writtenFiles.map(({ path, contents }) => [join(String(values.dir), path), contents]),
        ),
      ),
    )
  const filled = {
    argv: [
      ...removeFlags(command, server?.replaced ?? []),
      ...(hasArgsPlaceholder ? [] : args),
      ...(server?.args ?? []),
    ],
    env: {
      ...Object.fromEntries(
        Object.entries(template.env ?? {}).map(([name, value]) => [name, fill(value)]),
      ),
      ...createEnvironment(
        parameters.filter(({ name }) => !server?.taken.has(name)),
        configuration,
        template.envNames,
      ),
    },
    files: [...writtenFiles, ...(server?.files ?? [])],
    cwd,
  }
  if (missing.size > 0)
    throw new LaunchError(
      `predictor template: no value for ${joinNames([...missing])}`,
      formatPlaceholderHint(parameters),
    )
  // The value of a placeholder may lead outside the folder.
  const invalidFile = filled.files.find(isInvalidFilePath)
  if (invalidFile !== undefined)
    throw new LaunchError(
      `files: ${JSON.stringify(invalidFile.path)} is not a path below the trial's folder`,
      'correct the path, or the values of the parameters in it',
      undefined,
      'configuration',
    )
  return filled
}

/** @throws LaunchError for a settings file of the user's that cannot be merged */
function createTuning(
  ...args: Parameters<typeof createServerTuning>
): ReturnType<typeof createServerTuning> {
  try {
    return createServerTuning(...args)
  } catch (error) {
    if (!(error instanceof SettingsFileError)) throw error
    throw new LaunchError(error.message, settingsHint, undefined, 'experiment')
  }
}
const settingsHint = 'correct the file, or remove it from the command'

/** Placeholders that give a server its share of a GPU's memory. */
const memoryShareNames: ReadonlySet<string> = new Set([
  'gpuMemoryFraction',
  'gpuMemoryMiB',
  'gpuMemoryPercent',
])

/**
 * Whether the server receives its share of GPU memory and enforces it: by its own flag, a
 * placeholder, or a parameter.
 */
export const limitsOwnGpuMemory = (
  template: CommandTemplate,
  parameters: readonly TunedParameter[],
): boolean => {
  if (template.server !== undefined && template.server.kind !== 'triton') return true
  const texts = [
    ...template.command,
    ...Object.values(template.env ?? {}),
    ...(template.files ?? []).map((file) => file.template),
  ]
  return (
    texts.flatMap(findPlaceholders).some((name) => memoryShareNames.has(name)) ||
    parameters.some(
      ({ name, category }) =>
        memoryShareNames.has(name) && (category === 'env' || category === 'args'),
    )
  )
}

const createEnvironment = (
  parameters: readonly TunedParameter[],
  configuration: Configuration,
  envNames: Readonly<Record<string, string>> = {},
): Record<string, string> =>
  Object.fromEntries(
    parameters
      .filter(({ name, category }) => category === 'env' && name in configuration)
      .map(({ name }) => [
        envNames[name] ?? formatEnvironmentName(name),
        String(configuration[name]),
      ]),
  )

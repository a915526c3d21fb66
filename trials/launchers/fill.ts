/** Fills a template with a configuration: the argument list, environment and files of one trial. */
import { join } from 'node:path'
import type { Configuration } from '../../search/types.ts'
import { OwnSettings, removeFlags, SettingsFileError } from '../servers/own-settings.ts'
import { createServerTuning, selectServerParameters } from '../servers/preset.ts'
import { LaunchError } from '../types.ts'
import {
  argsSlot,
  findPlaceholders,
  formatArgumentNames,
  formatEnvironmentName,
  formatPlaceholderHint,
  getArgFormat,
  isOutsideFolder,
  joinNames,
  type LauncherValues,
  preparedName,
  preparePlaceholders,
  prepareTexts,
  substitute,
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
  /**
   * Contains a value of the configuration, so that its result may differ between configurations.
   */
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
  const known = Object.fromEntries(
    preparePlaceholders.flatMap((name) =>
      values[name] === undefined ? [] : [[name, values[name]]],
    ),
  )
  const fill = (text: string) =>
    substitute(text, { ...known, ...configuration, [preparedName]: preparedPlaceholder }, (name) =>
      missing.add(name),
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
  checkFilled('prepare', missing)
  return filled
}

/** @throws LaunchError for placeholders without a value */
const checkFilled = (step: 'prepare' | 'reconfigure', missing: ReadonlySet<string>): void => {
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
    substitute(word, { ...values, ...configuration }, (name) => missing.add(name)),
  )
  checkFilled('reconfigure', missing)
  return filled
}

/**
 * Parameters that reach a server by its `reconfigure` command alone: of another value it need not
 * be started again.
 */
export const listReconfigurable = (
  template: CommandTemplate,
  parameters: readonly TunedParameter[],
): ReadonlySet<string> => {
  const { command, env = {}, files = [], cwd = '', prepare } = template
  const started = [
    ...command,
    ...Object.values(env),
    ...files.flatMap((file) => [file.path, file.template]),
    cwd,
    ...prepareTexts(prepare),
  ]
  const elsewhere = new Set(started.flatMap(findPlaceholders))
  const set = new Set((template.reconfigure ?? []).flatMap(findPlaceholders))
  return new Set(
    parameters.flatMap(({ name, category }) =>
      category === 'server' && set.has(name) && !elsewhere.has(name) ? [name] : [],
    ),
  )
}

/**
 * Arguments and variables of a template with placeholders for parameters, each with the flag before
 * it. Also names of parameters that reach the server by files, by its preset, or at run time.
 */
export const listTunedParts = (
  template: CommandTemplate,
  parameters: readonly TunedParameter[],
): { readonly template: CommandTemplate; readonly elsewhere: readonly string[] } => {
  const joinNames = new Set(parameters.map(({ name }) => name))
  const isTuned = (text: string) => findPlaceholders(text).some((name) => joinNames.has(name))
  const isFlag = (word: string | undefined) => word !== undefined && /^--?[^=\s]+$/.test(word)
  const command = template.command.flatMap((word, i) => {
    if (!isTuned(word)) return []
    const before = template.command[i - 1]
    return !word.startsWith('-') && isFlag(before) ? [before!, word] : [word]
  })
  const env = Object.fromEntries(
    Object.entries(template.env ?? {}).filter(([, text]) => isTuned(text)),
  )
  const told = new Set([...command, ...Object.values(env)].flatMap(findPlaceholders))
  const taken = template.server && selectServerParameters(template.server.kind, [...joinNames])
  return {
    template: { ...template, command, env, files: [], server: undefined },
    elsewhere: parameters.flatMap(({ name, category }) =>
      !told.has(name) && (category === 'server' || taken?.has(name)) ? [name] : [],
    ),
  }
}

/**
 * @throws LaunchError naming every placeholder without a value
 */
export const fillCommand = (
  template: CommandTemplate,
  parameters: readonly TunedParameter[],
  configuration: Configuration,
  values: LauncherValues,
): FilledTemplate => {
  const missing = new Set<string>()
  const fill = (text: string) =>
    substitute(text, { ...values, ...configuration }, (name) => missing.add(name))
  const args = parameters
    .filter((parameter) => parameter.category === 'args' && parameter.name in configuration)
    .flatMap(({ name }) =>
      (template.argFormat ?? getArgFormat(template.server?.kind)).map((part) =>
        substitute(part, formatArgumentNames(name, String(configuration[name])), (n) =>
          missing.add(n),
        ),
      ),
    )
  const hasSlot = template.command.includes(argsSlot)
  const command = template.command.flatMap((part) => (part === argsSlot ? args : [fill(part)]))
  const cwd = template.cwd === undefined ? undefined : fill(template.cwd)
  const written = (template.files ?? []).map((file) => ({
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
        new Map(written.map(({ path, contents }) => [join(String(values.dir), path), contents])),
      ),
    )
  const filled = {
    argv: [
      ...removeFlags(command, server?.replaced ?? []),
      ...(hasSlot ? [] : args),
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
    files: [...written, ...(server?.files ?? [])],
    cwd,
  }
  if (missing.size > 0)
    throw new LaunchError(
      `predictor template: no value for ${joinNames([...missing])}`,
      formatPlaceholderHint(parameters),
    )
  // The value of a placeholder may lead outside the folder.
  const outside = filled.files.find(isOutsideFolder)
  if (outside !== undefined)
    throw new LaunchError(
      `files: ${JSON.stringify(outside.path)} is not a path below the trial's folder`,
      'correct the path, or the values of the parameters in it',
      undefined,
      'configuration',
    )
  return filled
}

/** @throws LaunchError for a settings file of the user's that cannot be merged */
function createTuning(
  ...given: Parameters<typeof createServerTuning>
): ReturnType<typeof createServerTuning> {
  try {
    return createServerTuning(...given)
  } catch (error) {
    if (!(error instanceof SettingsFileError)) throw error
    throw new LaunchError(error.message, settingsHint, undefined, 'experiment')
  }
}
const settingsHint = 'correct the file, or remove it from the command'

/** By these a server learns its share of a GPU's memory. */
const shareNames: ReadonlySet<string> = new Set([
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
    texts.flatMap(findPlaceholders).some((name) => shareNames.has(name)) ||
    parameters.some(
      ({ name, category }) => shareNames.has(name) && (category === 'env' || category === 'args'),
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

/** Fills a template with a configuration: the argument list, environment and files of one trial. */
import { join, resolve } from 'node:path'
import type { Configuration, Parameter } from '../../search/types.ts'
import { isReference } from '../secrets.ts'
import { recogniseServer } from '../servers/own-command.ts'
import {
  normaliseFlag,
  OwnSettings,
  removeFlags,
  SettingsFileError,
} from '../servers/own-settings.ts'
import { createServerTuning, listFlags, selectServerParameters } from '../servers/preset.ts'
import type { ServerKind } from '../servers/server-kinds.ts'
import { isLanguageServer } from '../servers/server-kinds.ts'
import { LaunchError } from '../types.ts'
import {
  type CommandTemplate,
  defaultPrepareTimeoutS,
  type PrepareStep,
  type TemplateFile,
} from './template.ts'

/** The part of a parameter that launchers use. */
export type TunedParameter = Pick<Parameter, 'name' | 'category'>

/** Placeholders other than names of parameters. */
export const launcherPlaceholders = [
  'host',
  'port',
  'model',
  'trial',
  'dir',
  'cpuCores',
  'coreList',
  'gpuMemoryMiB',
  'gpuMemoryFraction',
] as const
/** The folder that a `prepare` step fills, if the template has one. */
const preparedName = 'prepared'
export type LauncherValues = Readonly<
  Partial<Record<(typeof launcherPlaceholders)[number] | typeof preparedName, string | number>>
>

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

/** Placeholders of a `prepare` step: those that are equal in every trial of a configuration. */
const preparePlaceholders = ['model', 'cpuCores', 'gpuMemoryMiB', 'gpuMemoryFraction'] as const

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

const reconfigurePlaceholders = ['host', 'port', 'model'] as const

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

/**
 * Everything wrong with a command template before any trial: unknown placeholders, `server`
 * parameters that reach nothing, files outside the trial's folder. Messages start with the key at
 * fault, for the experiment file's errors.
 */
export const findTemplateProblems = (
  template: CommandTemplate,
  parameters: readonly TunedParameter[],
): string[] => {
  const tuned = parameters.map((parameter) => parameter.name)
  const known = new Set<string>([
    ...launcherPlaceholders,
    ...tuned,
    ...(template.prepare ? [preparedName] : []),
  ])
  const places: [string, string][] = [
    ...template.command.map((text, index): [string, string] => [`command[${index}]`, text]),
    ...Object.entries(template.env ?? {}).map(([name, text]): [string, string] => [
      `env.${name}`,
      text,
    ]),
    ...(template.files ?? []).flatMap((file, index): [string, string][] => [
      [`files[${index}].path`, file.path],
      [`files[${index}].template`, file.template],
    ]),
    ['cwd', template.cwd ?? ''],
  ]
  const own = new OwnSettings(template.command, template.cwd, listWrittenFiles(template))
  const settings = findSettingsProblems(template, parameters, own)
  const used = new Set(
    settings.length > 0
      ? tuned
      : template.server && selectServerParameters(template.server.kind, tuned, own),
  )
  for (const name of [...prepareTexts(template.prepare), ...(template.reconfigure ?? [])].flatMap(
    findPlaceholders,
  ))
    used.add(name)
  const unknown = places.flatMap(([place, text]) =>
    text === argsSlot
      ? []
      : findPlaceholders(text).flatMap((name) => {
          used.add(name)
          return known.has(name)
            ? []
            : [`${place}: unknown placeholder \${${name}}; ${formatPlaceholderHint(parameters)}`]
        }),
  )
  const argFormat = (template.argFormat ?? []).flatMap((part, index) =>
    findPlaceholders(part)
      .filter((name) => !(name in formatArgumentNames('', '')))
      .map(
        (name) =>
          `argFormat[${index}]: unknown placeholder \${${name}}; known: ${joinNames(Object.keys(formatArgumentNames('', '')))}`,
      ),
  )
  const unused = parameters
    .filter(({ name, category }) => category === 'server' && !used.has(name))
    .map(
      ({ name }) =>
        `parameter ${name} (server) never reaches the predictor: put \${${name}} into command, env, a file or reconfigure`,
    )
  const ofServer =
    template.server && isLanguageServer(template.server.kind) ? template.server.kind : undefined
  const unread = parameters
    .filter(
      ({ name, category }) =>
        ofServer &&
        category === 'env' &&
        !used.has(name) &&
        !template.envNames?.[name] &&
        name !== name.toUpperCase(),
    )
    .map(
      ({ name }) =>
        `parameter ${name}: ${ofServer} does not read a variable ${formatEnvironmentName(name)}; use category: args to pass a flag, or write the name of a variable in capitals`,
    )
  const outside = (template.files ?? [])
    .filter(isOutsideFolder)
    .map((file) => `files: ${JSON.stringify(file.path)} is not a path below the trial's folder`)
  const empty = template.command.length === 0 ? ['command: is empty'] : []
  const wrong = template.prepare ? prepareProblems(template.prepare, tuned) : []
  return [
    ...empty,
    ...unknown,
    ...wrong,
    ...settings,
    ...findFixedFlags(template, parameters, settings.length === 0 ? own : new OwnSettings()),
    ...findReconfigureProblems(template, parameters),
    ...argFormat,
    ...unused,
    ...unread,
    ...outside,
  ]
}

/** By the path as the command names it, with the placeholder of the trial's folder. */
const listWrittenFiles = ({ files = [], cwd }: CommandTemplate): ReadonlyMap<string, string> =>
  new Map(
    files.map((file) => [resolve(cwd ?? process.cwd(), `\${dir}/${file.path}`), file.template]),
  )

/** A settings file of the user's own that tuned values cannot be merged into. */
function findSettingsProblems(
  { server }: CommandTemplate,
  parameters: readonly TunedParameter[],
  own: OwnSettings,
): string[] {
  if (server === undefined) return []
  try {
    const joinNames = parameters.map(({ name }) => name)
    selectServerParameters(server.kind, joinNames, own)
    return []
  } catch (error) {
    if (!(error instanceof SettingsFileError)) throw error
    return [`command: ${error.message}`]
  }
}

/**
 * Arguments and variables of the command that a parameter sets too: which of both is read is the
 * server's choice.
 */
function findFixedFlags(
  template: CommandTemplate,
  parameters: readonly TunedParameter[],
  own: OwnSettings,
): string[] {
  const { command } = template
  return parameters.flatMap(({ name, category }) => {
    if (category === 'resource') return []
    const flags = listParameterFlags(template, { name, category }, own).map(normaliseFlag)
    const isSet = (word: string) =>
      flags.includes(normaliseFlag(word)) || (/^-\w\d+$/.test(word) && flags.includes(word[1]))
    const variable = template.envNames?.[name] ?? formatEnvironmentName(name)
    const fixed = command.find((word, i) =>
      word.startsWith('-')
        ? isSet(word) && !isTunedAt(command, i)
        : category === 'env' && word.startsWith(`${variable}=`) && !word.includes('${'),
    )
    return fixed === undefined
      ? []
      : [
          `command: it fixes ${fixed.replace(/=.*$/s, '')}, which parameter ${name} sets: remove it from the command, or pin the parameter`,
        ]
  })
}

/**
 * Arguments by which a command may fix a parameter: its own argument, those of a known server's
 * table, and those with its name, which override a variable or a file.
 */
function listParameterFlags(
  { command, server, argFormat }: CommandTemplate,
  { name, category }: TunedParameter,
  own: OwnSettings,
): readonly string[] {
  const written = (argFormat ?? getArgFormat(server?.kind)).map((part) =>
    substitute(part, formatArgumentNames(name, ''), () => {}),
  )
  const named = Object.values(formatArgumentNames(name, '')).map((text) => `--${text}`)
  const known = recogniseServer(command)?.knobs.find((knob) => knob.name === name)?.args ?? []
  return [
    ...(category === 'args' ? written : []),
    ...(server === undefined ? [...known, ...named] : listFlags(server.kind, name, own)),
  ]
}

/** Whether an argument's value has a placeholder. */
const isTunedAt = (words: readonly string[], at: number): boolean =>
  (words[at]!.includes('=') ? words[at]! : (words[at + 1] ?? '')).includes('${')

const findReconfigureProblems = (
  template: CommandTemplate,
  parameters: readonly TunedParameter[],
): string[] => {
  const { reconfigure } = template
  if (reconfigure === undefined) return []
  const known = [...parameters.map(({ name }) => name), ...reconfigurePlaceholders]
  const unknown = [...new Set(reconfigure.flatMap(findPlaceholders))].filter(
    (name) => !known.includes(name),
  )
  if (unknown.length > 0)
    return unknown.map(
      (name) => `reconfigure: unknown placeholder \${${name}}; known: ${joinNames(known)}`,
    )
  if (listReconfigurable(template, parameters).size > 0) return []
  return [
    'reconfigure: must set a parameter of category server that is set nowhere else: put its ${name} only into reconfigure',
  ]
}

const prepareTexts = (step: PrepareStep | undefined): string[] => [
  ...(step?.command ?? []),
  ...Object.values(step?.env ?? {}),
]

const prepareProblems = (step: PrepareStep, tuned: readonly string[]): string[] =>
  [...new Set(prepareTexts(step).flatMap(findPlaceholders))].flatMap((name) => {
    if ([...tuned, ...preparePlaceholders, preparedName].includes(name)) return []
    return (launcherPlaceholders as readonly string[]).includes(name)
      ? [
          `prepare: \${${name}} differs in every trial, but all trials share what is prepared: remove it`,
        ]
      : [
          `prepare: unknown placeholder \${${name}}; known: ${joinNames([...tuned, ...preparePlaceholders, preparedName])}`,
        ]
  })

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

/** MAX_BATCH_SIZE for maxBatchSize, max-batch-size and max_batch_size. */
export const formatEnvironmentName = (name: string): string =>
  separateWords(name, '_').toUpperCase()

const argsSlot = '${args}'
const getArgFormat = (kind: ServerKind | undefined): readonly string[] => {
  if (kind === undefined || !isLanguageServer(kind)) return ['--${name}=${value}']
  return [kind === 'tensorrt-llm' ? '--${snake_name}=${value}' : '--${kebab-name}=${value}']
}

const formatArgumentNames = (name: string, value: string): Record<string, string> => ({
  name,
  'kebab-name': separateWords(name, '-').toLowerCase(),
  snake_name: separateWords(name, '_').toLowerCase(),
  value,
})

/**
 * 'gpuMemoryMiB' → gpu, Memory, MiB: words begin at a capital after a small letter or digit; units
 * such as 'MiB' are not split.
 */
const separateWords = (name: string, by: string): string =>
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/ ?([KMGT]) ?i ?B\b/g, ' $1iB')
    .trim()
    .split(/[\s_\-.]+/)
    .join(by)

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

const placeholder = /\$?\$\{([^}]*)\}/g

const findPlaceholders = (text: string): string[] =>
  [...text.matchAll(placeholder)]
    .filter(([whole, name]) => !whole.startsWith('$$') && !isReference(name!))
    .map(([, name]) => name!)

const substitute = (
  text: string,
  values: Readonly<Record<string, string | number>>,
  missing: (name: string) => void,
): string =>
  text.replace(placeholder, (whole, name: string) => {
    if (whole.startsWith('$$')) return whole.slice(1)
    // A reference to a secret, which is resolved on use: specs keep the reference.
    if (isReference(name)) return whole
    if (!Object.hasOwn(values, name)) missing(name)
    return String(values[name])
  })

const isOutsideFolder = ({ path }: Pick<TemplateFile, 'path'>): boolean =>
  path.startsWith('/') ||
  path.split('/').includes('..') ||
  path === '' ||
  path.endsWith('/') ||
  path.includes('\0')

const formatPlaceholderHint = (parameters: readonly TunedParameter[]): string =>
  `known: ${joinNames([...parameters.map((parameter) => parameter.name), ...launcherPlaceholders])} ($\${ writes a plain \${)`

const joinNames = (list: readonly string[]): string => list.join(', ')

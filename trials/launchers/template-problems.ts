/** Checks templates before any trial. */
import { resolve } from 'node:path'
import { recogniseServer } from '../servers/own-command.ts'
import { normaliseFlag, OwnSettings, SettingsFileError } from '../servers/own-settings.ts'
import { listFlags, selectServerParameters } from '../servers/preset.ts'
import { isLanguageServer } from '../servers/server-kinds.ts'
import { listReconfigurable } from './fill.ts'
import {
  argsPlaceholder,
  fillPlaceholders,
  findPlaceholders,
  formatArgumentNames,
  formatEnvironmentName,
  formatPlaceholderHint,
  formatStagePlaceholder,
  getArgFormat,
  isInvalidFilePath,
  joinNames,
  launcherPlaceholders,
  listPrepareTexts,
  preparedName,
  preparePlaceholders,
  reconfigurePlaceholders,
  type TunedParameter,
} from './placeholders.ts'
import type { CommandTemplate, PrepareStep } from './template.ts'

/**
 * Finds everything wrong with a command template before any trial: unknown placeholders, `server`
 * parameters and called stages that reach nothing, files outside the trial's folder. Messages start
 * with the key at fault, for the experiment file's errors.
 * @param calledStages names of the stages that the predictor calls
 */
export const findTemplateProblems = (
  template: CommandTemplate,
  parameters: readonly TunedParameter[],
  calledStages: readonly string[] = [],
): string[] => {
  const parameterNames = parameters.map((parameter) => parameter.name)
  const knownNames = new Set<string>([
    ...launcherPlaceholders,
    ...parameterNames,
    ...calledStages.map(formatStagePlaceholder),
    ...(template.prepare ? [preparedName] : []),
  ])
  const textsByPlace: [string, string][] = [
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
  const ownSettings = new OwnSettings(template.command, template.cwd, listWrittenFiles(template))
  const settingsProblems = findSettingsProblems(template, parameters, ownSettings)
  const usedNames = new Set(
    settingsProblems.length > 0
      ? parameterNames
      : template.server &&
          selectServerParameters(template.server.kind, parameterNames, ownSettings),
  )
  for (const name of [
    ...listPrepareTexts(template.prepare),
    ...(template.reconfigure ?? []),
  ].flatMap(findPlaceholders))
    usedNames.add(name)
  const unknown = textsByPlace.flatMap(([place, text]) =>
    text === argsPlaceholder
      ? []
      : findPlaceholders(text).flatMap((name) => {
          usedNames.add(name)
          return knownNames.has(name)
            ? []
            : [
                `${place}: unknown placeholder \${${name}}; ${formatPlaceholderHint(parameters, calledStages)}`,
              ]
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
    .filter(({ name, category }) => category === 'server' && !usedNames.has(name))
    .map(
      ({ name }) =>
        `parameter ${name} (server) never reaches the predictor: put \${${name}} into command, env, a file or reconfigure`,
    )
  const uncalled = calledStages
    .filter((stage) => !usedNames.has(formatStagePlaceholder(stage)))
    .map(
      (stage) =>
        `command: the address of stage ${stage} never reaches the predictor; put \${${formatStagePlaceholder(stage)}} into command, env or a file`,
    )
  const languageServer =
    template.server && isLanguageServer(template.server.kind) ? template.server.kind : undefined
  const unread = parameters
    .filter(
      ({ name, category }) =>
        languageServer &&
        category === 'env' &&
        !usedNames.has(name) &&
        !template.envNames?.[name] &&
        name !== name.toUpperCase(),
    )
    .map(
      ({ name }) =>
        `parameter ${name}: ${languageServer} does not read a variable ${formatEnvironmentName(name)}; use category: args to pass a flag, or write the name of a variable in capitals`,
    )
  const invalidFiles = (template.files ?? [])
    .filter(isInvalidFilePath)
    .map((file) => `files: ${JSON.stringify(file.path)} is not a path below the trial's folder`)
  const empty = template.command.length === 0 ? ['command: is empty'] : []
  const prepareProblems = template.prepare
    ? findPrepareProblems(template.prepare, parameterNames)
    : []
  return [
    ...empty,
    ...unknown,
    ...prepareProblems,
    ...settingsProblems,
    ...findFixedFlags(
      template,
      parameters,
      settingsProblems.length === 0 ? ownSettings : new OwnSettings(),
    ),
    ...findReconfigureProblems(template, parameters),
    ...argFormat,
    ...unused,
    ...uncalled,
    ...unread,
    ...invalidFiles,
  ]
}

/**
 * Lists the contents of the files that the template writes, by their paths in the command: with the
 * placeholder of the trial's folder.
 */
const listWrittenFiles = ({ files = [], cwd }: CommandTemplate): ReadonlyMap<string, string> =>
  new Map(
    files.map((file) => [resolve(cwd ?? process.cwd(), `\${dir}/${file.path}`), file.template]),
  )

/** Reports a settings file of the user's own that tuned values cannot be merged into. */
function findSettingsProblems(
  { server }: CommandTemplate,
  parameters: readonly TunedParameter[],
  own: OwnSettings,
): string[] {
  if (server === undefined) return []
  try {
    const parameterNames = parameters.map(({ name }) => name)
    selectServerParameters(server.kind, parameterNames, own)
    return []
  } catch (error) {
    if (!(error instanceof SettingsFileError)) throw error
    return [`command: ${error.message}`]
  }
}

/**
 * Finds arguments and variables of the command that a parameter also sets: which of the two applies
 * would be up to the server.
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
 * Lists the arguments by which a command may fix a parameter: its own argument, those of a known
 * server's table, and those with its name, which override a variable or a file.
 */
function listParameterFlags(
  { command, server, argFormat }: CommandTemplate,
  { name, category }: TunedParameter,
  own: OwnSettings,
): readonly string[] {
  const ownArguments = (argFormat ?? getArgFormat(server?.kind)).map((part) =>
    fillPlaceholders(part, formatArgumentNames(name, ''), () => {}),
  )
  const namedArguments = Object.values(formatArgumentNames(name, '')).map((text) => `--${text}`)
  const knownArguments =
    recogniseServer(command)?.knobs.find((knob) => knob.name === name)?.args ?? []
  return [
    ...(category === 'args' ? ownArguments : []),
    ...(server === undefined
      ? [...knownArguments, ...namedArguments]
      : listFlags(server.kind, name, own)),
  ]
}

/** Whether the value of an argument has a placeholder. */
const isTunedAt = (words: readonly string[], at: number): boolean =>
  (words[at]!.includes('=') ? words[at]! : (words[at + 1] ?? '')).includes('${')

const findReconfigureProblems = (
  template: CommandTemplate,
  parameters: readonly TunedParameter[],
): string[] => {
  const { reconfigure } = template
  if (reconfigure === undefined) return []
  const knownNames = [...parameters.map(({ name }) => name), ...reconfigurePlaceholders]
  const unknown = [...new Set(reconfigure.flatMap(findPlaceholders))].filter(
    (name) => !knownNames.includes(name),
  )
  if (unknown.length > 0)
    return unknown.map(
      (name) => `reconfigure: unknown placeholder \${${name}}; known: ${joinNames(knownNames)}`,
    )
  if (listReconfigurable(template, parameters).size > 0) return []
  return [
    'reconfigure: must set a parameter of category server that is set nowhere else: put its ${name} only into reconfigure',
  ]
}

const findPrepareProblems = (step: PrepareStep, parameterNames: readonly string[]): string[] =>
  [...new Set(listPrepareTexts(step).flatMap(findPlaceholders))].flatMap((name) => {
    if ([...parameterNames, ...preparePlaceholders, preparedName].includes(name)) return []
    return (launcherPlaceholders as readonly string[]).includes(name)
      ? [
          `prepare: \${${name}} differs in every trial, but all trials share what is prepared: remove it`,
        ]
      : [
          `prepare: unknown placeholder \${${name}}; known: ${joinNames([...parameterNames, ...preparePlaceholders, preparedName])}`,
        ]
  })

/**
 * Presets of language-model servers by version: how to start each, and how it names tuned
 * parameters. Trials and specs share them.
 */
import { isMap, parseDocument } from 'yaml'
import { needsDraftModel } from './drafts.ts'
import type { Knobs } from './knobs.ts'
import type {
  FileOptions,
  Flags,
  GpuGrant,
  LanguageProgram,
  SettingsFile,
} from './language-program.ts'
import { OwnSettings, SettingsFileError } from './own-settings.ts'
import type { LanguageServer } from './server-kinds.ts'
import { sglang } from './sglang.ts'
import { tensorrtLlm } from './tensorrt-llm.ts'
import { tgi } from './tgi.ts'
import { vllm } from './vllm.ts'

export const languagePrograms: Readonly<Record<LanguageServer, LanguageProgram>> = {
  vllm,
  sglang,
  tgi,
  'tensorrt-llm': tensorrtLlm,
}

/**
 * 'org/name' of 'org/name' or 'hf://org/name': servers of language models fetch it by themselves.
 * Undefined for anything else.
 */
export const parseHubName = (uri: string): string | undefined =>
  /^(?:hf:\/\/)?([\w.-]+\/[\w.-]+)$/.exec(uri)?.[1]

/** Formats a flag as text of a command line. */
export const formatFlag = ([name, value]: Flags[number]): string =>
  value === undefined ? `--${name}` : `--${name}=${value}`

/**
 * Translates tuned values for a server: arguments, and its settings file, if any.
 * @param folder folder of the file
 */
export function createTunedStart(
  server: LanguageServer,
  knobs: Knobs,
  grant: GpuGrant,
  folder: string,
  own = new OwnSettings(),
) {
  const { flags, file } = languagePrograms[server]
  const set = flags(knobs, grant)
  if (file === undefined) return { args: set.map(formatFlag), files: [], replaced: [] }
  const args = [...set, [file.flag, `${folder}/${file.name}`] as const].map(formatFlag)
  const options = file.options(knobs, grant)
  const given = own.file(`--${file.flag}`)
  const contents = given
    ? mergeYaml(given, set, options, file)
    : formatYaml({ ...file.usual, ...options })
  return { args, files: [{ path: file.name, contents }], replaced: [`--${file.flag}`] }
}

/**
 * The user's file with the tuned options. Options in the file that duplicate flags are set too,
 * because the file takes precedence.
 * @throws SettingsFileError
 */
function mergeYaml(
  { path, text }: { readonly path: string; readonly text: string },
  flags: Flags,
  options: FileOptions,
  { usual, grouped }: Pick<SettingsFile, 'usual' | 'grouped'>,
): string {
  const document = parseDocument(text)
  const [fault] = document.errors
  if (fault !== undefined || !(document.contents === null || isMap(document.contents)))
    throw new SettingsFileError(`${path} is not a YAML mapping: ${fault?.message ?? text}`)
  for (const [name, text] of flags) {
    const value = text === undefined ? true : parseScalar(text)
    if (document.has(name)) document.set(name, value)
    const [group, option] = grouped[name] ?? []
    if (group !== undefined && isMap(document.get(group))) document.setIn([group, option], value)
  }
  for (const [name, value] of Object.entries(usual))
    if (!document.has(name)) document.set(name, value)
  for (const [name, value] of Object.entries(options)) {
    if (typeof value !== 'object') {
      document.set(name, value)
      continue
    }
    if (document.has(name) && !isMap(document.get(name)))
      throw new SettingsFileError(`${path}: ${name} is not a mapping`)
    for (const [inner, each] of Object.entries(value)) document.setIn([name, inner], each)
  }
  return document.toString({ lineWidth: 0 })
}

const parseScalar = (text: string): string | number =>
  text !== '' && Number.isFinite(Number(text)) ? Number(text) : text

/** Why a server does not support the tuned drafting, and what to do; undefined if it does. */
export function findDraftFault(
  server: LanguageServer,
  method: string,
  model: string | undefined,
): { readonly what: string; readonly hint: string } | undefined {
  const methods = Object.keys(languagePrograms[server].drafts)
  if (!methods.includes(method))
    return {
      what: `${server} does not support speculativeMethod ${method}`,
      hint: `use ${methods.join(' or ')}, or another server`,
    }
  if (needsDraftModel(method) && model === undefined)
    return {
      what: `speculativeMethod ${method} needs a draft model`,
      hint: 'pin its name on the Hub, or its folder: speculativeModel: ORG/NAME',
    }
  return undefined
}

/** Formats two levels of YAML; strings as JSON, which is valid YAML. */
const formatYaml = (options: FileOptions): string =>
  Object.entries(options)
    .map(([name, value]) => {
      if (typeof value !== 'object') return `${name}: ${JSON.stringify(value)}\n`
      return `${name}:\n${Object.entries(value)
        .map(([inner, each]) => `  ${inner}: ${JSON.stringify(each)}\n`)
        .join('')}`
    })
    .join('')

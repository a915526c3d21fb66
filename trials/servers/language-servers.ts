/**
 * Servers of language models by stated versions: how each is started, and what is tuned in the
 * words of each. Trials and specs read the same presets.
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
export const hubName = (uri: string): string | undefined =>
  /^(?:hf:\/\/)?([\w.-]+\/[\w.-]+)$/.exec(uri)?.[1]

/** A flag as it stands on a command line. */
export const flagText = ([name, value]: Flags[number]): string =>
  value === undefined ? `--${name}` : `--${name}=${value}`

/**
 * What was tuned as a server takes it: its arguments, and the file that it reads, if any, below a
 * folder.
 * @param folder where the file will lie
 */
export function tunedStart(
  server: LanguageServer,
  knobs: Knobs,
  grant: GpuGrant,
  folder: string,
  own = new OwnSettings(),
) {
  const { flags, file } = languagePrograms[server]
  const set = flags(knobs, grant)
  if (file === undefined) return { args: set.map(flagText), files: [], replaced: [] }
  const args = [...set, [file.flag, `${folder}/${file.name}`] as const].map(flagText)
  const options = file.options(knobs, grant)
  const given = own.file(`--${file.flag}`)
  const contents = given
    ? mergeYaml(given, set, options, file)
    : yamlOf({ ...file.usual, ...options })
  return { args, files: [{ path: file.name, contents }], replaced: [`--${file.flag}`] }
}

/**
 * The user's file with the tuned options set. What stands in it of the flags is set there too: it
 * goes before them.
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
    const value = text === undefined ? true : asNumber(text)
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

const asNumber = (text: string): string | number =>
  text !== '' && Number.isFinite(Number(text)) ? Number(text) : text

/** Why a server cannot draft as it was tuned, and what to do; undefined where it can. */
export function draftsFault(
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

/** Two levels of YAML; a text as JSON has it, which is one of its forms. */
const yamlOf = (options: FileOptions): string =>
  Object.entries(options)
    .map(([name, value]) => {
      if (typeof value !== 'object') return `${name}: ${JSON.stringify(value)}\n`
      return `${name}:\n${Object.entries(value)
        .map(([inner, each]) => `  ${inner}: ${JSON.stringify(each)}\n`)
        .join('')}`
    })
    .join('')

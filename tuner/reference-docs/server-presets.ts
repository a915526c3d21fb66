/** Renders the generated parts of docs/reference/server-presets.md. */
import { parse } from 'yaml'
import type { Configuration } from '../../search/types.ts'
import {
  type KnownServer,
  knownServers,
  type ServerKnob,
} from '../../trials/servers/known-servers.ts'
import { languagePrograms } from '../../trials/servers/language-servers.ts'
import {
  createServerCommand,
  createServerTuning,
  getServerProtocol,
} from '../../trials/servers/preset.ts'
import {
  isLanguageServer,
  type LanguageServer,
  languageServers,
  serverKinds,
} from '../../trials/servers/server-kinds.ts'
import { code, codeList, table } from './markdown.ts'

export const renderServerPresetRegions = (): Record<string, string> => ({
  presets: renderPresetTable(),
  'flags of language servers': renderLanguageFlagTable(),
  'recognised servers': renderRecognisedServerTable(),
})

/** Stands for the model in the commands of the table. */
const modelPlaceholder = 'WEIGHTS'

const renderPresetTable = (): string =>
  table(
    ['`server`', 'version', 'starts', 'protocol', 'install'],
    serverKinds.map((kind) => {
      const program = isLanguageServer(kind) ? languagePrograms[kind] : undefined
      return [
        code(kind),
        program === undefined ? '' : code(program.image),
        code(createServerCommand(kind, modelPlaceholder).join(' ')),
        code(getServerProtocol(kind)),
        program?.install ?? '',
      ]
    }),
  )

/**
 * Parameters of language models with sample values: the settings that a value adds are those of the
 * parameter.
 */
const languageParameters: Readonly<Record<string, readonly (number | string)[]>> = {
  gpus: [2],
  maxNumSeqs: [8],
  maxNumBatchedTokens: [2048],
  maxModelLen: [4096],
  gpuMemoryUtilization: [0.9],
  precision: ['fp16'],
  quantization: ['fp8'],
  kvCacheDtype: ['fp8'],
  enablePrefixCaching: ['on', 'off'],
  enableChunkedPrefill: ['on', 'off'],
  pipelineParallelSize: [2],
  dataParallelSize: [2],
  speculativeTokens: [2],
}

const renderLanguageFlagTable = (): string =>
  table(
    ['parameter', ...languageServers.map(code)],
    [
      ...Object.entries(languageParameters).map(([name, values]) => [
        code(name),
        ...languageServers.map((kind) => codeList(listSettingNames(kind, name, values))),
      ]),
      [
        '`speculativeMethod`',
        ...languageServers.map((kind) => codeList(Object.keys(languagePrograms[kind].drafts))),
      ],
    ],
  )

/**
 * Lists the flags and settings-file keys that differ from the defaults when the parameter takes one
 * of the values.
 */
function listSettingNames(
  kind: LanguageServer,
  name: string,
  values: readonly (number | string)[],
): string[] {
  const defaults = new Set(listSettings(kind, {}))
  const changed = values.flatMap((value) =>
    listSettings(kind, { [name]: value }).filter((setting) => !defaults.has(setting)),
  )
  return [...new Set(changed.map((setting) => setting.replace(/=.*$/s, '')))]
}

/** Lists 'NAME=VALUE' of all flags and settings-file keys of a configuration. */
function listSettings(kind: LanguageServer, configuration: Configuration): string[] {
  const { args, files } = createServerTuning(
    { kind, modelPath: '' },
    configuration,
    emptyPlaceholders,
  )
  return [...args, ...files.flatMap(({ contents }) => flattenSettings(parse(contents) as Settings))]
}

type Settings = Readonly<Record<string, unknown>>
const emptyPlaceholders = { host: '', port: '', model: '', dir: '', gpuMemoryFraction: 0 }

const flattenSettings = (settings: Settings, path = ''): string[] =>
  Object.entries(settings).flatMap(([name, value]) =>
    typeof value === 'object' && value !== null
      ? flattenSettings(value as Settings, `${path}${name}.`)
      : [`${path}${name}=${String(value)}`],
  )

/**
 * Formats the name of the server's flag, variable or settings key.
 * @returns undefined if the preset sets the parameter by other means
 */
function formatKnobName({ args, env, setting }: ServerKnob): string | undefined {
  const name = args?.[0] ?? env ?? setting
  return name && code(name)
}

const formatValues = (values: ServerKnob['values']): string =>
  code(typeof values === 'string' ? values : `[${values.join(', ')}]`)

/**
 * Renders a row for each server that `tune init` recognises and each parameter that it proposes.
 */
const renderRecognisedServerTable = (): string =>
  table(
    ['server', 'recognised by', 'parameter', 'written as', 'values', 'meaning'],
    (knownServers as readonly KnownServer[]).flatMap((server) =>
      server.knobs.map((knob, i) => [
        i === 0 ? server.title : '',
        i === 0 ? formatRecognition(server) : '',
        code(knob.name),
        formatKnobName(knob) ?? knob.what,
        formatValues(knob.values),
        [formatKnobName(knob) && knob.what, i === 0 ? server.note : undefined]
          .filter(Boolean)
          .join('; '),
      ]),
    ),
  )

function formatRecognition({ programs, subcommand, header }: KnownServer): string {
  const known = programs.map((program, i) =>
    code(subcommand !== undefined && i === 0 ? `${program} ${subcommand}` : program),
  )
  return [...known, ...(header === undefined ? [] : [`header ${code(`server: ${header}`)}`])].join(
    ', ',
  )
}

/** The generated parts of docs/reference/server-presets.md. */
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

export const serverPresetsRegions = (): Record<string, string> => ({
  presets: presetTable(),
  'flags of language servers': languageFlagTable(),
  'recognised servers': recognisedTable(),
})

const weights = 'WEIGHTS'

const presetTable = (): string =>
  table(
    ['`server`', 'version', 'starts', 'protocol', 'install'],
    serverKinds.map((kind) => {
      const program = isLanguageServer(kind) ? languagePrograms[kind] : undefined
      return [
        code(kind),
        program === undefined ? '' : code(program.image),
        code(createServerCommand(kind, weights).join(' ')),
        code(getServerProtocol(kind)),
        program?.install ?? '',
      ]
    }),
  )

/** Parameters of language models with values that show how each is written. */
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

const languageFlagTable = (): string =>
  table(
    ['parameter', ...languageServers.map(code)],
    [
      ...Object.entries(languageParameters).map(([name, values]) => [
        code(name),
        ...languageServers.map((kind) => codeList(writtenAs(kind, name, values))),
      ]),
      [
        '`speculativeMethod`',
        ...languageServers.map((kind) => codeList(Object.keys(languagePrograms[kind].drafts))),
      ],
    ],
  )

/** Flags and keys of the settings file that a parameter sets, at any of the values. */
function writtenAs(
  kind: LanguageServer,
  name: string,
  values: readonly (number | string)[],
): string[] {
  const usual = new Set(settingsWith(kind, {}))
  const written = values.flatMap((value) =>
    settingsWith(kind, { [name]: value }).filter((setting) => !usual.has(setting)),
  )
  return [...new Set(written.map((setting) => setting.replace(/=.*$/s, '')))]
}

/** 'NAME=VALUE' of every flag, and of every key of the settings file, of a configuration. */
function settingsWith(kind: LanguageServer, configuration: Configuration): string[] {
  const { args, files } = createServerTuning({ kind, modelPath: '' }, configuration, nowhere)
  return [...args, ...files.flatMap(({ contents }) => settingsIn(parse(contents) as Settings))]
}

type Settings = Readonly<Record<string, unknown>>
const nowhere = { host: '', port: '', model: '', dir: '', gpuMemoryFraction: 0 }

const settingsIn = (settings: Settings, path = ''): string[] =>
  Object.entries(settings).flatMap(([name, value]) =>
    typeof value === 'object' && value !== null
      ? settingsIn(value as Settings, `${path}${name}.`)
      : [`${path}${name}=${String(value)}`],
  )

/** As the server spells it; undefined where the preset writes it. */
function spelling({ args, env, setting }: ServerKnob): string | undefined {
  const name = args?.[0] ?? env ?? setting
  return name && code(name)
}

const valuesText = (values: ServerKnob['values']): string =>
  code(typeof values === 'string' ? values : `[${values.join(', ')}]`)

/** A row for each server that `tune init` recognises and each parameter that it proposes. */
const recognisedTable = (): string =>
  table(
    ['server', 'recognised by', 'parameter', 'written as', 'values', 'meaning'],
    (knownServers as readonly KnownServer[]).flatMap((server) =>
      server.knobs.map((knob, i) => [
        i === 0 ? server.title : '',
        i === 0 ? recognisedBy(server) : '',
        code(knob.name),
        spelling(knob) ?? knob.what,
        valuesText(knob.values),
        [spelling(knob) && knob.what, i === 0 ? server.note : undefined].filter(Boolean).join('; '),
      ]),
    ),
  )

function recognisedBy({ programs, subcommand, header }: KnownServer): string {
  const known = programs.map((program, i) =>
    code(subcommand !== undefined && i === 0 ? `${program} ${subcommand}` : program),
  )
  return [...known, ...(header === undefined ? [] : [`header ${code(`server: ${header}`)}`])].join(
    ', ',
  )
}

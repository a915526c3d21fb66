/** Converts tuned values to settings of the server that a manifest starts. */

import type { Configuration } from '../../../search/types.ts'
import { resourceParameters } from '../../../trials/resources.ts'
import { Knobs } from '../../../trials/servers/knobs.ts'
import { languagePrograms } from '../../../trials/servers/language-servers.ts'
import { isLanguageServer } from '../../../trials/servers/server-kinds.ts'
import { createTfservingTuning } from '../../../trials/servers/tfserving.ts'
import { type DeployedServer, recogniseCommandServer, serverTitles } from '../../figures.ts'
import { buildMlserverContainer } from '../servers/mlserver.ts'
import type { Serving } from '../serving.ts'
import type { FlagPattern } from './flag-text.ts'
import { tunesGpu } from './resource-edits.ts'

/** A flag that was tuned. */
export interface FlagSetting extends FlagPattern {
  /** '--max-num-seqs=64', for messages. */
  readonly text: string
  /** Absent: the flag is a switch without a value. */
  readonly value?: string
  /** Change the flag if the container has it; do not report it as missing otherwise. */
  readonly isOptional?: boolean
}

export interface VariableSetting {
  readonly name: string
  readonly value: string
}

interface TunedSettings {
  readonly flags: readonly FlagSetting[]
  readonly variables: readonly VariableSetting[]
  /** Whether the server reads the variables, so that missing ones may be added. */
  readonly readsVariables: boolean
  /** Flags that would override a tuned value, each with that value as 'NAME = VALUE'. */
  readonly contrary: readonly (readonly [setting: string, flags: FlagPattern])[]
  /**
   * 'NAME = VALUE: why', for parameters that the server accepts neither as flag nor as variable.
   */
  readonly elsewhere: readonly string[]
}

/**
 * @param server server that the container starts; undefined: unknown
 * @param isOnePod whether one pod has all the GPUs of a replica
 */
export function listTunedSettings(
  serving: Serving,
  server: DeployedServer | undefined,
  isOnePod: boolean,
): TunedSettings {
  const { container, deployed } = serving
  const passed = {
    flags: parsePassedFlags(container.tunedArgs ?? []),
    variables: (container.tunedEnv ?? []).flatMap((name) => {
      const value = container.env?.[name]
      return value === undefined ? [] : [{ name, value }]
    }),
  }
  const isMeasured = server === undefined || server === deployed.server
  const measured = recogniseCommandServer(serving.evidence.measured.command ?? [])
  const startedServer =
    server ?? (deployed.server === 'builtin' ? undefined : (measured ?? deployed.server))
  const knownSettings = listKnownSettings(serving, startedServer, isOnePod && tunesGpu(serving))
  const isOwnStart = isMeasured && (deployed.server === 'builtin' || deployed.server === 'command')
  const unsetNames = listNonResources(serving.configuration).filter(
    (name) =>
      !knownSettings.setParameters.has(name) &&
      (container.tunedElsewhere?.includes(name) ?? !isPassed(name, serving)),
  )
  return {
    flags: [
      ...knownSettings.flags,
      ...passed.flags.filter(
        ({ names }) =>
          !knownSettings.flags.some((flag) => flag.names.some((one) => isSame(one, names[0]!))),
      ),
    ],
    variables: [
      ...knownSettings.variables,
      ...passed.variables.filter(
        ({ name }) => ![...knownSettings.setParameters].some((one) => isSame(one, name)),
      ),
    ],
    readsVariables:
      knownSettings.variables.length > 0 ||
      server === 'builtin' ||
      (isOwnStart && deployed.server === 'command'),
    contrary: knownSettings.contrary,
    elsewhere: unsetNames.map(
      (name) =>
        `${name} = ${serving.configuration[name]}: ${startedServer === undefined ? 'the server' : serverTitles[startedServer]} accepts it neither as an argument nor as a variable`,
    ),
  }
}

const listNonResources = (configuration: Configuration): string[] => {
  const resources = new Set<string>(resourceParameters)
  return Object.keys(configuration).filter((name) => !resources.has(name))
}

const normaliseName = (name: string): string => name.toLowerCase().replace(/[^a-z0-9]/g, '')
export const isSame = (a: string, b: string): boolean => normaliseName(a) === normaliseName(b)

/** Whether the measured container has it in a tuned variable or argument. */
const isPassed = (name: string, { container }: Serving): boolean =>
  [
    ...(container.tunedEnv ?? []),
    ...(container.tunedArgs ?? []).map((arg) => arg.split('=')[0]!),
  ].some((one) => isSame(one, name))

/** Parses the arguments of a trial: '--a=1' or '--a 1' as one word, or '--a', '1' as two. */
function parsePassedFlags(words: readonly string[]): FlagSetting[] {
  return words.flatMap((word, i): FlagSetting[] => {
    const [, name, value] = /^--?([a-zA-Z][\w.-]*)(?:[=\s]([\s\S]*))?$/.exec(word) ?? []
    if (name === undefined) return []
    const next = words[i + 1]
    const flagValue = value ?? (next !== undefined && !/^--?[a-z]/i.test(next) ? next : undefined)
    const text = value === undefined && flagValue !== undefined ? `${word} ${flagValue}` : word
    return [
      { names: [name], isLoose: false, text, ...(flagValue !== undefined && { value: flagValue }) },
    ]
  })
}

interface KnownSettings extends Pick<TunedSettings, 'flags' | 'variables' | 'contrary'> {
  /** Parameters that these settings pass to the server. */
  readonly setParameters: ReadonlySet<string>
}

/** @param hasGpus whether the container has the tuned GPUs */
function listKnownSettings(
  serving: Serving,
  server: DeployedServer | undefined,
  hasGpus: boolean,
): KnownSettings {
  const noSettings = { flags: [], variables: [], contrary: [], setParameters: new Set<string>() }
  const { configuration } = serving
  if (server === 'mlserver') {
    const { env = {}, tunedEnv = [] } = buildMlserverContainer(serving, '')
    const knobs = [
      'batchSize',
      'maxBatchSize',
      'maxDelayMs',
      'maxBatchTime',
      'parallelWorkers',
      'instances',
      'workers',
    ]
    return {
      ...noSettings,
      variables: tunedEnv.map((name) => ({ name, value: env[name]! })),
      setParameters: new Set(knobs),
    }
  }
  if (server !== 'tfserving' && (server === undefined || !isLanguageServer(server)))
    return noSettings
  const listFlags =
    server === 'tfserving' ? listTfservingFlags : listLanguageFlags(serving, server, hasGpus)
  const flags = listFlags(configuration)
  const contrary = listNonResources(configuration).flatMap((name) => {
    if (listFlagsChangedBy(name, configuration, listFlags).length > 0) return []
    const possibleFlags = listPossibleFlags(name, configuration, listFlags)
    return possibleFlags.length === 0 ? [] : [[name, possibleFlags] as const]
  })
  const setNames = listNonResources(configuration).filter(
    (name) =>
      listFlagsChangedBy(name, configuration, listFlags).length > 0 ||
      contrary.some(([other]) => other === name),
  )
  return {
    ...noSettings,
    flags: [
      ...flags.map(createFlagSetting),
      ...(server === 'tfserving' ? [] : listSplitSettings(serving, flags, hasGpus)),
    ],
    contrary: contrary.map(([name, possibleFlags]) => [
      `${name} = ${configuration[name]}`,
      { names: possibleFlags.flatMap(listSpellings), isLoose: true },
    ]),
    setParameters: new Set(setNames),
  }
}

type Flag = readonly [name: string, value?: string]

const listLanguageFlags =
  (serving: Serving, server: keyof typeof languagePrograms, hasGpus: boolean) =>
  (configuration: Configuration): readonly Flag[] => {
    const { gpu, gpus, gpuShare } = serving.resources
    return languagePrograms[server].flags(new Knobs(configuration), {
      gpus: hasGpus ? gpus : 1,
      ...(gpu !== undefined && { gpu }),
      ...(hasGpus && gpu !== undefined && gpuShare < 1 && { share: gpuShare }),
    })
  }

const listTfservingFlags = (configuration: Configuration): readonly Flag[] =>
  createTfservingTuning(new Knobs(configuration), '')
    .flags.map((flag): Flag => {
      const [name, value] = flag.slice(2).split('=')
      return [name!, value]
    })
    // Flags for batching name a file, which only the user has.
    .filter(([name]) => !/batching/.test(name))

type ListFlags = (configuration: Configuration) => readonly Flag[]

/** Flags that the configuration has because of a parameter, or with another value because of it. */
function listFlagsChangedBy(
  name: string,
  configuration: Configuration,
  listFlags: ListFlags,
): readonly Flag[] {
  const { [name]: _, ...others } = configuration
  const otherFlags = listFlags(others).map((flag) => flag.join('='))
  return listFlags(configuration).filter((flag) => !otherFlags.includes(flag.join('=')))
}

/** Names of flags that a parameter has for other values than the tuned one. */
function listPossibleFlags(
  name: string,
  configuration: Configuration,
  listFlags: ListFlags,
): string[] {
  // One value of each kind: a number, both switches, a quantization and a drafting method.
  const values = [7, 'on', 'off', 'fp8', 'ngram']
  const draftingConfiguration = { speculativeTokens: 4, ...configuration }
  return [
    ...new Set(
      values.flatMap((value) =>
        listFlagsChangedBy(name, { ...draftingConfiguration, [name]: value }, listFlags).map(
          ([flag]) => flag,
        ),
      ),
    ),
  ]
}

const createFlagSetting = ([name, value]: Flag): FlagSetting => ({
  names: listSpellings(name),
  isLoose: true,
  text: value === undefined ? `--${name}` : `--${name}=${value}`,
  ...(value !== undefined && { value }),
})

/** With one tuned GPU, lists a setting of 1 for a flag that splits the model over several GPUs. */
function listSplitSettings(
  serving: Serving,
  flags: readonly Flag[],
  hasGpus: boolean,
): FlagSetting[] {
  if (!hasGpus || serving.resources.gpus !== 1) return []
  const spellings = listSpellings('tensor-parallel-size')
  if (flags.some(([name]) => spellings.includes(name))) return []
  return [{ ...createFlagSetting(['tensor-parallel-size', '1']), isOptional: true }]
}

/** Names of the same flag on different servers. */
const synonyms: readonly (readonly string[])[] = [
  ['tensor-parallel-size', 'tp-size', 'tp', 'num-shard'],
  ['pipeline-parallel-size', 'pp-size', 'pp'],
  ['data-parallel-size', 'dp-size', 'dp'],
  ['quantization', 'q'],
]
const listSpellings = (name: string): readonly string[] => {
  const kebab = name.replaceAll('_', '-')
  return synonyms.find((names) => names.includes(kebab)) ?? [kebab]
}

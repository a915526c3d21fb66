/**
 * Names that can be chosen stand once: help, schema and docs have exactly those of the registries.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { Command } from 'commander'
import { describe, expect, test, vi } from 'vitest'
import { efforts } from '../profiler/index.ts'
import { protocolNames } from '../profiler/protocols/protocol-table.ts'
import { selectableServers } from '../reports/figures.ts'
import { toolNames } from '../reports/imports/tool-results.ts'
import { demandPatterns } from '../reports/plan/demand.ts'
import { specTargets } from '../reports/specs/index.ts'
import { autoscalers, kserveVariants } from '../reports/specs/target.ts'
import { categoryNames } from '../search/categories.ts'
import { objectiveKinds } from '../search/objective.ts'
import { samplerNames } from '../search/samplers/sampler-names.ts'
import { gpuSchemes } from '../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import { engineNames } from '../trials/predictor/engines/engine-registry.ts'
import { serverKinds } from '../trials/servers/server-kinds.ts'
import { registerDoctor } from './cli/commands/doctor/register.ts'
import { registerPlan } from './cli/commands/plan/register.ts'
import { registerProfile } from './cli/commands/profile/register.ts'
import { registerReplay } from './cli/commands/replay/register.ts'
import { registerSpec } from './cli/commands/spec/register.ts'
import { registerTune } from './cli/commands/tune/register.ts'
import { createProgram, loadCommands } from './cli/tune-program.ts'
import { backends, defaults, deviceChoices, loadOrigins } from './config/names.ts'
import { knownParameters } from './config/parameters.ts'
import { createExperimentJsonSchema } from './config/schema/experiment-schema.ts'

const program = new Command('tune')
for (const register of [
  registerTune,
  registerSpec,
  registerPlan,
  registerProfile,
  registerReplay,
  registerDoctor,
])
  register(program)

/** The words of a flag that name choices: 'a | b | c', 'a, b or c'. */
function offered(command: string, flag: string): string[] {
  const of = command === 'tune' ? program : program.commands.find((one) => one.name() === command)!
  const { description } = of.options.find(({ long }) => long === flag)!
  const words = description.replace(/ ?\([^)]*\)/g, '')
  const [list] = (
    words.includes(' | ') ? /[\w-]+(?: \| [\w-]+)+/ : /[\w-]+(?:(?:, | or )[\w-]+)+/
  ).exec(words)!
  return list.split(/ \| |, | or /)
}

describe('--help offers what there is', () => {
  test.each<[string, string, readonly string[]]>([
    ['tune', '--protocol', protocolNames],
    ['tune', '--sampler', samplerNames],
    ['tune', '--objective', objectiveKinds],
    ['tune', '--backend', backends],
    ['tune', '--devices', deviceChoices],
    ['profile', '--protocol', protocolNames],
    ['profile', '--effort', Object.keys(efforts)],
    ['replay', '--sampler', samplerNames],
    ['spec', '--target', specTargets],
    ['spec', '--gpu-scheme', gpuSchemes],
    ['spec', '--server', ['custom', ...selectableServers]],
    ['spec', '--autoscaler', autoscalers],
    ['spec', '--variant', kserveVariants],
    ['plan', '--pattern', demandPatterns],
  ])('tune %s %s', (command, flag, names) => {
    expect(offered(command, flag)).toEqual([...names])
  })
})

describe('the experiment file takes what there is', () => {
  /** Every list of choices in the schema, by the key it is of. */
  const enums = new Map<string, string[][]>()
  const walk = (node: unknown, key: string): void => {
    if (node === null || typeof node !== 'object') return
    const { enum: names } = node as { enum?: unknown }
    if (Array.isArray(names)) enums.set(key, [...(enums.get(key) ?? []), names.map(String)])
    for (const [name, value] of Object.entries(node))
      walk(value, ['anyOf', 'items', 'oneOf'].includes(name) || /^\d+$/.test(name) ? key : name)
  }
  walk(createExperimentJsonSchema(), '')

  test.each<[string, readonly string[]]>([
    ['protocol', protocolNames],
    ['sampler', samplerNames],
    ['objective', objectiveKinds],
    ['backend', backends],
    ['devices', deviceChoices],
    ['loadFrom', loadOrigins],
    ['gpuScheme', gpuSchemes],
    ['server', serverKinds],
    ['category', categoryNames],
    ['engine', ['auto', ...engineNames]],
  ])('%s', (key, names) => {
    expect(enums.get(key)).toContainEqual([...names])
  })
})

describe('the docs name what there is', () => {
  const page = (name: string) => readFileSync(new URL(`../docs/${name}`, import.meta.url), 'utf8')
  test.each<[string, readonly string[]]>([
    ['reference/protocols.md', protocolNames],
    [
      'reference/experiment-file.md',
      [
        ...samplerNames,
        ...objectiveKinds,
        ...backends,
        ...deviceChoices,
        ...categoryNames,
        ...loadOrigins,
      ],
    ],
    ['how-to/gpu-sharing.md', gpuSchemes],
    ['reference/server-presets.md', serverKinds],
    ['how-to/import-results.md', toolNames],
  ])('docs/%s', (name, names) => {
    const text = page(name)
    expect(names.filter((one) => !new RegExp(`(?<![\\w-])${one}(?![\\w-])`).test(text))).toEqual([])
  })
})

describe('hints name keys that there are', () => {
  const root = new URL('../', import.meta.url)
  const sources = ['profiler', 'trials', 'tuner'].flatMap((folder) =>
    readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !/test|bench|predictor\//.test(file))
      .map((file) => `${folder}/${file}`),
  )
  const keys = new Set(
    [...JSON.stringify(createExperimentJsonSchema()).matchAll(/"(\w+)":/g)].map(([, key]) => key!),
  )
  const gpuFile = ['memoryGiB', 'bandwidthGBs', 'peakTflops']
  const others = new Set([
    ...knownParameters.map(({ name }) => name),
    ...gpuFile,
    'gRPC',
    'killedBy',
    'limitMs',
    'queueSize',
    'queueLimit',
  ])
  const said = sources.flatMap((file) =>
    readFileSync(new URL(file, root), 'utf8')
      .split('\n')
      .filter((line) => /hint|raise |Error\(|report\(/i.test(line))
      .flatMap((line) =>
        [...line.matchAll(/'([^']*)'|`([^`]*)`|"([^"]*)"/g)].map(([, a, b, c]) => a ?? b ?? c!),
      )
      .filter((text) => text.includes(' '))
      .flatMap((text) => [
        ...text
          .replace(/\$\{[^}]*\}/g, '')
          .matchAll(/\b[a-z]+[A-Z]\w*\b|\w+(?= in an experiment file)/g),
      ])
      .map(([word]) => ({ file, word })),
  )

  test('there are some, and each is a key of the file or a parameter', () => {
    expect(said.length).toBeGreaterThan(10)
    expect(said.filter(({ word }) => !keys.has(word) && !others.has(word))).toEqual([])
  })
})

const registers = await loadCommands()

test('TUNE_DB names the store for every command that has --db, as it does for runs; an empty one names none', () => {
  const stores = () =>
    createProgram(registers)
      .commands.flatMap((command) => [command, ...command.commands])
      .flatMap((command) =>
        command.options.filter(
          ({ long, defaultValue }) => long === '--db' && defaultValue !== undefined,
        ),
      )
      .map(({ defaultValue }) => defaultValue)
  vi.stubEnv('TUNE_DB', '/data/all.db')
  expect(stores().length).toBeGreaterThan(14)
  expect(new Set(stores())).toEqual(new Set(['/data/all.db']))
  vi.stubEnv('TUNE_DB', '')
  expect(new Set(stores())).toEqual(new Set([defaults.db]))
  vi.unstubAllEnvs()
})

import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { expect, test } from 'vitest'
import { examples } from '../../cli/render/short-help.ts'
import { loadExperiment } from '../load-experiment.ts'
import { createExperimentJsonSchema } from '../schema/experiment-schema.ts'
import {
  addExperimentOptions,
  createEnvironmentLayer,
  createFlagsLayer,
  experimentFlags,
} from './flags.ts'

const parse = (...words: string[]) => {
  const command = addExperimentOptions(new Command('tune')).exitOverride()
  command.parse(words, { from: 'user' })
  return command.opts()
}
const machine = { cpuCores: 4, gpus: [] }

test('nothing said is nothing set: no flag has a default of its own', () => {
  expect(createFlagsLayer(parse(), '/').layer.raw).toEqual({})
  expect(createEnvironmentLayer({ PATH: '/bin', TUNE_UNKNOWN: '1' }, '/').raw).toEqual({})
})

test('every flag that has a default states it', () => {
  const without = experimentFlags
    .filter(
      ({ what, default: usual, value }) =>
        !what.includes('default') && (usual === undefined || value !== undefined),
    )
    .map((flag) => flag.flags.split(' ').find((word) => word.startsWith('--')))
  expect(without.sort()).toEqual([
    '--constraint',
    '--env',
    '--expect',
    '--form',
    '--header',
    '--http2',
    '--insecure-skip-verify',
    '--key',
    '--max-price',
    '--model',
    '--no-confirm',
    '--no-history',
    '--param',
    '--pin',
    '--slo',
    '--url',
    '--write',
  ])
})

test('help needs nothing heavy: of packages, commander alone', () => {
  const packages = new Set<string>()
  const seen = new Set<string>()
  const follow = (file: URL): void => {
    if (seen.has(file.href)) return
    seen.add(file.href)
    for (const [, from] of readFileSync(file, 'utf8').matchAll(
      /^(?:import|export) (?!type )[^'\n]*from '([^']+)'/gm,
    )) {
      if (from!.startsWith('.')) follow(new URL(from!, file))
      else packages.add(from!)
    }
  }
  follow(new URL('flags.ts', import.meta.url))
  expect([...packages]).toEqual(['commander'])
  expect(seen.size).toBeGreaterThan(2)
})

test('every flag lands on a key that the schema knows', () => {
  const properties = createExperimentJsonSchema().properties as Record<
    string,
    { properties?: object; anyOf?: { properties?: object }[] }
  >
  for (const { path, flags, parts } of experimentFlags) {
    if (!path) continue
    const [section, key] = (path.length > 0 ? path : Object.keys(parts!('results'))).map(String)
    const schema = properties[section!]
    expect(schema, flags).toBeDefined()
    if (key === undefined || section === 'space') continue
    const keys = [schema!, ...(schema!.anyOf ?? [])].flatMap((part) =>
      Object.keys(part.properties ?? {}),
    )
    expect(keys, flags).toContain(key)
  }
})

test.each(examples.filter(([text]) => text.startsWith('tune --')))(
  'the example works: %s',
  (text) => {
    const words = text.match(/'[^']*'|\S+/g)!.map((word) => word.replaceAll("'", ''))
    const experiment = loadExperiment({ cwd: '/', machine, flags: parse(...words.slice(1)) })
    expect(experiment.slo.limitMs).toBeGreaterThan(0)
  },
)

test('flags that stand several times are gathered, each with its flag', () => {
  const { layer, problems } = createFlagsLayer(
    parse(
      '--pin',
      'a=1',
      '--pin',
      'b=x=y',
      '--param',
      'args:c=1..2',
      '--constraint',
      'a < 2',
      '--no-confirm',
    ),
    '/',
  )
  expect(problems).toEqual([])
  expect(layer.raw).toEqual({
    pin: { a: '1', b: 'x=y' },
    space: { c: { values: '1..2', category: 'args' } },
    constraints: ['a < 2'],
    confirm: false,
  })
  expect(layer.findOrigin(['pin', 'b'])).toEqual({ kind: 'flag', flag: '--pin' })
  expect(layer.findOrigin(['space', 'c', 'values'])).toEqual({ kind: 'flag', flag: '--param' })
  expect(layer.findOrigin(['seed'])).toBeUndefined()
})

test('environment variables are named after their flags', () => {
  const layer = createEnvironmentLayer(
    { TUNE_MAX_TRIALS: '3', TUNE_SLO: 'p90<1s', TUNE_NO_CONFIRM: '1' },
    '/',
  )
  expect(layer.raw).toEqual({
    budget: { maxTrials: '3' },
    slo: { percentile: 'p90', limit: '1s' },
    confirm: false,
  })
  expect(layer.findOrigin(['slo', 'limit'])).toEqual({ kind: 'environment', variable: 'TUNE_SLO' })
})

test.each([
  ['True', { confirm: false }],
  ['0', {}],
  ['no', {}],
  ['', {}],
  // Not silently one or the other: the schema refuses it, and names the variable.
  ['perhaps', { confirm: 'perhaps' }],
])('a flag without a value is switched by a variable: TUNE_NO_CONFIRM=%s', (value, raw) => {
  expect(createEnvironmentLayer({ TUNE_NO_CONFIRM: value }, '/').raw).toEqual(raw)
})

test('headers are flags: each its own entry, and one that is none is named without its value', () => {
  const { layer, problems } = createFlagsLayer(
    parse(
      '--header',
      'X-Tenant: a',
      '--header',
      'Authorization:Bearer b:c',
      '--header',
      'no header: d',
    ),
    '/',
  )
  expect(layer.raw).toEqual({
    predictor: { headers: { 'X-Tenant': 'a', Authorization: 'Bearer b:c' } },
  })
  expect(problems).toEqual([
    expect.objectContaining({
      where: '--header',
      what: "'no header' is not a header: write 'Name: value'",
    }),
  ])
})

test('a flag whose key every object inherits is not there unless it is given', () => {
  expect(createFlagsLayer({}, '/').layer.raw).toEqual({})
  expect(createFlagsLayer({ valueOf: '$5000' }, '/').layer.raw).toEqual({
    stop: { yearlyBill: '$5000' },
  })
})

test("everything that the file says of a server of one's own has a flag", () => {
  const { predictor } = createExperimentJsonSchema().properties as Record<
    string,
    { anyOf: { properties?: Record<string, unknown> }[] }
  >
  const keys = predictor!.anyOf.flatMap(({ properties }) => Object.keys(properties ?? {}))
  const set = experimentFlags
    .filter(({ path }) => path[0] === 'predictor')
    .map(({ path }) => path[1])
  // What it is follows from the others, and of what was imported there are but results.
  expect(keys.filter((key) => !['kind', 'from'].includes(key) && !set.includes(key))).toEqual([])
})

test('a command is described by flags as by a file', () => {
  const words =
    '--model m --slo 50ms --protocol json --path /p --body {} --env A=b=c --env-name workers=W --arg-format --${name} --arg-format ${value}'
  const written = [
    '--write',
    'x.yaml=a: ${workers}',
    '--expect',
    'label[0]=1',
    '--expect',
    'kind=spam',
    '--ready-timeout',
    '2m',
    '--cwd',
    '/tmp',
  ]
  const flags = parse(
    '--command',
    'python3 x.py ${port} ${workers}',
    '--param',
    'workers=1..2',
    ...words.split(' '),
    ...written,
  )
  const { predictor, answers } = loadExperiment({ cwd: '/', machine, flags })
  expect(predictor).toMatchObject({
    env: { A: 'b=c' },
    envNames: { workers: 'W' },
    argFormat: ['--${name}', '${value}'],
    files: [{ path: 'x.yaml', template: 'a: ${workers}' }],
    body: '{}',
    cwd: '/tmp',
    readyTimeoutS: 120,
  })
  expect(answers.expect).toMatchObject([{ value: 1 }, { value: 'spam' }])
})

test.each([
  ['--env', 'A', "'A' is not name=value", 'write, for example, --env OMP_NUM_THREADS=1'],
  ['--pin', 'env:a=1', "'env:a=1' is not name=value", 'write, for example, --pin cpuCores=2'],
])('%s %s is refused with an example', (flag, text, what, hint) => {
  expect(createFlagsLayer(parse(flag, text), '/').problems).toEqual([{ where: flag, what, hint }])
})

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { describeExperiment } from './document.ts'
import type { FlagValues } from './flags.ts'
import { experimentFromDocument, loadExperiment } from './load.ts'
import { ConfigError, type ConfigProblem, type Experiment, type MachineFacts } from './types.ts'

let cwd: string
const machine: MachineFacts = { cpuCores: 4, gpus: [] }
beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'tune-experiment-'))
})
afterEach(() => rmSync(cwd, { recursive: true }))

const bert = { model: 'bert', slo: '50ms' }
const write = (name: string, text: string) => writeFileSync(join(cwd, name), text)
const load = (flags: FlagValues, rest: Partial<Parameters<typeof loadExperiment>[0]> = {}): Experiment =>
  loadExperiment({ cwd, machine, flags, ...rest })
const loadFile = (text: string, flags: FlagValues = {}, facts = machine): Experiment => {
  write('e.yaml', text)
  return loadExperiment({ cwd, machine: facts, flags, file: 'e.yaml' })
}
const problemsOf = (make: () => unknown): readonly ConfigProblem[] => {
  try {
    make()
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
  throw new Error('was accepted')
}
const lines = (make: () => unknown) => problemsOf(make).map(({ where, what }) => `${where} ${what}`)
const values = (experiment: Experiment, name: string) => {
  const parameter = experiment.space.parameters.find((p) => p.name === name)
  return parameter && ('values' in parameter ? parameter.values : [parameter.min, parameter.max, parameter.step])
}
const originOf = (experiment: Experiment, path: string) => describeExperiment(experiment).find((row) => row.path === path)?.origin

describe('a model and an SLO are enough', () => {
  test('cheapest per request, on emulated GPUs where there are none', () => {
    const experiment = load(bert)
    expect(experiment).toMatchObject({
      name: 'bert',
      slo: { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 },
      objective: { kind: 'price-per-request' },
      backend: 'local',
      devicesUsed: 'emulated',
      predictor: { kind: 'builtin', engine: 'emulated' },
      seed: 1,
      confirm: true,
      dbPath: join(cwd, '.tune/tune.db'),
    })
    expect(experiment.space.parameters.map((p) => p.name)).toEqual(['cpuCores', 'gpu', 'gpuMemoryPercent', 'batchSize'])
    expect(values(experiment, 'cpuCores')).toEqual([1, 2, 4])
    expect(values(experiment, 'batchSize')).toEqual([1, 2, 4, 8, 16, 32, 64, 128])
    expect(experiment.space.parameters.filter((p) => p.monotone === 'up').map((p) => p.name)).toEqual(['cpuCores', 'gpuMemoryPercent'])
    const gpu = experiment.space.parameters[1]!
    expect(gpu.kind === 'categorical' && gpu.features?.T4).toEqual([Math.log(320), Math.log(65)])
  })

  test('on the GPUs that are there', () => {
    const experiment = load(bert, { machine: { cpuCores: 6, gpus: ['L4', 'L4'] } })
    expect(experiment.devicesUsed).toBe('gpu')
    expect(values(experiment, 'gpu')).toEqual(['L4'])
    expect(values(experiment, 'cpuCores')).toEqual([1, 2, 4, 6])
  })

  test('on CPU alone no GPU is in the space', () => {
    const experiment = load({ ...bert, devices: 'cpu' })
    expect(experiment.space.parameters.map((p) => p.name)).toEqual(['cpuCores', 'batchSize'])
    expect(experiment.predictor).toMatchObject({ engine: 'auto' })
  })

  test('a demand asks for replicas', () => {
    expect(load({ ...bert, rps: '30k/min', headroom: '10%' }).objective).toEqual({
      kind: 'price-for-demand',
      demandRps: 500,
      headroom: 0.1,
    })
  })
})

describe('flags', () => {
  test('every kind of value', () => {
    const experiment = load({
      ...bert,
      slo: 'p95<80ms',
      errorRate: '1%',
      gpus: 'v100,t4',
      cores: '1..3',
      batch: '1..48',
      gpuMemory: '25%,50%',
      pin: ['cpuCores=2', 'maxDelayMs=5'],
      param: ['env:MODE=fast,exact', 'queueLimit=16..64'],
      constraint: ['batchSize <= queueLimit'],
      maxTrials: '7',
      timeLimit: '10m',
      budget: '$5',
      parallel: '2',
      seed: '42',
      sampler: 'random',
      arrivals: 'on-off:1s,3s',
      confirm: false,
    })
    expect(experiment).toMatchObject({
      slo: { percentile: 0.95, limitMs: 80, maxErrorRate: 0.01 },
      pins: { cpuCores: 2, maxDelayMs: 5 },
      budget: { maxTrials: 7, timeLimitS: 600, maxCost: 5 },
      load: { arrivals: { kind: 'on-off', onS: 1, offS: 3 } },
      parallel: 2,
      seed: 42,
      sampler: 'random',
      confirm: false,
    })
    expect(values(experiment, 'gpu')).toEqual(['V100', 'T4'])
    expect(values(experiment, 'batchSize')).toEqual([1, 2, 4, 8, 16, 32, 48])
    expect(values(experiment, 'gpuMemoryPercent')).toEqual([25, 50])
    expect(values(experiment, 'cpuCores')).toEqual([2])
    expect(values(experiment, 'MODE')).toEqual(['fast', 'exact'])
    expect(values(experiment, 'queueLimit')).toEqual([16, 32, 64])
    expect(experiment.space.constraints.map((c) => c.text)).toEqual(['batchSize <= queueLimit'])
    expect(experiment.space.constraints[0]!.holds({ batchSize: 32, queueLimit: 16 })).toBe(false)
  })

  test('win over the environment and the file, and each value knows where it is from', () => {
    write(
      'e.yaml',
      'model: bert\nslo: p95<80ms\nseed: 5\nbudget:\n  maxTrials: 9\nspace:\n  batchSize:\n    values: 1..8\n    category: args\n',
    )
    const environment = { TUNE_SEED: '3', TUNE_MAX_TRIALS: '4', TUNE_PARALLEL: '2', TUNE_DB: '' }
    const experiment = loadExperiment({ cwd, machine, file: 'e.yaml', environment, flags: { seed: '6', batch: '2..4' } })
    expect(experiment).toMatchObject({ seed: 6, parallel: 2, budget: { maxTrials: 9 }, slo: { percentile: 0.95 } })
    expect(originOf(experiment, 'seed')).toBe('--seed')
    expect(originOf(experiment, 'parallel')).toBe('$TUNE_PARALLEL')
    expect(originOf(experiment, 'budget.maxTrials')).toBe('e.yaml:5:14')
    expect(originOf(experiment, 'slo.percentile')).toBe('e.yaml:2:6')
    expect(originOf(experiment, 'slo.errorRate')).toBe('default')
    expect(originOf(experiment, 'space.batchSize')).toBe('--batch')
    expect(originOf(experiment, 'load.timeout')).toBe('default (10 times the SLO, at least 2s)')
    // New values keep what the file says of the parameter beside them.
    expect(experiment.space.parameters.find((p) => p.name === 'batchSize')).toMatchObject({ category: 'args', values: [2, 4] })
  })

  test('--slo 50ms means p99, whatever percentile the file has', () => {
    expect(loadFile('model: bert\nslo: {percentile: p95, limit: 80ms, errorRate: 2%}', { slo: '50ms' }).slo).toEqual({
      percentile: 0.99,
      limitMs: 50,
      maxErrorRate: 0.02,
    })
  })

  test('a command replaces the predictor of the file, a protocol is laid over it', () => {
    const text = 'model: bert\nslo: 50ms\npredictor:\n  command: serve --port ${port}\n  env: {A: 1}\n'
    expect(loadFile(text, { protocol: 'tfserving' }).predictor).toMatchObject({ kind: 'command', protocol: 'tfserving', env: { A: '1' } })
    expect(loadFile(text, { command: "other '${port} x'" }).predictor).toMatchObject({ command: ['other', '${port} x'], env: undefined })
    expect(loadFile(text, { url: 'http://localhost:1' }).predictor).toMatchObject({ kind: 'url' })
  })

  test.each([
    [{ pin: ['cpuCores'] }, "--pin 'cpuCores' is not name=value"],
    [{ param: ['=1'] }, "--param '=1' is not name=value"],
    [{ pin: ['__proto__=1'] }, "--pin '__proto__=1' is not name=value"],
    [{ pin: ['btachSize=3'] }, "--pin no parameter is called 'btachSize'"],
    [{ pin: ['constructor=3'] }, "--pin no parameter is called 'constructor'"],
    [{ pin: ['cpuCores=8'] }, '--pin cpuCores: 8 cores, but this machine has 4'],
    [{ batch: '1,2,4', pin: ['batchSize=5'] }, '--pin batchSize: 5 is outside its values 1, 2, 4'],
    [{ rps: '0' }, "--rps demand: '0' is zero; it must be more"],
    [{ rps: 'NaN' }, "--rps demand: 'NaN' is not a rate"],
    [{ rps: '5', objective: 'price' }, '--rps a demand does nothing for the objective price'],
    [{ objective: 'max-rate' }, '--objective max-rate needs a bound of the price'],
    [{ headroom: '100%' }, '--headroom a headroom of 100 % leaves no capacity'],
    [{ devices: 'gpu' }, '--devices no GPU here that a predictor can use'],
    [{ gpus: 'P100-SXM2' }, "--gpus the price book 'on-demand list prices 2025-2026' has no price for the GPU P100-SXM2"],
    [{ timeout: '20ms' }, '--timeout a timeout of 20 ms cuts off requests that keep the SLO of 50 ms'],
    [{ url: 'ftp://x' }, "--url 'ftp://x' is no http URL"],
    [{ param: ['wrokers=1..4'] }, "--param the built-in predictor has no parameter 'wrokers'"],
    [{ backend: 'simulated', command: 'x' }, '--backend a command predictor cannot be simulated: what it does is not known'],
    [{ payload: 'none.jsonl' }, expect.stringContaining('--payload no payload file')],
    [{ prices: 'none.yaml' }, expect.stringContaining('--prices the price book cannot be read')],
    [{ constraint: ['batchSize > 1000'] }, "--constraint the space is empty: none of its 480 configurations keeps 'batchSize > 1000'"],
  ])('%j is refused', (flags, problem) => expect(lines(() => load({ ...bert, ...flags }))).toEqual([problem]))

  test('nothing at all says what is needed', () => {
    expect(problemsOf(() => load({}))).toEqual([
      { where: 'command line', what: 'no model', hint: 'say which: --model bert, or `model: bert` in the file' },
      { where: 'command line', what: 'no SLO', hint: 'say which latency to keep: --slo 50ms, or `slo: 50ms` in the file' },
    ])
  })
  test('a pin outside the space names the nearest values', () => {
    expect(problemsOf(() => load({ ...bert, batch: '1..32', pin: ['batchSize=5'] }))[0]!.hint).toBe('nearest: 4, 8')
  })
})

describe('everything wrong with a file at once, each with its place', () => {
  test('keys, values, units, names, conditions', () => {
    const text = [
      'modle: bert',
      'slo: {percentile: 95, limit: 80}',
      'maxTrials: 4',
      'budget:',
      '  max_trials: 5',
      '  timeLimit: .nan',
      'space:',
      '  batchSize: [1, 2, 2]',
      '  gpu: [T4, A1000]',
      '  cpuCores: {kind: int, min: 1}',
      '  gpuMemoryPercent: 50..200',
      'load: {arrivals: poison}',
      'constraints:',
      '  - gpuMemoryPercent > qeue',
      'sampler: grd',
      'seed: 1.5',
      'predictor: {comand: x}',
      'prices: 5',
    ].join('\n')
    const problems = problemsOf(() => loadFile(text))
    expect(problems.map(({ where, what, hint }) => `${where} ${what} | ${hint}`)).toEqual([
      "e.yaml:1:1 unknown key 'modle' | did you mean model?",
      'e.yaml:2:30 slo.limit: 80 has no unit | write 80ms for milliseconds, or 80s for seconds',
      "e.yaml:3:1 unknown key 'maxTrials' | did you mean budget.maxTrials?",
      "e.yaml:5:3 unknown key 'budget.max_trials' | did you mean maxTrials?",
      'e.yaml:6:14 budget.timeLimit: expected a duration such as 50ms, 2s, 10m, found NaN | ',
      'e.yaml:8:14 batchSize: 2 stands twice | list each value once',
      "e.yaml:9:8 gpu: unknown GPU 'A1000' | did you mean A10, A5000, A6000?",
      "e.yaml:10:13 cpuCores: 'max' is missing | write [1, 2, 4], 1..32, or {kind: int, min: 1, max: 32}",
      'e.yaml:11:21 gpuMemoryPercent: 200 is above 100 | gpuMemoryPercent: share of one GPU, %, at most 100',
      "e.yaml:12:18 load.arrivals: 'poison' is no arrival pattern | write poisson, constant, gamma:2 (coefficient of variation), on-off:1s,3s or trace:FILE",
      "e.yaml:15:10 sampler: expected a sampler: gp, random, grid, sobol, halton, found 'grd' | did you mean grid?",
      'e.yaml:16:7 seed: 1.5 is not a whole number | write a whole number of at least 0',
      "e.yaml:17:13 unknown key 'predictor.comand' | did you mean command?",
      'e.yaml:18:9 prices: expected a path, found 5 | ',
    ])
  })

  test('YAML that is none', () => {
    expect(lines(() => loadFile('model: bert\nslo: 50ms\nslo: 60ms\n'))).toEqual(['e.yaml:3:1 Map keys must be unique'])
    expect(lines(() => loadFile('model: [bert\nslo: 50ms\n'))[0]).toMatch(/^e\.yaml:2:\d+ /)
    expect(lines(() => loadFile('model: !!js/function "x"\n'))[0]).toMatch(/^e\.yaml:1:8 Unresolved tag/)
    expect(lines(() => loadFile('model: bert\n---\nmodel: resnet50\n'))).toEqual(['e.yaml:2:1 a second YAML document'])
    expect(lines(() => loadFile(''))).toEqual(['e.yaml the file is empty'])
    expect(lines(() => loadFile('# nothing\n'))).toEqual(['e.yaml the file is empty'])
    expect(lines(() => loadFile('bert'))[0]).toContain('e.yaml:1:1 the experiment:')
    expect(lines(() => loadFile('- bert'))[0]).toContain('e.yaml:1:1 the experiment:')
    expect(lines(() => loadFile('__proto__: {seed: 3}\nmodel: bert'))).toEqual(["e.yaml:1:1 unknown key '__proto__'"])
    expect(lines(() => loadFile('? [a, b]\n: c\n'))).toEqual(['e.yaml:1:1 a key that is no plain text'])
    expect(lines(() => loadFile('model:\nslo: 50ms'))[0]).toContain('model')
  })

  test('a key that is missing inside a value', () => {
    expect(lines(() => loadFile('model: bert\nslo: 50ms\nload: {arrivals: {kind: gamma}}'))).toEqual([
      'e.yaml:3:18 load.arrivals.cv: expected a number, found nothing',
    ])
  })

  test('aliases are fine, a bomb of them is not', () => {
    expect(values(loadFile('model: bert\nslo: 50ms\nspace:\n  batchSize: &list [1, 2]\n  instances: *list\n'), 'instances')).toEqual([1, 2])
    const bomb = [
      'a: &a [x, x, x, x, x, x, x, x, x]',
      ...'bcdefghij'.split('').map((k, i) => `${k}: &${k} [${`*${'abcdefghi'[i]}, `.repeat(9)}]`),
    ]
    expect(lines(() => loadFile(bomb.join('\n')))[0]).toContain('Excessive alias count')
  })

  test('a file that cannot be read', () => {
    mkdirSync(join(cwd, 'folder'))
    expect(lines(() => load({}, { file: 'none.yaml' }))).toEqual(['none.yaml no such file'])
    expect(lines(() => load({}, { file: 'folder' }))).toEqual(['folder is a folder'])
    write('large.yaml', 'x'.repeat(1_100_000))
    expect(lines(() => load({}, { file: 'large.yaml' }))).toEqual(['large.yaml the file is larger than 1 MiB'])
  })

  test('problems of a price book keep their own lines', () => {
    write('prices.yaml', 'gpus:\n  T4: -1\n')
    expect(lines(() => loadFile('model: bert\nslo: 50ms\nprices: prices.yaml'))[0]).toMatch(/^e\.yaml:3:9 price book prices\.yaml:2/)
  })
})

test('any document is read or refused with places, whatever stands where', () => {
  const whole = parse(readFileSync(new URL('../../examples/experiment.yaml', import.meta.url), 'utf8')) as Record<string, unknown>
  const odd = fc.oneof(
    fc.constantFrom(
      null,
      true,
      -1,
      0,
      1.5,
      Number.NaN,
      '',
      'x',
      '50ms',
      '1..4',
      [],
      {},
      [1, 'a', null],
      { kind: 'gamma' },
      { kind: 'trace' },
      { a: { b: 1 } },
    ),
    fc.jsonValue({ maxDepth: 3 }),
  )
  const paths = Object.entries(whole).flatMap(([key, value]) => [
    [key],
    ...(typeof value === 'object' && value ? Object.keys(value).map((inner) => [key, inner]) : []),
  ])
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom(...paths, ['odd'], ['space', 'odd'], ['space', 'batchSize', 'values']), odd), {
        minLength: 1,
        maxLength: 4,
      }),
      (changes) => {
        const document = structuredClone(whole)
        for (const [path, value] of changes) {
          let owner = document
          for (const step of path.slice(0, -1)) {
            if (typeof owner[step] !== 'object' || owner[step] === null) owner[step] = {}
            owner = owner[step] as Record<string, unknown>
          }
          owner[path.at(-1)!] = value
        }
        try {
          experimentFromDocument(document, 'odd', { cwd, machine })
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError)
          for (const problem of (error as ConfigError).problems) {
            expect(problem.what).not.toMatch(/undefined|\[object/)
            expect(problem.where).toBe('experiment odd')
          }
        }
      },
    ),
    { numRuns: 300 },
  )
})

describe('the space', () => {
  const space = (text: string, facts = machine) => loadFile(`model: bert\nslo: 50ms\nspace:\n${text}`, {}, facts)

  test('each kind of parameter', () => {
    const experiment = space(
      [
        '  threads: {kind: int, min: 1, max: 8, category: env, scale: log}',
        '  delay: {min: 0.5, max: 2, step: 0.5, category: args}',
        '  growth: {min: 0.1, max: 0.9, category: env}',
        '  mode: {values: [a, b], category: env}',
        '  level: {kind: categorical, values: [1, 2], category: env}',
        '  blocks: {values: 16..256 x4, category: server}',
        '  memoryMiB: [2GiB, 4GiB]',
      ].join('\n'),
    )
    expect(experiment.space.parameters.slice(5)).toEqual([
      { name: 'threads', kind: 'int', min: 1, max: 8, scale: 'log', category: 'env' },
      { name: 'delay', kind: 'float', min: 0.5, max: 2, step: 0.5, scale: 'linear', category: 'args' },
      { name: 'growth', kind: 'float', min: 0.1, max: 0.9, scale: 'linear', category: 'env' },
      { name: 'mode', kind: 'categorical', values: ['a', 'b'], category: 'env' },
      { name: 'level', kind: 'categorical', values: ['1', '2'], category: 'env' },
      { name: 'blocks', kind: 'ordinal', values: [16, 64, 256], scale: 'linear', category: 'server' },
    ])
    expect(values(experiment, 'memoryMiB')).toEqual([2048, 4096])
  })

  test('conditions name what stands before', () => {
    const experiment = space("  mode: {values: [a, b], category: env}\n  depth: {values: 1..4, category: env, when: mode == 'b'}")
    const depth = experiment.space.parameters.find((p) => p.name === 'depth')!
    expect(depth.when?.holds({ mode: 'a' })).toBe(false)
    expect(lines(() => space('  depth: {values: 1..4, category: env, when: mode == 1}\n  mode: {values: 1..2, category: env}'))).toEqual([
      "e.yaml:4:46 'mode == 1': 'mode' is no parameter (character 1)",
    ])
  })

  test('with and without a GPU in one space, the share depends on there being one', () => {
    const share = space('  gpu: [none, T4]').space.parameters.find((p) => p.name === 'gpuMemoryPercent')!
    expect(share.when?.text).toBe("gpu != 'none'")
  })

  test('a large space that no configuration fits is found empty, one that few fit is not', () => {
    const large = '  a: {kind: float, min: 0, max: 1, category: env}\nconstraints:\n'
    expect(lines(() => space(`${large}  - a > 2`))).toEqual([
      "e.yaml:6:3 the space is empty: none of 20000 configurations drawn from it keeps 'a > 2'",
    ])
    expect(space(`${large}  - a > 0.9`).space.constraints).toHaveLength(1)
  })

  test('a GPU that is not in this machine', () => {
    expect(lines(() => space('  gpu: [T4]', { cpuCores: 4, gpus: ['L4'] }))).toEqual(['e.yaml:4:8 this machine has no GPU T4'])
  })

  test('a running server is measured as it is', () => {
    const text = 'model: bert\nslo: 50ms\npredictor: {url: http://127.0.0.1:8000}\n'
    expect(loadFile(`${text}pin: {cpuCores: 2, gpu: T4}`).pins).toEqual({ cpuCores: 2, gpu: 'T4' })
    expect(lines(() => loadFile(`${text}space: {batchSize: 1..4}`))).toEqual([
      'e.yaml:4:20 batchSize: a server that runs already cannot be given values',
    ])
  })

  test("a command's parameters must reach it", () => {
    const text = 'model: bert\nslo: 50ms\npredictor: {command: "serve --port ${port} --b ${batch}"}\n'
    expect(lines(() => loadFile(`${text}space: {workers: 1..4, batchSize: 1..4}`))).toEqual([
      expect.stringContaining('parameter batchSize (server) reaches the predictor nowhere'),
      'e.yaml:3:22 predictor.command: unknown placeholder ${batch}',
    ])
  })
})

describe('models', () => {
  test('a path of one', () => {
    mkdirSync(join(cwd, 'models/mine'), { recursive: true })
    const experiment = loadFile('model: {path: models/mine, version: 3}\nslo: 50ms\ndevices: cpu')
    expect(experiment.model).toEqual({ name: 'mine', architecture: 'mine', path: join(cwd, 'models/mine'), version: '3' })
    expect(experiment.predictor).toMatchObject({
      model: 'mine',
      env: { MODEL_PATH: join(cwd, 'models/mine'), MODEL_VERSION_POLICY: 'specific:3' },
    })
    expect(loadFile('model: {path: models/mine, architecture: bert-base}\nslo: 50ms').predictor).toMatchObject({
      model: 'bert-base',
      engine: 'emulated',
    })
    expect(lines(() => loadFile('model: {path: models/mine}\nslo: 50ms'))).toEqual(["e.yaml:1:8 unknown model 'mine'"])
    expect(lines(() => loadFile('model: models/yours\nslo: 50ms\ndevices: cpu'))).toEqual([
      `e.yaml:1:8 model: no file or folder ${join(cwd, 'models/yours')}`,
    ])
  })
  test.each([
    ['berd', "unknown model 'berd'"],
    ['a b', "'a b' cannot be a name in a URL"],
  ])('%s is none', (model, what) => expect(lines(() => load({ ...bert, model }))[0]).toContain(what))
  test('what only emulation knows is not run for real', () => {
    expect(load({ ...bert, model: 'llama-3.1-8b' }).devicesUsed).toBe('emulated')
    expect(lines(() => load({ ...bert, model: 'llama-3.1-8b', devices: 'cpu' }))).toEqual([
      "--model the built-in predictor cannot run 'llama-3.1-8b' for real",
    ])
  })
})

describe('traces', () => {
  test('one arrival a line', () => {
    write('trace.csv', 'at_ms,what\n0,x\n1.5,y\n\n9,z\n')
    expect(load({ ...bert, arrivals: 'trace:trace.csv' }).load.arrivals).toEqual({ kind: 'trace', atMs: [0, 1.5, 9] })
  })
  test.each([
    ['3\n1\n', "trace.csv:2: '1' is before the line above"],
    ['0\nx\n', "trace.csv:2: 'x' is no time in ms"],
    ['0\n', 'the trace trace.csv has 1 arrivals'],
  ])('%j is refused', (text, problem) => {
    write('trace.csv', text)
    expect(lines(() => load({ ...bert, arrivals: 'trace:trace.csv' }))).toEqual([`--arrivals ${problem}`])
  })
})

test('what the store keeps makes the same experiment again', () => {
  mkdirSync(join(cwd, 'models/mine'), { recursive: true })
  write('trace.csv', '0\n5\n9\n')
  write('body.jsonl', '{}\n')
  write('prices.yaml', 'gpus:\n  T4: 0.4\n')
  const files: [string, FlagValues][] = [
    ['model: bert\nslo: 50ms', {}],
    ['model: bert\nslo: p95<80ms\ndemand: 500 rps\nheadroom: 25%', { pin: ['cpuCores=2', 'instances=2'], gpus: 'T4,none', out: 'results' }],
    [
      'model: {path: models/mine}\nslo: 1s\ndevices: cpu\nload: {arrivals: "trace:trace.csv", payload: body.jsonl}\nprices: prices.yaml\nconfirm: false',
      {},
    ],
    [
      'model: any\nslo: 50ms\npredictor: {command: [serve, "${port}", "${blocks}"], env: {A: b}, files: {"c.txt": "x"}, argFormat: ["--${kebab-name}", "${value}"], protocol: json, path: /p, readyTimeout: 90s}\n' +
        'space: {mode: {values: [a, b], category: args}, depth: {kind: int, min: 1, max: 9, step: 2, when: mode == a, monotone: down}, level: {kind: categorical, values: [1, 2]}, blocks: {values: 1..8 x2, category: server, scale: log}}\n' +
        'constraints: depth < 8\nobjective: max-rate\nmaxPricePerHour: $2\nload: {arrivals: gamma:1.5, timeout: 3s}\nstop: {tolerance: 10%, certainty: 0.9}',
      {},
    ],
    ['model: any\nslo: 50ms\npredictor: {url: "http://127.0.0.1:8000", protocol: tfserving}\npin: {gpu: T4, cpuCores: 4}', {}],
  ]
  for (const [text, flags] of files) {
    const { document, origins, ...first } = loadFile(text, flags)
    const stored = JSON.parse(JSON.stringify(document))
    const again = experimentFromDocument(stored, 'x-1', { cwd: '/', machine })
    const plain = (value: unknown) => JSON.parse(JSON.stringify(value))
    expect(plain({ ...again, document: undefined, origins: undefined })).toEqual(plain(first))
    expect(plain(again.document)).toEqual(stored)
    expect(Object.values(origins).every((origin) => origin !== undefined)).toBe(true)
    for (const row of describeExperiment(again)) expect(row.value).not.toContain('[object')
  }
})

test('a resumed experiment takes flags over what was stored', () => {
  const { document } = load(bert)
  const again = experimentFromDocument(document, 'bert-1', { cwd, machine }, { maxTrials: '99' })
  expect(again.budget.maxTrials).toBe(99)
  expect(originOf(again, 'budget.maxTrials')).toBe('--max-trials')
  expect(originOf(again, 'slo.limit')).toBe('experiment bert-1')
})

import { mkdirSync, writeFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { loadExperiment, loadExperimentDocument } from './load-experiment.ts'
import {
  bert,
  findOrigin,
  machine,
  problemLines,
  problemsOf,
  useWorkspace,
  valuesOf,
} from './testing/workspace.ts'

const { path, write, load, loadFile } = useWorkspace()

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
      dbPath: path('.tune/tune.db'),
    })
    expect(experiment.space.parameters.map((p) => p.name)).toEqual([
      'cpuCores',
      'gpu',
      'gpuMemoryPercent',
      'batchSize',
    ])
    expect(valuesOf(experiment, 'cpuCores')).toEqual([1, 2, 4])
    expect(valuesOf(experiment, 'batchSize')).toEqual([1, 2, 4, 8, 16, 32, 64, 128])
    expect(
      experiment.space.parameters.filter((p) => p.monotone === 'up').map((p) => p.name),
    ).toEqual(['cpuCores', 'gpuMemoryPercent'])
    const gpu = experiment.space.parameters[1]!
    expect(gpu.kind === 'categorical' && gpu.features?.T4).toEqual([Math.log(320), Math.log(65)])
  })

  test('on the GPUs that are there', () => {
    const experiment = load(bert, { machine: { cpuCores: 6, gpus: ['L4', 'L4'] } })
    expect(experiment.devicesUsed).toBe('gpu')
    const engineOf = (...able: string[]) => {
      const { predictor } = load(bert, {
        machine: { cpuCores: 6, gpus: ['L4'], drivesGpus: (engine) => able.includes(engine) },
      })
      return predictor.kind === 'builtin' ? predictor.engine : undefined
    }
    expect([engineOf('onnx', 'tfjs'), engineOf('tfjs'), engineOf()]).toEqual([
      'onnx',
      'tfjs',
      'emulated',
    ])
    expect(valuesOf(experiment, 'gpu')).toEqual(['L4'])
    expect(valuesOf(experiment, 'cpuCores')).toEqual([1, 2, 4, 6])
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
    expect(valuesOf(experiment, 'gpu')).toEqual(['V100', 'T4'])
    expect(valuesOf(experiment, 'batchSize')).toEqual([1, 2, 4, 8, 16, 32, 48])
    expect(valuesOf(experiment, 'gpuMemoryPercent')).toEqual([25, 50])
    expect(valuesOf(experiment, 'cpuCores')).toEqual([2])
    expect(valuesOf(experiment, 'MODE')).toEqual(['fast', 'exact'])
    expect(valuesOf(experiment, 'queueLimit')).toEqual([16, 32, 64])
    expect(experiment.space.constraints.map((c) => c.text)).toEqual(['batchSize <= queueLimit'])
    expect(experiment.space.constraints[0]!.holds({ batchSize: 32, queueLimit: 16 })).toBe(false)
  })

  test('win over the environment, and that over the file, and each value knows where it is from', () => {
    write(
      'e.yaml',
      'model: bert\nslo: p95<80ms\nseed: 5\nbudget:\n  maxTrials: 9\nspace:\n  batchSize:\n    values: 1..8\n    category: args\n',
    )
    const environment = { TUNE_SEED: '3', TUNE_MAX_TRIALS: '4', TUNE_PARALLEL: '2', TUNE_DB: '' }
    const experiment = loadExperiment({
      cwd: path(),
      machine,
      file: 'e.yaml',
      environment,
      flags: { seed: '6', batch: '2..4' },
    })
    expect(experiment).toMatchObject({
      seed: 6,
      parallel: 2,
      budget: { maxTrials: 4 },
      slo: { percentile: 0.95 },
    })
    expect(findOrigin(experiment, 'seed')).toBe('--seed')
    expect(findOrigin(experiment, 'parallel')).toBe('$TUNE_PARALLEL')
    expect(findOrigin(experiment, 'budget.maxTrials')).toBe('$TUNE_MAX_TRIALS')
    expect(findOrigin(experiment, 'slo.percentile')).toBe('e.yaml:2:6')
    expect(findOrigin(experiment, 'slo.errorRate')).toBe('default')
    expect(findOrigin(experiment, 'space.batchSize')).toBe('--batch')
    expect(findOrigin(experiment, 'load.timeout')).toBe('default (10 times the SLO, at least 2s)')
    // New values keep what the file says of the parameter beside them.
    expect(experiment.space.parameters.find((p) => p.name === 'batchSize')).toMatchObject({
      category: 'args',
      values: [2, 4],
    })
  })

  test('--slo 50ms means p99, whatever percentile the file has', () => {
    expect(
      loadFile('model: bert\nslo: {percentile: p95, limit: 80ms, errorRate: 2%}', { slo: '50ms' })
        .slo,
    ).toEqual({
      percentile: 0.99,
      limitMs: 50,
      maxErrorRate: 0.02,
    })
  })

  test('a command replaces the predictor of the file, a protocol is laid over it', () => {
    const text =
      'model: bert\nslo: 50ms\npredictor:\n  command: serve --port ${port}\n  env: {A: 1}\n'
    expect(loadFile(text, { protocol: 'tfserving' }).predictor).toMatchObject({
      kind: 'command',
      protocol: 'tfserving',
      env: { A: '1' },
    })
    expect(loadFile(text, { command: "other '${port} x'" }).predictor).toMatchObject({
      command: ['other', '${port} x'],
      env: undefined,
    })
    expect(loadFile(text, { url: 'http://localhost:1' }).predictor).toMatchObject({ kind: 'url' })
    const running = 'model: bert\nslo: 50ms\npredictor: {url: "http://a:1", headers: {host: b}}\n'
    expect(loadFile(running, { url: 'http://localhost:1' }).predictor).toMatchObject({
      url: 'http://localhost:1',
      headers: { host: 'b' },
    })
  })

  test.each(['grpc://h:8001', 'grpcs://h:8001', 'GRPC://h:8001'])(
    '%s is a URL in files and flags, asked over gRPC where no protocol is said',
    (url) => {
      const file = (predictor: string) => `model: m\nslo: 50ms\npredictor: {${predictor}}\n`
      const grpc = { url, protocol: 'grpc-v2' }
      expect(loadFile(file(`url: "${url}"`)).predictor).toMatchObject(grpc)
      expect(load({ model: 'm', slo: '50ms', url }).predictor).toMatchObject(grpc)
      expect(
        loadFile(file(`urls: [{url: "${url}"}, {url: "grpc://i:1"}]`)).predictor,
      ).toMatchObject(grpc)
      expect(loadFile(file(`url: "${url}", protocol: tfserving-grpc`)).predictor).toMatchObject({
        url,
        protocol: 'tfserving-grpc',
      })
      expect(problemLines(() => loadFile(file(`url: "${url}", protocol: openai`)))).toEqual([
        `e.yaml:3:18 '${url}' is not an http URL`,
      ])
    },
  )

  test('certificates are checked as the file says, over HTTP/2 where it says so', () => {
    write('ca.pem', '-----BEGIN CERTIFICATE-----\n')
    const of = (predictor: string) =>
      `model: m\nslo: 50ms\npredictor: {url: "grpcs://h:1", ${predictor}}\n`
    const tls = { ca: '-----BEGIN CERTIFICATE-----\n', caPath: path('ca.pem') }
    expect(loadFile(of('protocol: grpc-v2, ca: ca.pem')).predictor).toMatchObject({ tls })
    expect(problemLines(() => loadFile(of('protocol: grpc-v2, ca: none.pem')))).toEqual([
      expect.stringMatching(/^e\.yaml:3:.*cannot be read/),
    ])
    const https = of('protocol: tfserving, http2: true, insecureSkipVerify: true').replace(
      'grpcs',
      'https',
    )
    expect(loadFile(https).predictor).toMatchObject({
      http2: true,
      tls: { insecureSkipVerify: true },
    })
    expect(problemLines(() => loadFile(https.replace('https', 'http')))).toEqual([
      expect.stringContaining('http://h:1 uses no TLS, so there is no certificate to check'),
    ])
  })

  test('a command starts in the folder of the file that names it, one of a flag in the working directory', () => {
    write('deep/e.yaml', 'model: m\nslo: 50ms\npredictor: {command: serve}\n')
    expect(load({}, { file: 'deep/e.yaml' }).predictor).toMatchObject({ cwd: path('deep') })
    expect(load({ command: 'serve' }, { file: 'deep/e.yaml' }).predictor).toMatchObject({
      cwd: path(),
    })
  })

  test.each([
    [{ pin: ['cpuCores'] }, "--pin 'cpuCores' is not name=value"],
    [{ param: ['=1'] }, "--param '=1' is not name=value"],
    [{ pin: ['__proto__=1'] }, "--pin '__proto__=1' is not name=value"],
    [{ pin: ['btachSize=3'] }, "--pin no parameter is called 'btachSize'"],
    [{ pin: ['constructor=3'] }, "--pin no parameter is called 'constructor'"],
    [{ pin: ['cpuCores=8'] }, '--pin cpuCores: 8 cores, but this machine has 4'],
    [{ batch: '1,2,4', pin: ['batchSize=5'] }, '--pin batchSize: 5 is outside its values 1, 2, 4'],
    [{ rps: '0' }, "--rps '0' is zero; it must be more"],
    [{ rps: 'NaN' }, "--rps 'NaN' is not a rate"],
    [{ rps: '5', objective: 'price' }, '--rps the objective price does not use a demand'],
    [{ objective: 'max-rate' }, '--objective max-rate needs a price bound'],
    [{ headroom: '100%' }, '--headroom a headroom of 100 % leaves no capacity'],
    [{ devices: 'gpu' }, '--devices this machine has no GPU that a predictor can use'],
    [
      { gpus: 'P100-SXM2' },
      "--gpus the price book 'on-demand list prices 2025-2026' has no price for the GPU P100-SXM2",
    ],
    [
      { timeout: '20ms' },
      '--timeout a timeout of 20 ms cuts off requests that meet the SLO of 50 ms',
    ],
    [{ url: 'ftp://x' }, "--url 'ftp://x' is not an http URL"],
    [{ param: ['wrokers=1..4'] }, "--param the built-in predictor has no parameter 'wrokers'"],
    [
      { backend: 'simulated', command: 'x' },
      '--backend cannot simulate a command predictor: its behaviour is unknown',
    ],
    [
      { items: '4', backend: 'simulated' },
      '--items requests to a simulated predictor have one item',
    ],
    [{ items: 'many' }, expect.stringContaining("'many' is not a number of items")],
    [{ payload: 'none.jsonl' }, expect.stringContaining('--payload no payload file')],
    [{ prices: 'none.yaml' }, expect.stringContaining('--prices cannot read the price book')],
    [
      { constraint: ['batchSize > 1000'] },
      "--constraint the space is empty: none of its 480 configurations satisfies 'batchSize > 1000'",
    ],
  ])('%j is refused', (flags, problem) =>
    expect(problemLines(() => load({ ...bert, ...flags }))).toEqual([problem]),
  )

  test('prices that no provider lists are answered with how to give them', () => {
    expect(() => load({ ...bert, prices: 'gcp-spot' })).toThrow(
      expect.objectContaining({
        problems: [
          expect.objectContaining({
            hint: expect.stringMatching(/no spot prices of gcp.*--prices FILE/),
          }),
        ],
      }),
    )
  })

  test('an ONNX file runs for real: on CPU, or on a GPU that ONNX Runtime can use', () => {
    write('model.onnx', '')
    const flags = { model: './model.onnx', slo: '50ms' }
    const cpu = load(flags, {
      machine: { cpuCores: 4, gpus: ['T4'], drivesGpus: (engine) => engine === 'tfjs' },
    })
    expect([cpu.devicesUsed, cpu.model.name]).toEqual(['cpu', 'model'])
    expect(cpu.predictor).toMatchObject({
      kind: 'builtin',
      engine: 'onnx',
      env: { MODEL_PATH: path('model.onnx') },
    })
    expect(
      load(flags, {
        machine: { cpuCores: 4, gpus: ['T4'], drivesGpus: (engine) => engine === 'onnx' },
      }).devicesUsed,
    ).toBe('gpu')
    expect(problemLines(() => load({ ...flags, devices: 'emulated' }))).toEqual([
      expect.stringMatching(/model.onnx is not an ONNX model: it contains no graph/),
    ])
  })

  test('a server by its kind: started, asked and told of its model as it wants', () => {
    mkdirSync(path('models/half/1'), { recursive: true })
    const file = (predictor: string, model = 'models/half') =>
      `model: ${model}\nslo: 50ms\npredictor: ${predictor}\nspace: {batchSize: 1..8}\n`
    expect(loadFile(file('{server: tfserving}')).predictor).toMatchObject({
      kind: 'command',
      command: ['tensorflow_model_server'],
      server: { kind: 'tfserving', modelPath: path('models/half') },
      protocol: 'tfserving',
      model: 'half',
    })
    const triton = loadFile(file('{server: triton, command: /opt/tritonserver}'))
    expect(triton.predictor).toMatchObject({
      command: ['/opt/tritonserver'],
      server: { kind: 'triton' },
      protocol: 'oip-v2',
    })
    expect(
      loadExperimentDocument(triton.document, 'x', { cwd: path(), machine }).predictor,
    ).toEqual(triton.predictor)
    const named = (...words: string[]) =>
      loadFile(file(`{server: tfserving, command: [tfs, ${words.join(', ')}]}`))
    writeFileSync(
      path('models.config'),
      'model_config_list { config { name: "a" base_path: "/a" } config { name: "b" } }',
    )
    expect(named('--model_name=mine').predictor).toMatchObject({ model: 'mine' })
    expect(named('--model_name=mine').model.name).toBe('mine')
    expect(named('"--model_name=${model}"').predictor).toMatchObject({ model: 'half' })
    expect(named('--model_config_file=models.config').predictor).toMatchObject({ model: 'a' })
    const other = '{server: tfserving, command: [tfs, --model_config_file=models.config]}'
    expect(loadFile(file(other, '{name: b, path: models/half}')).predictor).toMatchObject({
      model: 'b',
    })
    expect(problemLines(() => loadFile(file(other, '{name: c, path: models/half}')))).toEqual([
      "e.yaml:1:15 the command serves a, b, but not 'c'",
    ])
    expect(problemLines(() => loadFile(file('{server: triton}', 'half')))).toEqual([
      "e.yaml:1:8 triton needs the model's folder",
    ])
    expect(
      problemLines(() => loadFile(file('{server: triton}', '{name: other, path: models/half}'))),
    ).toEqual(["e.yaml:1:15 Triton finds the model 'other' in a folder of that name, not in half"])
    expect(problemLines(() => loadFile(file('{server: torchserve}')))).toContainEqual(
      expect.stringMatching(/predictor\.server: expected a server: tfserving, triton/),
    )
    expect(problemLines(() => loadFile(file('{server: triton, url: "http://x"}')))).toEqual([
      'e.yaml:3:34 a predictor with both a server to start and a URL',
    ])
  })

  test('nothing at all says what is needed', () => {
    expect(problemsOf(() => load({}))).toEqual([
      {
        where: 'command line',
        what: 'no model',
        hint: 'set one: --model bert, or `model: bert` in the file',
      },
      {
        where: 'command line',
        what: 'no SLO',
        hint: 'set a latency limit: --slo 50ms, or `slo: 50ms` in the file',
      },
    ])
  })
  test('a pin outside the space names the nearest values', () => {
    expect(problemsOf(() => load({ ...bert, batch: '1..32', pin: ['batchSize=5'] }))[0]!.hint).toBe(
      'nearest: 4, 8',
    )
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
      'e.yaml:8:14 batchSize: 2 appears twice | list each value once',
      "e.yaml:9:8 gpu: unknown GPU 'A1000' | did you mean A10, A5000, A6000, A4000? describe your own GPU with --gpu-catalogue FILE",
      "e.yaml:10:13 cpuCores: 'max' is missing | write [1, 2, 4], 1..32, or {kind: int, min: 1, max: 32}",
      'e.yaml:11:21 gpuMemoryPercent: 200 is above 100 | gpuMemoryPercent: share of one GPU, %, at most 100',
      "e.yaml:12:18 load.arrivals: 'poison' is not an arrival pattern | write poisson, constant, gamma:2 (coefficient of variation), on-off:1s,3s or trace:FILE",
      "e.yaml:15:10 sampler: expected a sampler: gp, random, grid, sobol, halton, found 'grd' | did you mean grid?",
      'e.yaml:16:7 seed: 1.5 is not a whole number | write a whole number of at least 0',
      "e.yaml:17:13 unknown key 'predictor.comand' | did you mean command?",
      'e.yaml:18:9 prices: expected a path or a provider, found 5 | ',
    ])
  })

  test('YAML that is none', () => {
    expect(problemLines(() => loadFile('model: bert\nslo: 50ms\nslo: 60ms\n'))).toEqual([
      'e.yaml:3:1 Map keys must be unique',
    ])
    expect(problemLines(() => loadFile('model: [bert\nslo: 50ms\n'))[0]).toMatch(/^e\.yaml:2:\d+ /)
    expect(problemLines(() => loadFile('model: !!js/function "x"\n'))[0]).toMatch(
      /^e\.yaml:1:8 Unresolved tag/,
    )
    expect(problemLines(() => loadFile('model: bert\n---\nmodel: resnet50\n'))).toEqual([
      'e.yaml:2:1 a second YAML document',
    ])
    expect(problemLines(() => loadFile(''))).toEqual(['e.yaml the file is empty'])
    expect(problemLines(() => loadFile('# nothing\n'))).toEqual(['e.yaml the file is empty'])
    expect(problemLines(() => loadFile('bert'))[0]).toContain('e.yaml:1:1 the experiment:')
    expect(problemLines(() => loadFile('- bert'))[0]).toContain('e.yaml:1:1 the experiment:')
    expect(problemLines(() => loadFile('__proto__: {seed: 3}\nmodel: bert'))).toEqual([
      "e.yaml:1:1 unknown key '__proto__'",
    ])
    expect(problemLines(() => loadFile('? [a, b]\n: c\n'))).toEqual([
      'e.yaml:1:1 a key that is not plain text',
    ])
    expect(problemLines(() => loadFile('model:\nslo: 50ms'))[0]).toContain('model')
  })

  test('a key that is missing inside a value', () => {
    expect(
      problemLines(() => loadFile('model: bert\nslo: 50ms\nload: {arrivals: {kind: gamma}}')),
    ).toEqual(['e.yaml:3:18 load.arrivals.cv: expected a number, found nothing'])
  })

  test('aliases are fine, a bomb of them is not', () => {
    expect(
      valuesOf(
        loadFile('model: bert\nslo: 50ms\nspace:\n  batchSize: &list [1, 2]\n  instances: *list\n'),
        'instances',
      ),
    ).toEqual([1, 2])
    const bomb = [
      'a: &a [x, x, x, x, x, x, x, x, x]',
      ...'bcdefghij'.split('').map((k, i) => `${k}: &${k} [${`*${'abcdefghi'[i]}, `.repeat(9)}]`),
    ]
    expect(problemLines(() => loadFile(bomb.join('\n')))[0]).toContain('Excessive alias count')
  })

  test('a file that cannot be read', () => {
    mkdirSync(path('folder'))
    expect(problemLines(() => load({}, { file: 'none.yaml' }))).toEqual(['none.yaml no such file'])
    expect(problemLines(() => load({}, { file: 'folder' }))).toEqual(['folder is a folder'])
    write('large.yaml', 'x'.repeat(1_100_000))
    expect(problemLines(() => load({}, { file: 'large.yaml' }))).toEqual([
      'large.yaml the file is larger than 1 MiB',
    ])
  })

  test('problems of a price book keep their own lines', () => {
    write('prices.yaml', 'gpus:\n  T4: -1\n')
    expect(problemLines(() => loadFile('model: bert\nslo: 50ms\nprices: prices.yaml'))[0]).toMatch(
      /^e\.yaml:3:9 price book prices\.yaml:2/,
    )
  })
})

describe('traces', () => {
  test('one arrival a line', () => {
    write('trace.csv', 'at_ms,what\n0,x\n1.5,y\n\n9,z\n')
    expect(load({ ...bert, arrivals: 'trace:trace.csv' }).load.arrivals).toEqual({
      kind: 'trace',
      atMs: [0, 1.5, 9],
      readAs: 'ms (by its header)',
    })
  })
  test.each([
    ['3\n1\n', "trace.csv:2: '1' is before the line above"],
    ['0\nx\n', "trace.csv:2: 'x' is not a time"],
    ['0\n', 'the trace trace.csv has 1 arrivals'],
  ])('%j is refused', (text, problem) => {
    write('trace.csv', text)
    expect(problemLines(() => load({ ...bert, arrivals: 'trace:trace.csv' }))).toEqual([
      `--arrivals ${problem}`,
    ])
  })
})

describe('a body template', () => {
  const withBody = (body: string) =>
    `model: m\nslo: 50ms\npredictor:\n  url: http://127.0.0.1:1\n  protocol: json\n  path: /p\n  body: ${body}\n`
  const bodyOf = (body: string) => loadFile(withBody(body)).predictor

  test('is a text or an object, and may hold references', () => {
    expect(bodyOf(`'{"text": "{{text}}", "ids": {{ints}}}'`)).toMatchObject({
      body: '{"text": "{{text}}", "ids": {{ints}}}',
    })
    expect(bodyOf('{"text": "{{text}}", "options": {"k": [1, 2]}}')).toMatchObject({
      body: '{"text":"{{text}}","options":{"k":[1,2]}}',
    })
    expect(bodyOf(`'{"key": "\${env:HOME}"}'`)).toMatchObject({ protocol: 'json' })
  })

  test.each([
    ['{"text": {{text}}}', 'e.yaml:7:18 a key that is not plain text'],
    [`'{"text": {{text}}}'`, 'e.yaml:7:9 the body template is not JSON once filled in: '],
    [
      `'{"text": "{{prompt}}"}'`,
      'e.yaml:7:9 the body template has the unknown placeholder {{prompt}}',
    ],
    [`'{"text": "{{text}}"'`, 'e.yaml:7:9 the body template is not JSON once filled in: '],
  ])('%s is refused where it stands', (body, line) => {
    expect(problemLines(() => bodyOf(body))).toEqual([expect.stringContaining(line)])
  })
})

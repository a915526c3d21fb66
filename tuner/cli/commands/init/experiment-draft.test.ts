import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { knownServers } from '../../../../trials/servers/known-servers.ts'
import { loadExperiment } from '../../../config/load-experiment.ts'
import { draftFromCommand, explainSloFault, parseTarget, suggestSlo } from './experiment-draft.ts'
import { renderExperimentFile } from './experiment-text.ts'
import { findDescribedHealth, listDescribedCalls } from './json-calls.ts'

const folder = mkdtempSync(join(tmpdir(), 'init-plan-'))
afterAll(() => rmSync(folder, { recursive: true }))

describe('what is to be tuned', () => {
  const here = (name: string) => ['python3', 'serve.sh', 'bert'].includes(name)
  test.each([
    [['http://127.0.0.1:8000'], { kind: 'url', url: 'http://127.0.0.1:8000' }],
    [['grpc://h:8001'], { kind: 'url', url: 'grpc://h:8001' }],
    [['unix:/run/x.sock'], { kind: 'url', url: 'unix:/run/x.sock' }],
    [['localhost:8000/v1'], { kind: 'url', url: 'http://localhost:8000/v1' }],
    [
      ['gunicorn', '-w', '4', 'app:app'],
      { kind: 'command', words: ['gunicorn', '-w', '4', 'app:app'] },
    ],
    [["python3 app.py 'a b'"], { kind: 'command', words: ['python3', 'app.py', 'a b'] }],
    [['serve.sh'], { kind: 'command', words: ['serve.sh'] }],
    [['tritonserver'], { kind: 'command', words: ['tritonserver'] }],
    [['resnet50'], { kind: 'model', model: 'resnet50' }],
    [['models/mine.onnx'], { kind: 'model', model: 'models/mine.onnx' }],
  ])('%j', (words, target) => {
    expect(parseTarget(words, here)).toEqual(target)
  })
})

describe('a server of the table', () => {
  test.each(
    knownServers
      .filter((server) => !('preset' in server))
      .map(({ title, programs, ...rest }) => [title, programs[0], rest] as const),
  )('%s makes an experiment that loads', (_, program, rest) => {
    const words = [program, ...('subcommand' in rest ? [rest.subcommand as string] : []), 'app:app']
    const { predictor, space = {} } = draftFromCommand({ words }, folder)
    const document = {
      model: 'm',
      slo: '50ms',
      predictor: { protocol: 'json', path: '/p', ...predictor },
      space,
    }
    const text = renderExperimentFile({
      document,
      comments: {},
      head: [],
      foot: [],
      schemaPath: 's.json',
    })
    const experiment = loadExperiment({
      cwd: folder,
      machine: { cpuCores: 4, gpus: [] },
      file: 'e.yaml',
      text,
    })
    expect(experiment.space.parameters.map(({ name }) => name)).toEqual(
      expect.arrayContaining(Object.keys(space)),
    )
  })

  test('Triton and TensorFlow Serving are tuned by their files, over the model that they name', () => {
    mkdirSync(join(folder, 'models/bert'), { recursive: true })
    expect(
      draftFromCommand({ words: ['tritonserver', '--model-repository=models'] }, folder),
    ).toMatchObject({
      model: { path: 'models/bert' },
      predictor: { server: 'triton', protocol: 'oip-v2' },
      space: { batchSize: '1..32' },
    })
    const words = [
      'tensorflow_model_server',
      '--model_base_path=models/bert',
      '--model_name=mine',
      '--rest_api_port=8501',
    ]
    expect(draftFromCommand({ words }, folder)).toMatchObject({
      model: { path: 'models/bert', name: 'mine' },
      predictor: { server: 'tfserving' },
    })
    const inFile = ['tensorflow_model_server', '--model_config_file=models.config']
    const config = (...names: string[]) =>
      writeFileSync(
        join(folder, 'models.config'),
        `model_config_list {${names.map((name) => ` config { name: "${name}" base_path: '/m/${name}' model_platform: "tensorflow" }`).join('')} }`,
      )
    config('mine')
    expect(draftFromCommand({ words: inFile }, folder)).toMatchObject({
      model: { path: '/m/mine', name: 'mine' },
      predictor: { server: 'tfserving', command: inFile },
    })
    config('mine', 'yours')
    expect(() => draftFromCommand({ words: inFile }, folder)).toThrow(
      'TensorFlow Serving serves several models: mine, yours',
    )
    // Said by its user, it is not asked for.
    expect(draftFromCommand({ words: inFile }, folder, true)).not.toHaveProperty('model')
    mkdirSync(join(folder, 'models/other'))
    expect(() =>
      draftFromCommand({ words: ['tritonserver', '--model-repository=models'] }, folder),
    ).toThrow('models contains 2 models: one must be chosen')
  })

  test('a command as a shell takes it: its folder, its variables, its port', () => {
    const target = parseTarget(
      ["cd app && A=1 exec gunicorn -b 0.0.0.0:8000 'main:make(1)' --bind :8001"],
      () => false,
    )
    if (target.kind !== 'command') throw new Error(target.kind)
    expect(draftFromCommand(target, folder).predictor).toMatchObject({
      command: [
        ...['env', 'A=1', 'gunicorn', '-b', '${host}:${port}', 'main:make(1)'],
        ...['--workers', '${workers}', '--threads', '${threads}'],
      ],
      cwd: 'app',
    })
    expect(() => parseTarget(['gunicorn -b :8000 main:app &'], () => false)).toThrow(
      'in the background',
    )
  })
})

describe('calls that a server describes', () => {
  const schema = {
    type: 'object',
    required: ['texts', 'top_k', 'image_b64', 'pixels'],
    properties: {
      texts: { type: 'array', items: { type: 'string' } },
      top_k: { type: 'integer', default: 3 },
      image_b64: { type: 'string' },
      pixels: { type: 'array', minItems: 2, items: { type: 'number' } },
      language: { anyOf: [{ type: 'string' }, { type: 'null' }] },
    },
  }
  const upload = {
    type: 'object',
    required: ['file', 'top_k'],
    properties: {
      file: { type: 'string', contentMediaType: 'application/octet-stream' },
      more: { type: 'array', items: { type: 'string', format: 'binary' } },
      top_k: { type: 'integer' },
      prompt: { type: 'string' },
    },
  }
  const post = (ref: unknown) => ({
    post: { requestBody: { content: { 'application/json': { schema: ref } } } },
  })
  const document = {
    paths: {
      '/users': post({ type: 'object' }),
      '/models/{name}/predict': post({ type: 'object' }),
      '/v1/classify': post({ $ref: '#/components/schemas/Request' }),
      '/readiness': { get: {} },
      '/upload': { post: { requestBody: { content: { 'multipart/form-data': {} } } } },
      '/images': {
        post: {
          requestBody: {
            content: { 'multipart/form-data': { schema: { $ref: '#/components/schemas/Upload' } } },
          },
        },
      },
    },
    components: { schemas: { Request: schema, Upload: upload } },
  }

  test('an inference comes first, its body as its schema asks', () => {
    const calls = listDescribedCalls(document)
    expect(calls.map(({ path }) => path)).toEqual(['/v1/classify', '/users', '/images'])
    expect(calls[2]).toEqual({
      path: '/images',
      form: { file: '{{image}}', more: '{{image}}', top_k: '{{int}}' },
    })
    expect(calls[0]!.template).toBe(
      '{"texts": {{texts}}, "top_k": 3, "image_b64": "{{image}}", "pixels": [0.5, 0.5]}',
    )
    expect(findDescribedHealth(document)).toBe('/readiness')
  })

  test('what is no description describes nothing, and one that refers to itself comes to an end', () => {
    expect(listDescribedCalls(undefined)).toEqual([])
    expect(
      listDescribedCalls({ paths: { '/p': post({ $ref: '#/a' }) }, a: { $ref: '#/a' } }),
    ).toHaveLength(1)
    const endless = { type: 'object', properties: { a: { $ref: '#/a' } } }
    expect(listDescribedCalls({ paths: { '/p': post(endless) }, a: endless })).toHaveLength(1)
  })
})

test('a guess of an SLO is a few times what one answer takes, and easy to say', () => {
  expect([0.4, 4, 9, 39, 900].map(suggestSlo)).toEqual(['10ms', '20ms', '50ms', '200ms', '5s'])
})

test('the file keeps what it was made of, whatever stands in it, with a schema for editors', () => {
  const document = {
    model: 'm',
    predictor: { command: ['sh', '-c', 'a: #b {{x}}'], body: '{"text": "{{text}}"}' },
    space: { workers: { values: '1..4' } },
  }
  const comments = {
    'predictor.body': 'one request',
    'space.workers': 'processes',
    predictor: 'what serves',
  }
  const text = renderExperimentFile({
    document,
    comments,
    head: ['head'],
    foot: ['a', '', 'b'],
    schemaPath: '.tune/s.json',
  })
  expect(parse(text)).toEqual(document)
  expect(text.split('\n')[0]).toBe('# yaml-language-server: $schema=.tune/s.json')
  expect(text).toMatch(/workers: \{values: 1\.\.4\} # processes/)
  expect(text).toMatch(/body: .* # one request/)
})

test('an answer that is no SLO is told before it is asked for again', () => {
  for (const good of ['', '50ms', 'p95<80ms', 'ttft<500ms tpot<50ms'])
    expect(explainSloFault(good)).toBeUndefined()
  expect(explainSloFault('fast')).toBe(
    "'fast' is not a duration: write a duration such as 50ms, 2s, 10m, 1h30m",
  )
})

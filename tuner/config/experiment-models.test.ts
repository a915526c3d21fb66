import { mkdirSync } from 'node:fs'
import { expect, test } from 'vitest'
import { bert, problemLines, problemsOf, useWorkspace } from './testing/workspace.ts'

const { path, write, load, loadFile } = useWorkspace()

test('a path of one', () => {
  mkdirSync(path('models/mine'), { recursive: true })
  const experiment = loadFile('model: {path: models/mine, version: 3}\nslo: 50ms\ndevices: cpu')
  expect(experiment.model).toEqual({
    name: 'mine',
    architecture: 'mine',
    path: path('models/mine'),
    version: '3',
  })
  expect(experiment.predictor).toMatchObject({
    model: 'mine',
    env: { MODEL_PATH: path('models/mine'), MODEL_VERSION_POLICY: 'specific:3' },
  })
  expect(
    loadFile('model: {path: models/mine, architecture: bert-base}\nslo: 50ms').predictor,
  ).toMatchObject({
    model: 'bert-base',
    engine: 'emulated',
  })
  expect(problemLines(() => loadFile('model: {path: models/mine}\nslo: 50ms'))).toEqual([
    "e.yaml:1:8 unknown model 'mine'",
  ])
  expect(problemLines(() => loadFile('model: models/yours\nslo: 50ms\ndevices: cpu'))).toEqual([
    `e.yaml:1:8 model: no file or folder ${path('models/yours')}`,
  ])
})

test.each(['meta-llama/Llama-3.1-8B-Instruct', 'llama3:8b'])(
  'a server of one’s own that is told the name in the body may have it as its hub does: %s',
  (name) => {
    const own = (protocol: string) =>
      `model: ${name}\nslo: 1s\npredictor: {url: 'http://127.0.0.1:8000', protocol: ${protocol}}`
    expect(loadFile(own('openai')).model).toMatchObject({ name, path: undefined })
    expect(problemLines(() => loadFile(own('oip-v2')))).toHaveLength(1)
  },
)

test('limits of a stream ask by the protocol that streams where none is said', () => {
  const url = { url: 'http://127.0.0.1:8000', model: 'meta-llama/Llama-3.1-8B-Instruct' }
  expect(load({ ...url, sloTtft: '1s' }).predictor).toMatchObject({
    protocol: 'openai',
    model: url.model,
  })
  expect(load({ ...url, model: 'bert', slo: '50ms' }).predictor).toMatchObject({
    protocol: 'oip-v2',
  })
  expect(problemLines(() => load({ ...url, protocol: 'oip-v2', sloTtft: '1s' }))).toContain(
    '--slo-ttft ttft is a latency of streamed answers',
  )
})

test.each([
  ['berd', "unknown model 'berd'"],
  ['a b', "'a b' cannot be used in a URL"],
])('%s is none', (model, what) =>
  expect(problemLines(() => load({ ...bert, model }))[0]).toContain(what),
)

test('a language model that is not known is said once, with how to name it; a name on the Hub with what it is called here', () => {
  const modelled = { sloTtft: '1s', backend: 'simulated', server: 'vllm' }
  expect(problemsOf(() => load({ ...modelled, model: 'lama-9' }))).toMatchObject([
    { what: "unknown model 'lama-9'", hint: expect.stringContaining('--model FOLDER/config.json') },
  ])
  expect(
    problemsOf(() => load({ ...modelled, model: 'meta-llama/Llama-3.1-8B-Instruct' })),
  ).toMatchObject([
    {
      what: expect.stringContaining('is a name on the Hub'),
      hint: expect.stringMatching(/did you mean llama-3\.1-8b.*--model-uri meta-llama/),
    },
  ])
})

test('weights that a config.json says are quantised are not taken for 16 bits, unless that is said', () => {
  const dimensions = {
    model_type: 'llama',
    hidden_size: 2048,
    num_hidden_layers: 16,
    num_attention_heads: 32,
    num_key_value_heads: 8,
  }
  const sizes = { intermediate_size: 8192, vocab_size: 128256, max_position_embeddings: 8192 }
  const loaded = (quant_method: string, more = {}) => {
    write(
      'four/config.json',
      JSON.stringify({ ...dimensions, ...sizes, quantization_config: { quant_method, bits: 4 } }),
    )
    return load({
      model: 'four/config.json',
      sloTtft: '1s',
      backend: 'simulated',
      server: 'vllm',
      ...more,
    })
  }
  expect(problemsOf(() => loaded('awq'))).toMatchObject([
    {
      what: expect.stringContaining('declares quantised weights (awq)'),
      hint: 'add --pin quantization=awq',
    },
  ])
  expect(problemsOf(() => loaded('mxfp4'))).toMatchObject([
    { hint: expect.stringContaining('such weights are not modelled') },
  ])
  expect(loaded('awq', { pin: ['quantization=awq'] }).pins).toMatchObject({ quantization: 'awq' })
})

test('what only emulation knows is not run for real', () => {
  expect(load({ ...bert, model: 'llama-3.1-8b' }).devicesUsed).toBe('emulated')
  expect(problemLines(() => load({ ...bert, model: 'llama-3.1-8b', devices: 'cpu' }))).toEqual([
    "--model the built-in predictor cannot run 'llama-3.1-8b' on real hardware",
  ])
})

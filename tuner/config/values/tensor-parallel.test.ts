import { expect, test } from 'vitest'
import { type Decoder, findArchitecture } from '../../../trials/devices/architecture.ts'
import { loadExperimentDocument } from '../load-experiment.ts'
import { machine, problemLines, problemsOf, useWorkspace, valuesOf } from '../testing/workspace.ts'
import { listDefaultSplits, splitConditions } from './tensor-parallel.ts'

const { load, path } = useWorkspace()
const decoder = (name: string) => findArchitecture(name) as Decoder
const modelled = {
  model: 'llama-3.1-8b',
  sloTtft: '300ms',
  sloTpot: '30ms',
  backend: 'simulated',
  server: 'sglang',
}

test('heads and the feed-forward part divide evenly', () => {
  expect(listDefaultSplits(decoder('llama-3.1-8b'))).toEqual([1, 2, 4, 8])
  expect(listDefaultSplits(decoder('qwen2.5-7b'))).toEqual([1, 2, 4])
  expect(listDefaultSplits(decoder('qwen2.5-0.5b'))).toEqual([1, 2])
  expect(
    splitConditions(
      decoder('llama-3.1-8b'),
      { name: 'gpus', gpus: [], splits: [1, 3], fixed: {} },
      [],
    ),
  ).toEqual(['gpus != 3'])
})

test('GPUs that do not hold the weights are left out, as far as the precision of fixed parameters tells', () => {
  const seventy = (fixed: Record<string, string>) =>
    splitConditions(
      decoder('llama-3.1-70b'),
      { name: 'gpus', gpus: ['L4', 'H100'], splits: [1, 2, 8], fixed },
      [],
    )
  expect(seventy({})).toEqual([
    "not (gpu == 'L4' and gpus == 1)",
    "not (gpu == 'L4' and gpus == 2)",
    "not (gpu == 'H100' and gpus == 1)",
  ])
  expect(seventy({ quantization: 'awq' })).toEqual(["not (gpu == 'L4' and gpus == 1)"])
})

test('a named server is modelled by the built-in predictor, deploys by its name, and is found again in a store', () => {
  const experiment = load(modelled)
  expect(experiment.predictor).toMatchObject({
    kind: 'builtin',
    engine: 'emulated',
    protocol: 'openai',
    standsFor: 'sglang',
  })
  expect(valuesOf(experiment, 'gpus')).toEqual([1, 2, 4, 8])
  expect(experiment.document).toMatchObject({ predictor: { kind: 'builtin', server: 'sglang' } })
  expect(
    loadExperimentDocument(experiment.document, experiment.name, { cwd: path(), machine }),
  ).toMatchObject({
    predictor: experiment.predictor,
    space: { parameters: experiment.space.parameters },
  })
  const { space } = load({ ...modelled, model: 'llama-3.1-70b' })
  expect(space.constraints.some(({ holds }) => !holds({ gpu: 'L4', gpus: 2 }))).toBe(true)
  expect(space.constraints.every(({ holds }) => holds({ gpu: 'H100', gpus: 4 }))).toBe(true)
  // What decides over memory is tuned: each trial says it.
  expect(load({ ...modelled, param: ['quantization=none,awq'] }).space.constraints).toEqual([])
  expect(
    load({ ...modelled, server: undefined }).space.parameters.map(({ name }) => name),
  ).not.toContain('gpus')
})

test('started for real it takes weights by their folder or their name on the Hub', () => {
  const started = {
    ...modelled,
    backend: 'local',
    model: 'meta-llama/Llama-3.1-8B',
    server: 'vllm',
  }
  const experiment = load(started)
  expect(experiment.predictor).toMatchObject({
    kind: 'command',
    protocol: 'openai',
    command: ['vllm', 'serve', 'meta-llama/Llama-3.1-8B'],
    server: { kind: 'vllm', modelPath: 'meta-llama/Llama-3.1-8B' },
  })
  expect(experiment.space.parameters.map(({ name }) => name)).toEqual([
    'cpuCores',
    'maxNumSeqs',
    'maxNumBatchedTokens',
  ])
  expect(load({ ...started, server: 'tensorrt-llm' }).predictor).toMatchObject({
    command: ['trtllm-serve', 'serve', 'meta-llama/Llama-3.1-8B'],
  })
  expect(problemLines(() => load({ ...started, model: 'llama-3.1-8b' }))).toEqual([
    expect.stringContaining('vllm needs the weights of llama-3.1-8b'),
  ])
  expect(
    problemsOf(() =>
      load({ model: 'bert', slo: '50ms', backend: 'simulated', server: 'sglang' }),
    ).map(({ what }) => what),
  ).toContain('sglang serves language models, but bert is not one')
})

test('a server that loads a language model has the minutes that it takes, if nothing else is said; a modelled one has nothing to load', () => {
  const started = { model: 'meta-llama/Llama-3.1-8B', server: 'vllm', sloTtft: '1s' }
  const ready = (flags: Parameters<typeof load>[0]) => load(flags).predictor
  expect(ready(started)).toMatchObject({ kind: 'command', readyTimeoutS: 900 })
  for (const command of [
    'vllm serve m --port ${port}',
    'transformers serve m --port ${port}',
    './llama-server -m m.gguf --port ${port}',
  ])
    expect(ready({ model: 'm', command, protocol: 'openai', sloTtft: '1s' })).toMatchObject({
      readyTimeoutS: 900,
    })
  expect(
    ready({
      model: 'm',
      command: 'python3 serve.py --port ${port}',
      protocol: 'openai',
      sloTtft: '1s',
    }),
  ).toMatchObject({
    readyTimeoutS: 60,
  })
  expect(ready({ ...started, readyTimeout: '2m' })).toMatchObject({ readyTimeoutS: 120 })
  expect(ready({ ...started, model: 'llama-3.1-8b', backend: 'simulated' })).toMatchObject({
    kind: 'builtin',
    readyTimeoutS: 60,
  })
})

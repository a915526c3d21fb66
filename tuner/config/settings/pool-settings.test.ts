import { expect, test } from 'vitest'
import { loadExperimentDocument } from '../load-experiment.ts'
import { machine, problemLines, problemsOf, useWorkspace, valuesOf } from '../testing/workspace.ts'

const { load, loadFile, path } = useWorkspace()
const modelled = {
  model: 'llama-3.1-8b',
  sloTtft: '300ms',
  sloTpot: '30ms',
  backend: 'simulated',
  server: 'vllm',
}
const asked = { ...modelled, param: ['prefillReplicas=0,1,2', 'decodeReplicas=0,1'] }

test('are tuned where they are asked for, one kind of servers never without the other', () => {
  expect(load(modelled).space.parameters.map(({ name }) => name)).not.toContain('prefillReplicas')
  const { space } = load(asked)
  const serves = (prefillReplicas: number, decodeReplicas: number) =>
    space.constraints.every(({ holds }) =>
      holds({ gpu: 'H100', gpus: 1, prefillReplicas, decodeReplicas }),
    )
  expect([serves(0, 0), serves(2, 1), serves(2, 0), serves(0, 1)]).toEqual([
    true,
    true,
    false,
    false,
  ])
})

test('decode servers have GPUs of their own where they are asked for: as many as hold the weights, and as can take over', () => {
  const seventy = (server: string) =>
    load({
      ...asked,
      server,
      model: 'llama-3.1-70b',
      gpus: 'H100',
      param: [...asked.param, 'gpus=2,4', 'decodeGpus=1,2,3,4,8'],
    }).space
  const serves = (server: string, gpus: number, decodeGpus: number, decodeReplicas = 1) =>
    seventy(server).constraints.every(({ holds }) =>
      holds({ gpu: 'H100', gpus, prefillReplicas: decodeReplicas, decodeReplicas, decodeGpus }),
    )
  // One H100 holds no 70B, three do not divide it, and vLLM 0.11 has no decode servers of fewer
  // GPUs.
  for (const server of ['vllm', 'sglang'])
    expect([1, 2, 3, 4, 8].map((decodeGpus) => serves(server, 4, decodeGpus))).toEqual([
      false,
      server === 'sglang',
      false,
      true,
      true,
    ])
  // One server for both has none of them.
  expect(serves('vllm', 2, 1, 0)).toBe(true)
  expect(seventy('vllm').parameters.find(({ name }) => name === 'decodeGpus')!.when!.text).toBe(
    'decodeReplicas > 0',
  )
})

test('what is said of the way between them is kept, and told', () => {
  const experiment = loadFile(
    [
      'model: llama-3.1-8b',
      'slo: ttft<300ms',
      'backend: simulated',
      'predictor: {server: sglang, kvTransfer: {bandwidth: 200 Gb/s, latency: 5ms}}',
      'space: {prefillReplicas: [0, 1], decodeReplicas: [0, 1, 2]}',
    ].join('\n'),
  )
  expect(experiment.predictor).toMatchObject({
    standsFor: 'sglang',
    kvTransfer: { gbPerS: 25, latencyMs: 5 },
  })
  expect(experiment.notices.join()).toMatch(
    /SIMULATED and were not validated against real ones. ASSUMED: KV cache transfer at 25 GB\/s per GPU, plus 5 ms/,
  )
  expect(experiment.document.predictor).toMatchObject({
    kvTransfer: { bandwidth: '25 GB/s', latency: '5ms' },
  })
  const again = loadExperimentDocument(experiment.document, experiment.name, {
    cwd: path(),
    machine,
  })
  expect(again.predictor).toEqual(experiment.predictor)
  expect(again.space.constraints.map(({ text }) => text)).toEqual(
    experiment.space.constraints.map(({ text }) => text),
  )
  expect(load({ ...asked, kvTransfer: '100 Gb/s, 5ms' }).predictor).toMatchObject({
    kvTransfer: { gbPerS: 12.5, latencyMs: 5 },
  })
  expect(load({ ...asked, kvTransfer: '40 GB/s' }).predictor).toMatchObject({
    kvTransfer: { gbPerS: 40 },
  })
  expect(load(asked).notices.join()).toMatch(
    /200 GB\/s per GPU over NVLink if one machine of 8 .* else 25 GB\/s per GPU over the network \(or PCIe\), plus 2 ms/,
  )
  expect(load(modelled).notices.join()).not.toContain('keys and values')
})

test.each<[string, Record<string, unknown>, RegExp]>([
  [
    'one kind alone',
    { ...modelled, param: ['prefillReplicas=0,1'] },
    /prefillReplicas without decodeReplicas: each needs the other to answer requests/,
  ],
  [
    'on real servers',
    { ...asked, backend: 'local', model: 'meta-llama/Llama-3.1-8B' },
    /can only be simulated/,
  ],
  [
    'emulated under real load',
    { ...asked, backend: 'local', devices: 'emulated' },
    /can only be simulated/,
  ],
  [
    'on a cluster',
    { ...asked, backend: 'kubernetes', devices: 'emulated' },
    /can only be simulated/,
  ],
  [
    'of a server without them',
    { ...asked, server: 'tgi' },
    /prefill and decode servers are not modelled for tgi/,
  ],
  [
    'of another model',
    { model: 'bert', slo: '50ms', backend: 'simulated', param: asked.param },
    /prefillReplicas has no effect on bert-base/,
  ],
  [
    'GPUs of decode servers without any',
    { ...modelled, param: ['decodeGpus=1,2'] },
    /decodeGpus has no effect, because no configuration has decode servers/,
  ],
  [
    'fewer than none',
    { ...modelled, param: ['prefillReplicas=-1,1', 'decodeReplicas=1'] },
    /prefillReplicas: -1 is below 0/,
  ],
])('%s are refused', (_, flags, message) => {
  expect(
    problemsOf(() => load(flags))
      .map(({ what }) => what)
      .join('\n'),
  ).toMatch(message)
})

test('a way between pools that there are not is refused, and so is a bandwidth that is none', () => {
  const said = (transfer: string) =>
    `model: llama-3.1-8b\nslo: ttft<1s\nbackend: simulated\npredictor: {kvTransfer: ${transfer}}\n`
  expect(problemLines(() => loadFile(said('{latency: 1ms}')))).toEqual([
    'e.yaml:4:25 kvTransfer has no effect, because no configuration has prefill and decode servers',
  ])
  expect(problemLines(() => loadFile(said('{bandwidth: 25}'))).join()).toContain(
    'predictor.kvTransfer.bandwidth: 25 is not a bandwidth',
  )
})

test('a router that runs already is priced by the servers behind it', () => {
  const experiment = load({
    model: 'llama-3.1-8b',
    sloTtft: '300ms',
    url: 'http://127.0.0.1:8000',
    protocol: 'openai',
    pin: ['gpu=H100', 'prefillReplicas=1', 'decodeReplicas=2'],
  })
  expect([valuesOf(experiment, 'prefillReplicas'), valuesOf(experiment, 'decodeReplicas')]).toEqual(
    [[1], [2]],
  )
})

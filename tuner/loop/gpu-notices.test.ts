import { describe, expect, test } from 'vitest'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import type { Experiment } from '../config/types.ts'
import { explainUnusedGpus, listGpuNotices } from './gpu-notices.ts'

type Gpu = MachineFacts['gpus'][number]
const gpu = (name: string, more: Partial<Gpu> = {}) =>
  ({
    vendor: 'nvidia',
    index: 0,
    name,
    memoryMiB: 16_000,
    usedMemoryMiB: 0,
    computeMode: 'Default',
    migEnabled: false,
    migDevices: [],
    ...more,
  }) as Gpu
const t4 = gpu('Tesla T4')
const shared = gpu('Tesla T4', { usedMemoryMiB: 9000 })
type Package = MachineFacts['packages'][number]
const tfjs = {
  name: '@tensorflow/tfjs-node-gpu',
  gives: '',
  state: 'ok',
  version: '4.22.0',
} as Package
const onnx = { name: 'onnxruntime-node', gives: '', state: 'ok', version: '1.30.0' } as Package
const machine = (
  gpus: readonly Gpu[],
  packages: readonly Package[] = [],
  more: Partial<MachineFacts> = {},
) => ({ gpus, packages, mps: false, ...more }) as MachineFacts
const experiment = (more: object = {}) =>
  ({
    backend: 'local',
    predictor: { kind: 'builtin' },
    model: {},
    devices: 'auto',
    devicesUsed: 'cpu',
    ...more,
  }) as unknown as Experiment
const command = { kind: 'command', protocol: 'oip-http' }

describe('why the built-in server does not use a GPU', () => {
  test('names the missing package of the preferred engine', () => {
    expect(explainUnusedGpus(['onnx', 'tfjs'], machine([t4]))).toMatch(
      /^Tesla T4 is not used, because the built-in server cannot use it \(onnxruntime-node is not installed\): ONNXRUNTIME_NODE_INSTALL=cuda12/,
    )
    expect(explainUnusedGpus(['tfjs'], machine([t4, t4, gpu('L4')]))).toMatch(
      /^Tesla T4, L4 are not used, .* cannot use them \(.*To use them with your own server, add --command$/,
    )
  })

  test('is undefined where one engine can use it', () => {
    for (const packages of [[tfjs], [onnx], [tfjs, onnx]])
      expect(explainUnusedGpus(['onnx', 'tfjs'], machine([t4], packages))).toBeUndefined()
    expect(explainUnusedGpus(['onnx'], machine([t4], [tfjs]))).toMatch(/onnxruntime-node/)
  })

  test('is undefined where the GPU cannot be used at all, which another notice reports', () => {
    expect(explainUnusedGpus(['tfjs'], machine([]))).toBeUndefined()
    expect(
      explainUnusedGpus(
        ['tfjs'],
        machine([gpu('L4', { computeMode: 'Prohibited' }), gpu('A100', { migEnabled: true })]),
      ),
    ).toBeUndefined()
    const sliced = gpu('A100', { migEnabled: true, migDevices: [{} as Gpu['migDevices'][number]] })
    expect(explainUnusedGpus(['tfjs'], machine([sliced]))).toMatch(/^A100 is not used/)
  })
})

describe('the GPU notices of a run', () => {
  test('are empty where trials run elsewhere', () => {
    const busy = machine([shared], [], { gpuProblem: 'no driver' })
    for (const backend of ['simulated', 'kubernetes'])
      expect(listGpuNotices(experiment({ backend }), busy)).toEqual([])
    expect(listGpuNotices(experiment({ predictor: { kind: 'url' } }), busy)).toEqual([])
  })

  test('are empty with --devices cpu or emulated, and for a free GPU that is used', () => {
    for (const devices of ['cpu', 'emulated'])
      expect(listGpuNotices(experiment({ devices }), machine([shared]))).toEqual([])
    expect(
      listGpuNotices(experiment({ devices: 'cpu' }), machine([], [], { gpuProblem: 'no driver' })),
    ).toEqual([])
    expect(listGpuNotices(experiment({ devicesUsed: 'gpu' }), machine([t4], [tfjs]))).toEqual([])
  })

  test('begin with a GPU problem, followed by warnings about used GPUs', () => {
    expect(
      listGpuNotices(
        experiment({ devices: 'gpu', devicesUsed: 'gpu' }),
        machine([shared], [tfjs], { gpuProblem: 'no driver' }),
      ),
    ).toEqual([
      'GPU not used: no driver',
      expect.stringMatching(/^Tesla T4 \(GPU 0\): 9000 of 16000 MiB are in use by other processes/),
    ])
  })

  test('say why a GPU is not used instead of warning about it', () => {
    expect(listGpuNotices(experiment(), machine([shared]))).toEqual([
      expect.stringMatching(/^Tesla T4 is not used/),
    ])
    expect(listGpuNotices(experiment(), machine([], [], { gpuProblem: 'no driver' }))).toEqual([
      'GPU not used: no driver',
    ])
    // The user's own server may use it.
    expect(listGpuNotices(experiment({ predictor: command }), machine([shared]))).toEqual([
      expect.stringMatching(/9000 of 16000 MiB/),
    ])
    expect(listGpuNotices(experiment(), machine([shared], [tfjs]))).toEqual([
      expect.stringMatching(/9000 of 16000 MiB/),
    ])
  })

  test('name the engine that the model needs', () => {
    const missing = (path?: string) =>
      listGpuNotices(experiment({ model: { path } }), machine([t4])).join()
    expect(missing('bert.onnx')).toMatch(/onnxruntime-node/)
    expect(missing('model.json')).toMatch(/tfjs-node-gpu/)
    expect(
      listGpuNotices(experiment({ model: { path: 'bert.onnx' } }), machine([t4], [tfjs])).join(),
    ).toMatch(/onnxruntime-node/)
    expect(listGpuNotices(experiment({ model: {} }), machine([t4], [tfjs]))).toEqual([])
  })

  test('say that language models are emulated, whatever is installed', () => {
    const llm = experiment({ predictor: { kind: 'builtin', protocol: 'openai' } })
    expect(listGpuNotices(llm, machine([t4, t4], [tfjs, onnx]))).toEqual([
      expect.stringMatching(/^Tesla T4 not used, because the built-in server only emulates/),
    ])
    expect(listGpuNotices(llm, machine([t4], [tfjs]))).toHaveLength(1)
    expect(
      listGpuNotices(llm, machine([t4, gpu('L4', { migEnabled: true })], [tfjs])).join(),
    ).toMatch(/^Tesla T4 not used/)
    expect(listGpuNotices(llm, machine([], [tfjs, onnx]))).toEqual([])
  })
})

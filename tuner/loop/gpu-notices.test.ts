import { describe, expect, test } from 'vitest'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import type { Experiment } from '../experiment/types.ts'
import { gpuNotices, whyUnused } from './gpu-notices.ts'

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

describe('why the built-in server leaves a GPU alone', () => {
  test('is the package that is missing, of the engine that is preferred', () => {
    expect(whyUnused(['onnx', 'tfjs'], machine([t4]))).toMatch(
      /^Tesla T4 is not used, because the built-in server cannot use it \(onnxruntime-node is not installed\): ONNXRUNTIME_NODE_INSTALL=cuda12/,
    )
    expect(whyUnused(['tfjs'], machine([t4, t4, gpu('L4')]))).toMatch(
      /^Tesla T4, L4 are not used, .* cannot use them \(.*To use them with your own server, add --command$/,
    )
  })

  test('is none where one engine has what it needs', () => {
    for (const packages of [[tfjs], [onnx], [tfjs, onnx]])
      expect(whyUnused(['onnx', 'tfjs'], machine([t4], packages))).toBeUndefined()
    expect(whyUnused(['onnx'], machine([t4], [tfjs]))).toMatch(/onnxruntime-node/)
  })

  test('is none where nothing could run on it anyway, which is said elsewhere', () => {
    expect(whyUnused(['tfjs'], machine([]))).toBeUndefined()
    expect(
      whyUnused(
        ['tfjs'],
        machine([gpu('L4', { computeMode: 'Prohibited' }), gpu('A100', { migEnabled: true })]),
      ),
    ).toBeUndefined()
    const sliced = gpu('A100', { migEnabled: true, migDevices: [{} as Gpu['migDevices'][number]] })
    expect(whyUnused(['tfjs'], machine([sliced]))).toMatch(/^A100 is not used/)
  })
})

describe('what is said at the start', () => {
  test('is nothing of GPUs where trials run elsewhere', () => {
    const busy = machine([shared], [], { gpuProblem: 'no driver' })
    for (const backend of ['simulated', 'kubernetes'])
      expect(gpuNotices(experiment({ backend }), busy)).toEqual([])
    expect(gpuNotices(experiment({ predictor: { kind: 'url' } }), busy)).toEqual([])
  })

  test('is nothing to who said that they want none, and nothing of one that is idle and used', () => {
    for (const devices of ['cpu', 'emulated'])
      expect(gpuNotices(experiment({ devices }), machine([shared]))).toEqual([])
    expect(
      gpuNotices(experiment({ devices: 'cpu' }), machine([], [], { gpuProblem: 'no driver' })),
    ).toEqual([])
    expect(gpuNotices(experiment({ devicesUsed: 'gpu' }), machine([t4], [tfjs]))).toEqual([])
  })

  test('is first that one cannot be seen, then what is odd about those that are used', () => {
    expect(
      gpuNotices(
        experiment({ devices: 'gpu', devicesUsed: 'gpu' }),
        machine([shared], [tfjs], { gpuProblem: 'no driver' }),
      ),
    ).toEqual([
      'GPU not used: no driver',
      expect.stringMatching(/^Tesla T4 \(GPU 0\): 9000 of 16000 MiB are in use by other processes/),
    ])
  })

  test('is why one is not used, instead of what is odd about it', () => {
    expect(gpuNotices(experiment(), machine([shared]))).toEqual([
      expect.stringMatching(/^Tesla T4 is not used/),
    ])
    expect(gpuNotices(experiment(), machine([], [], { gpuProblem: 'no driver' }))).toEqual([
      'GPU not used: no driver',
    ])
    // The user's own server may use it.
    expect(gpuNotices(experiment({ predictor: command }), machine([shared]))).toEqual([
      expect.stringMatching(/9000 of 16000 MiB/),
    ])
    expect(gpuNotices(experiment(), machine([shared], [tfjs]))).toEqual([
      expect.stringMatching(/9000 of 16000 MiB/),
    ])
  })

  test('asks for the engine that the model is made for', () => {
    const missing = (path?: string) =>
      gpuNotices(experiment({ model: { path } }), machine([t4])).join()
    expect(missing('bert.onnx')).toMatch(/onnxruntime-node/)
    expect(missing('model.json')).toMatch(/tfjs-node-gpu/)
    expect(
      gpuNotices(experiment({ model: { path: 'bert.onnx' } }), machine([t4], [tfjs])).join(),
    ).toMatch(/onnxruntime-node/)
    expect(gpuNotices(experiment({ model: {} }), machine([t4], [tfjs]))).toEqual([])
  })

  test('is that language models are emulated, whatever is installed', () => {
    const llm = experiment({ predictor: { kind: 'builtin', protocol: 'openai' } })
    expect(gpuNotices(llm, machine([t4, t4], [tfjs, onnx]))).toEqual([
      expect.stringMatching(/^Tesla T4 not used, because the built-in server only emulates/),
    ])
    expect(gpuNotices(llm, machine([t4], [tfjs]))).toHaveLength(1)
    expect(gpuNotices(llm, machine([t4, gpu('L4', { migEnabled: true })], [tfjs])).join()).toMatch(
      /^Tesla T4 not used/,
    )
    expect(gpuNotices(llm, machine([], [tfjs, onnx]))).toEqual([])
  })
})

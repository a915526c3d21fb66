import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { protocolFor } from '../../profiler/protocols/index.ts'
import { inspectMachine, type MachineFacts } from '../machine/machine-facts.ts'
import type { GpuFacts } from '../machine/nvidia-smi.ts'
import { parseResources } from '../resources.ts'
import { chooseEngine, findGpuSupportFault } from './builtin.ts'
import { createLocalLauncher } from './local/local-launcher.ts'
import type { BuiltinTemplate } from './template.ts'

let folder: string
let machine: MachineFacts
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tune-builtin-'))
  machine = await inspectMachine()
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const never = new AbortController().signal
const launcher = (template: BuiltinTemplate) =>
  createLocalLauncher({
    template,
    parameters: [],
    protocol: protocolFor('oip-v2'),
    payload: { kind: 'generated', seed: 1, count: 2 },
    runDirectory: join(folder, 'experiment'),
    machine,
  })
const emulated: BuiltinTemplate = {
  kind: 'builtin',
  model: 'bert',
  engine: 'emulated',
  readyTimeoutS: 30,
}

describe('the built-in predictor, launched', () => {
  test('serves on an emulated GPU, says so, and leaves nothing', async () => {
    const predictor = await launcher(emulated).launch(
      { cpuCores: 1, gpu: 'T4', gpuMemoryPercent: 25, batchSize: 4 },
      1,
      never,
    )
    try {
      expect(predictor.provenance).toBe('emulated')
      expect(predictor.isolation).toContain('GPU T4 emulated, 25 %')
      expect(predictor.target).toMatchObject({ kind: 'http', path: '/v2/models/bert/infer' })
    } finally {
      await predictor.stop()
    }
    expect(readdirSync(join(folder, 'running'))).toEqual([])
  })

  test('that needs more memory than its share is out of memory', async () => {
    const launch = launcher(emulated).launch(
      { cpuCores: 1, gpu: 'T4', gpuMemoryPercent: 5, batchSize: 256 },
      2,
      never,
    )
    await expect(launch).rejects.toMatchObject({
      name: 'InfeasibleError',
      reason: 'out-of-memory',
      message: expect.stringContaining('emulated'),
    })
    expect(readdirSync(join(folder, 'running'))).toEqual([])
  })

  test('with settings it does not take is our fault, not the configuration’s', async () => {
    const launch = launcher({ ...emulated, env: { WARM_UP_BATCH: 'many' } }).launch(
      { gpu: 'T4' },
      3,
      never,
    )
    await expect(launch).rejects.toMatchObject({
      name: 'LaunchError',
      message: expect.stringContaining('WARM_UP_BATCH'),
    })
  })
})

describe('which engine auto comes to', () => {
  const t4: GpuFacts = {
    vendor: 'nvidia',
    index: 0,
    uuid: 'GPU-1',
    name: 'Tesla T4',
    memoryMiB: 15360,
    usedMemoryMiB: 0,
    driver: '550.54',
    computeMode: 'Default',
    migEnabled: false,
    migDevices: [],
  }
  const auto: BuiltinTemplate = { ...emulated, engine: 'auto' }
  const node = { name: '@tensorflow/tfjs-node-gpu', gives: 'GPU' }
  const withGpu = (state: 'ok' | 'absent'): MachineFacts => ({
    ...machine,
    gpus: [t4],
    packages: [state === 'ok' ? { ...node, state, version: '4.22.0' } : { ...node, state }],
  })

  test('a real one on CPU', () =>
    expect(chooseEngine(auto, parseResources({ gpu: 'none' }), machine)).toBe('tfjs'))
  test('a real one on the GPU that is here', () =>
    expect(chooseEngine(auto, parseResources({ gpu: 'T4' }), withGpu('ok'))).toBe('tfjs'))
  test('emulated for a GPU that is not', () =>
    expect(chooseEngine(auto, parseResources({ gpu: 'V100' }), withGpu('ok'))).toBe('emulated'))
  test('emulated where nothing drives the GPU', () =>
    expect(chooseEngine(auto, parseResources({ gpu: 'T4' }), withGpu('absent'))).toBe('emulated'))
  test('never silently: tfjs asked for on a GPU that nothing drives is refused', () =>
    expect(() =>
      chooseEngine({ ...auto, engine: 'tfjs' }, parseResources({ gpu: 'T4' }), withGpu('absent')),
    ).toThrow(/tfjs-node-gpu is not installed/))
  test('never silently: ONNX Runtime without its CUDA provider is refused', () => {
    const onnx = {
      name: 'onnxruntime-node',
      gives: 'ONNX models',
      state: 'ok' as const,
      version: '1.30.0',
    }
    const asked = parseResources({ gpu: 'T4' })
    const cpuOnly = {
      ...withGpu('absent'),
      packages: [{ ...onnx, gpuProblem: 'its CUDA provider is not installed' }],
    }
    expect(() => chooseEngine({ ...auto, engine: 'onnx' }, asked, cpuOnly)).toThrow(
      /onnxruntime-node cannot use it: its CUDA provider/,
    )
    expect(chooseEngine({ ...auto, engine: 'onnx' }, asked, { ...cpuOnly, packages: [onnx] })).toBe(
      'onnx',
    )
  })
  test('a driver older than the package’s CUDA is what is missing', () => {
    const onnx = {
      name: 'onnxruntime-node',
      gives: 'ONNX models',
      state: 'ok' as const,
      version: '1.30.0',
    }
    const withDriver = (driver: string) =>
      findGpuSupportFault('onnx', { packages: [onnx], gpus: [{ ...t4, driver }] })
    expect(withDriver('470.223.02')).toEqual({
      what: 'the CUDA release of onnxruntime-node needs driver 525 or later, but this machine has 470.223.02',
      install: 'update the NVIDIA driver',
    })
    expect(withDriver('525.60.13')).toBeUndefined()
    const tfjs = { ...onnx, name: '@tensorflow/tfjs-node-gpu' }
    expect(
      findGpuSupportFault('tfjs', { packages: [tfjs], gpus: [{ ...t4, driver: '470.223.02' }] }),
    ).toBeUndefined()
  })
})

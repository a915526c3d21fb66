/**
 * The way to a GPU, against a stand-in for @tensorflow/tfjs-node-gpu that computes with the plain
 * CPU kernels.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MathBackendCPU } from '@tensorflow/tfjs-backend-cpu'
import * as tf from '@tensorflow/tfjs-core'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { EngineOptions, Tensors } from '../../engine.ts'
import { createEngine } from '../tfjs.ts'
import type { SavedModel } from './tfjs-backend.ts'

let usesGpu: boolean
const savedModel: SavedModel = {
  inputs: [{ name: 'x', dtype: 'float32', shape: [-1, 2] }],
  outputs: [{ name: 'doubled', dtype: 'float32', shape: [-1, 2] }],
  predict: ({ x }) => ({ doubled: tf.mul(x!, 2) }),
  dispose: () => undefined,
}

/** What the library does as it is imported. */
function standIn() {
  class Backend extends MathBackendCPU {
    readonly isUsingGpuDevice = usesGpu
  }
  if (!tf.getKernel('Add', 'tensorflow')) tf.copyRegisteredKernels('cpu', 'tensorflow')
  tf.registerBackend('tensorflow', () => new Backend())
  return { node: { loadSavedModel: async () => savedModel } }
}

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'saved-model-'))
  vi.doMock('@tensorflow/tfjs-node-gpu', standIn)
})
afterEach(() => {
  rmSync(folder, { recursive: true })
  vi.doUnmock('@tensorflow/tfjs-node-gpu')
  vi.resetModules()
  if (tf.findBackendFactory('tensorflow')) tf.removeBackend('tensorflow')
})

const options: EngineOptions = {
  model: 'bert-tiny',
  batchSize: 2,
  sequenceLength: 8,
  precision: 'fp32',
  gpuMemoryPercent: 100,
  gpuSharing: 'time-slice',
  instances: 1,
  warmUpBatch: 1,
  cpuThreads: 1,
  seed: 3,
}
const text: Tensors = {
  input_ids: {
    datatype: 'INT32',
    shape: [1, 8],
    data: Int32Array.of(101, 2000, 3000, 102, 0, 0, 0, 0),
  },
  attention_mask: { datatype: 'INT32', shape: [1, 8], data: Int32Array.of(1, 1, 1, 1, 0, 0, 0, 0) },
}

test("on a GPU's backend a model answers as on WebAssembly", async () => {
  const wasm = createEngine(options)
  await wasm.load()
  const want = (await wasm.infer(text, 0)).logits!.data
  await wasm.close()
  usesGpu = true
  const gpu = createEngine({ ...options, gpu: 'T4' })
  const info = await gpu.load()
  expect([gpu.device, gpu.provenance, info.versions.backend]).toEqual([
    'T4 (TensorFlow)',
    'measured',
    'tensorflow',
  ])
  const got = (await gpu.infer(text, 0)).logits!.data
  for (const [i, value] of want.entries()) expect(got[i]).toBeCloseTo(value, 5)
  await gpu.close()
})

test('a library that computes on CPU for want of CUDA is refused', async () => {
  usesGpu = false
  await expect(createEngine({ ...options, gpu: 'T4' }).load()).rejects.toThrow(
    /finds no GPU to use for 'T4'.*CUDA 11\.2/,
  )
})

test('a SavedModel runs under its own names', async () => {
  usesGpu = true
  mkdirSync(join(folder, '1'))
  writeFileSync(join(folder, '1', 'saved_model.pb'), '')
  const engine = createEngine({ ...options, gpu: 'T4', modelPath: join(folder, '1') })
  const info = await engine.load()
  expect(info).toMatchObject({
    task: 'tensor',
    inputs: [{ name: 'x', shape: [-1, 2] }],
    outputs: [{ name: 'doubled' }],
  })
  const { doubled } = await engine.infer(
    { x: { datatype: 'FP32', shape: [1, 2], data: Float32Array.of(1, 2) } },
    0,
  )
  expect([...doubled!.data]).toEqual([2, 4])
  await engine.close()
})

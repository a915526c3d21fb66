/**
 * Real inference through TensorFlow.js: on a GPU through @tensorflow/tfjs-node-gpu if a GPU is
 * configured, else on CPU through WebAssembly. Models are built with seeded weights, or loaded from
 * the user's path.
 */
import {
  type NamedTensorMap,
  type Tensor as TfTensor,
  tensor,
  version_core,
} from '@tensorflow/tfjs-core'
import type { Engine, EngineInfo, EngineOptions, Tensor, Tensors } from '../engine.ts'
import type { Model } from '../models/model.ts'
import { buildModel } from '../models/model-registry.ts'
import { warmUp } from './engine-warm-up.ts'
import { type Backend, startBackend } from './tfjs/tfjs-backend.ts'
import { loadUserModel } from './tfjs/user-model.ts'

export function createEngine(options: EngineOptions): Engine {
  if (options.precision !== 'fp32')
    throw new Error(
      `the tfjs engine computes in fp32, not ${options.precision}; leave --precision out`,
    )
  let backend: Backend | undefined
  let model: Model | undefined
  let busyMs = 0

  const infer = async (inputs: Tensors): Promise<Tensors> => {
    if (!backend || !model) throw new Error('infer before load')
    const startedAt = performance.now()
    const fed = createFeeds(inputs)
    try {
      const outputs = await readOutputs(await model.run(fed), model.outputs)
      backend.check()
      return outputs
    } finally {
      for (const input of Object.values(fed)) input.dispose()
      busyMs += performance.now() - startedAt
    }
  }

  return {
    name: 'tfjs',
    provenance: 'measured',
    get device() {
      return backend?.device ?? 'not loaded'
    },
    async load(): Promise<EngineInfo> {
      backend = await startBackend(options)
      const { model: name, modelPath, sequenceLength, seed } = options
      const loaded =
        modelPath === undefined
          ? buildModel(name, sequenceLength, seed, backend.pack)
          : await loadUserModel(modelPath, backend, sequenceLength)
      model = loaded
      backend.check()
      await warmUp(loaded.inputs, options.warmUpBatch, infer)
      busyMs = 0
      const { task, inputs, outputs, seeded } = loaded
      const versions = {
        tfjs: version_core,
        backend: backend.name,
        ...(seeded && { weights: 'seeded' }),
      }
      return { task, inputs, outputs, versions, memoryMiB: backend.memoryMiB() }
    },
    infer,
    utilization: () => ({ busyMs, memoryMiB: backend?.memoryMiB() ?? 0 }),
    async close() {
      model?.dispose()
      backend?.close()
      model = undefined
      backend = undefined
    },
  }
}

const createFeeds = (inputs: Tensors): NamedTensorMap =>
  Object.fromEntries(
    Object.entries(inputs).map(([name, { data, shape, datatype }]) => [
      name,
      tensor(data, shape as number[], datatype === 'INT32' ? 'int32' : 'float32'),
    ]),
  )

/** Copies outputs from the backend and frees its memory. */
async function readOutputs(
  outputs: NamedTensorMap,
  specs: EngineInfo['outputs'],
): Promise<Tensors> {
  const copied: Record<string, Tensor> = {}
  try {
    for (const { name, datatype } of specs) {
      const output = outputs[name] as TfTensor
      if (output.dtype !== (datatype === 'INT32' ? 'int32' : 'float32'))
        throw new Error(
          `output '${name}' holds ${output.dtype}, but is declared ${datatype}; convert the model with its signature`,
        )
      copied[name] = {
        datatype,
        shape: output.shape,
        data: await output.data<'float32' | 'int32'>(),
      }
    }
  } finally {
    for (const output of Object.values(outputs)) output.dispose()
  }
  return copied
}

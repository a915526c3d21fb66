/**
 * Real inference through ONNX Runtime (onnxruntime-node, an optional package), on CPU or, with its
 * CUDA provider, on a GPU. Runs a user's file in its own precision, or a built-in model as a graph
 * with seeded weights, in fp32 or fp16.
 */
import type { InferenceSession, Tensor as OnnxTensor } from 'onnxruntime-node'
import {
  type Engine,
  type EngineInfo,
  type EngineOptions,
  OutOfMemoryError,
  type Tensor,
  type TensorSpec,
  type Tensors,
} from '../engine.ts'
import { findModelFile } from '../models/model-file.ts'
import { ModelError } from '../models/model-registry.ts'
import { detectTask, fixLength } from '../models/task.ts'
import { warmUp } from './engine-warm-up.ts'
import { createBuiltinGraph } from './onnx/builtin-graph.ts'
import { importRuntime, isOutOfMemory, openSession, type Runtime } from './onnx/onnx-session.ts'
import { convertFromOnnx, convertToOnnx, findDatatype } from './onnx/onnx-tensors.ts'

/** @param load imports onnxruntime-node */
export function createEngine(options: EngineOptions, load?: () => Promise<Runtime>): Engine {
  const { modelPath } = options
  const own = modelPath !== undefined
  if (own && options.precision !== 'fp32')
    throw new Error(
      `an ONNX file has a fixed precision, which --precision ${options.precision} cannot change; export the model in that precision`,
    )
  if (options.precision !== 'fp32' && options.precision !== 'fp16')
    throw new Error(
      `the onnx engine computes built-in models in fp32 or fp16, not ${options.precision}`,
    )
  const threads = Math.max(1, Math.floor(options.cpuThreads))
  let open:
    | { readonly runtime: Runtime; readonly session: InferenceSession; readonly model: OnnxModel }
    | undefined
  let busyMs = 0

  const infer = async (inputs: Tensors): Promise<Tensors> => {
    if (!open) throw new Error('infer before load')
    const { runtime, session, model } = open
    const startedAt = performance.now()
    try {
      const results = await session.run(
        createFeeds(runtime, model, inputs),
        model.outputs.map(({ name }) => name),
      )
      return readOutputs(results, model, countRows(inputs))
    } catch (error) {
      if (error instanceof Error && isOutOfMemory(error.message))
        throw new OutOfMemoryError(error.message)
      throw error
    } finally {
      busyMs += performance.now() - startedAt
    }
  }
  // ONNX Runtime does not report GPU memory; nvidia-smi does.
  const memoryMiB = () =>
    options.gpu === undefined ? Math.round(process.memoryUsage.rss() / 2 ** 20) : 0

  return {
    name: 'onnx',
    provenance: 'measured',
    device:
      options.gpu === undefined
        ? `CPU (ONNX Runtime, ${threads} thread${threads > 1 ? 's' : ''})`
        : `${options.gpu} (ONNX Runtime, CUDA)`,
    async load(): Promise<EngineInfo> {
      const file = modelPath === undefined ? undefined : await findModelFile(modelPath, 'onnx')
      const runtime = await importRuntime(load)
      const session = await openSession(runtime, file ?? createBuiltinGraph(options), options)
      try {
        const model = describeModel(session, options)
        open = { runtime, session, model }
        await warmUp(model.offered, options.warmUpBatch, infer)
        busyMs = 0
        const { task, offered: inputs, outputs } = model
        const versions = {
          onnxruntime: runtime.env.versions.node ?? 'unknown',
          provider: options.gpu === undefined ? 'cpu' : 'cuda',
          ...(!own && { weights: 'seeded' }),
        }
        return { task, inputs, outputs, versions, memoryMiB: memoryMiB() }
      } catch (error) {
        open = undefined
        await session.release()
        throw error
      }
    },
    infer,
    utilization: () => ({ busyMs, memoryMiB: memoryMiB() }),
    async close() {
      await open?.session.release()
      open = undefined
    },
  }
}

/** A tensor of the model: the server's view, and its own element type. */
interface OnnxSpec extends TensorSpec {
  readonly type: string
}
interface OnnxModel {
  readonly task: EngineInfo['task']
  readonly inputs: readonly OnnxSpec[]
  /**
   * Inputs that the server fills: all except the token types of a text model, which are zeros for a
   * single text.
   */
  readonly offered: readonly TensorSpec[]
  readonly outputs: readonly OnnxSpec[]
}

/**
 * @throws ModelError for tensors that the server does not support, and for a batch size that the
 * file does not support
 */
function describeModel(
  session: InferenceSession,
  { batchSize, sequenceLength }: EngineOptions,
): OnnxModel {
  const inputs = session.inputMetadata.map(describeTensor)
  const outputs = session.outputMetadata.map(describeTensor)
  const fixed = session.inputMetadata.find(
    (input) => input.isTensor && typeof input.shape[0] === 'number',
  )
  if (fixed?.isTensor && fixed.shape[0] !== batchSize)
    throw new ModelError(
      `input '${fixed.name}' of the ONNX model has a fixed first dimension of ${fixed.shape[0]}, so batches of up to ${batchSize} cannot run`,
      `export it with a dynamic batch axis (torch.onnx.export: dynamic_axes={'${fixed.name}': {0: 'batch'}})${fixed.shape[0] === 1 ? ', or pin batchSize to 1' : ''}`,
    )
  if (fixed !== undefined && batchSize > 1)
    throw new ModelError(
      `input '${fixed.name}' of the ONNX model takes batches of ${batchSize} and no smaller ones`,
      'export it with a dynamic batch axis',
    )
  const task = detectTask(inputs)
  const offered = (
    task === 'text'
      ? fixLength(inputs, sequenceLength).filter(({ name }) => name !== 'token_type_ids')
      : inputs
  ).map(({ name, datatype, shape }) => ({ name, datatype, shape }))
  return { task, inputs, offered, outputs }
}

function describeTensor(value: InferenceSession.ValueMetadata): OnnxSpec {
  if (!value.isTensor)
    throw new ModelError(
      `'${value.name}' of the ONNX model is not a tensor`,
      'export it with tensors only (skl2onnx: options={"zipmap": False})',
    )
  const shape = value.shape.map((d) => (typeof d === 'number' ? d : -1))
  if (shape.length === 0)
    throw new ModelError(
      `'${value.name}' of the ONNX model is a single number`,
      'inputs and outputs need the batch as their first dimension',
    )
  return {
    name: value.name,
    type: value.type,
    datatype: findDatatype(value.type, value.name),
    shape: [-1, ...shape.slice(1)],
  }
}

const countRows = (inputs: Tensors): number => Object.values(inputs)[0]!.shape[0]!

function createFeeds(
  { Tensor: Onnx }: Runtime,
  { inputs }: OnnxModel,
  tensors: Tensors,
): Record<string, OnnxTensor> {
  return Object.fromEntries(
    inputs.map(({ name, type }) => {
      const { data, shape } = tensors[name] ?? createZeros(tensors.input_ids!)
      return [name, new Onnx(type as 'float32', convertToOnnx(data, type) as Float32Array, shape)]
    }),
  )
}

const createZeros = ({ datatype, shape, data }: Tensor): Tensor => ({
  datatype,
  shape,
  data: new Int32Array(data.length),
})

/** @throws Error for an output without one row for each item */
function readOutputs(
  results: InferenceSession.OnnxValueMapType,
  { outputs }: OnnxModel,
  rows: number,
): Tensors {
  const tensors: Record<string, Tensor> = {}
  for (const { name, datatype, type } of outputs) {
    const output = results[name]!
    if (output.dims[0] !== rows)
      throw new Error(
        `output '${name}' is [${output.dims}] for a batch of ${rows}; outputs need the batch as their first dimension`,
      )
    tensors[name] = {
      datatype,
      shape: output.dims,
      data: convertFromOnnx(output.data as Float32Array, type, name),
    }
    output.dispose()
  }
  return tensors
}

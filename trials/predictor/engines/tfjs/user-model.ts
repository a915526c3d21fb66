/**
 * Loads users' models: TensorFlow.js graph and layers models, and SavedModels if TensorFlow is
 * installed.
 */
import { stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { type NamedTensorMap, type Tensor, zerosLike } from '@tensorflow/tfjs-core'
import type { EngineDatatype, TensorSpec } from '../../engine.ts'
import type { Model } from '../../models/model.ts'
import { ModelError } from '../../models/model-registry.ts'
import { detectTask, fixLength } from '../../models/task.ts'
import { type ModelFile, readModelFile } from './model-files.ts'
import type { Backend, SavedModelTensor } from './tfjs-backend.ts'

/**
 * Loads a model.json, the folder that holds one, or a SavedModel's folder.
 * @param sequenceLength tokens for a text model with a dynamic length
 * @throws ModelError for a missing or invalid file, or an unmet requirement of the model
 */
export async function loadUserModel(
  path: string,
  backend: Backend,
  sequenceLength: number,
): Promise<Model> {
  const found = await stat(path).catch(() => undefined)
  if (!found)
    throw new ModelError(
      `no model at '${path}'`,
      'pass the path of a model.json, of its folder, or of a SavedModel',
    )
  const has = async (file: string) =>
    found.isDirectory() && (await stat(join(path, file)).catch(() => undefined)) !== undefined
  const name = basename(found.isDirectory() ? path : dirname(path))
  if (await has('saved_model.pb'))
    return addTokenTypes(await loadSavedModel(name, path, backend, sequenceLength))
  const file = found.isDirectory() ? join(path, 'model.json') : path
  if (found.isDirectory() ? !(await has('model.json')) : !file.endsWith('.json'))
    throw new ModelError(
      `'${path}' is not a model that TensorFlow.js can load`,
      'it needs a model.json with its weight files (from tensorflowjs_converter) or a saved_model.pb',
    )
  const read = await readModelFile(file)
  const load = read.format === 'graph-model' ? loadGraph : loadLayers
  return addTokenTypes(await load(name, read, sequenceLength))
}

/** Feeds token types to a text model: zeros, the type of a single text. */
function addTokenTypes(model: Model): Model {
  const inputs = model.inputs.filter(({ name }) => name !== 'token_type_ids')
  if (model.task !== 'text' || inputs.length === model.inputs.length) return model
  return {
    ...model,
    inputs,
    async run(given) {
      const token_type_ids = zerosLike(given.input_ids!)
      try {
        return await model.run({ ...given, token_type_ids })
      } finally {
        token_type_ids.dispose()
      }
    },
  }
}

async function loadGraph(
  name: string,
  { handler, path }: ModelFile,
  sequenceLength: number,
): Promise<Model> {
  const { loadGraphModel } = await import('@tensorflow/tfjs-converter')
  const graph = await loadGraphModel(handler).catch((error: unknown) => {
    throw createLoadError(path, error)
  })
  const signature = (graph.modelSignature ?? {}) as { inputs?: Signature; outputs?: Signature }
  const inputs = graph.inputs.map((tensor) => describeTensor(tensor, path, signature.inputs))
  const outputs = graph.outputs.map((tensor) => describeTensor(tensor, path, signature.outputs))
  const targets = outputs.map(({ tensorName }) => tensorName)
  const feeds = (given: NamedTensorMap) =>
    Object.fromEntries(inputs.map(({ tensorName, spec }) => [tensorName, given[spec.name]!]))
  let dynamic = false
  return {
    ...describeModel(name, inputs, outputs, sequenceLength),
    parameters: Object.values(graph.weights).reduce(
      (sum, tensors) => sum + tensors.reduce((s, t) => s + t.size, 0),
      0,
    ),
    async run(given) {
      if (!dynamic)
        try {
          return nameOutputs(outputs, graph.execute(feeds(given), targets))
        } catch (error) {
          // Control flow and operations with value-dependent shapes run only asynchronously; the
          // library's error asks for executeAsync.
          if (!(error instanceof Error && error.message.includes('executeAsync'))) throw error
          dynamic = true
        }
      return nameOutputs(outputs, await graph.executeAsync(feeds(given), targets))
    },
    dispose: () => graph.dispose(),
  }
}

async function loadLayers(
  name: string,
  { handler, path }: ModelFile,
  sequenceLength: number,
): Promise<Model> {
  const { loadLayersModel } = await import('@tensorflow/tfjs-layers')
  const layers = await loadLayersModel(handler).catch((error: unknown) => {
    throw createLoadError(path, error)
  })
  const tensors = (
    symbolic: readonly { name: string; dtype: string; shape: readonly (number | null)[] }[],
  ) =>
    symbolic.map(({ name: full, dtype, shape }) =>
      describeTensor({ name: full, dtype, shape: shape.map((d) => d ?? -1) }, path),
    )
  const inputs = tensors(layers.inputs)
  const outputs = tensors(layers.outputs)
  return {
    ...describeModel(name, inputs, outputs, sequenceLength),
    parameters: layers.countParams(),
    run: (given) =>
      nameOutputs(outputs, layers.predictOnBatch(inputs.map(({ spec }) => given[spec.name]!))),
    dispose: () => void layers.dispose(),
  }
}

async function loadSavedModel(
  name: string,
  path: string,
  backend: Backend,
  sequenceLength: number,
): Promise<Model> {
  if (!backend.loadSavedModel)
    throw new ModelError(
      `'${path}' is a TensorFlow SavedModel, which needs @tensorflow/tfjs-node-gpu and a GPU`,
      'set a GPU where that is installed, or convert the model: tensorflowjs_converter --input_format=tf_saved_model',
    )
  const saved = await backend.loadSavedModel(path).catch((error: unknown) => {
    throw createLoadError(path, error)
  })
  const inputs = saved.inputs.map((tensor) => describeTensor(tensor, path))
  const outputs = saved.outputs.map((tensor) => describeTensor(tensor, path))
  return {
    ...describeModel(name, inputs, outputs, sequenceLength),
    parameters: 0,
    run(given) {
      const predicted = saved.predict(
        Object.fromEntries(inputs.map(({ tensorName, spec }) => [tensorName, given[spec.name]!])),
      )
      return 'dataId' in predicted
        ? nameOutputs(outputs, predicted as Tensor)
        : (predicted as NamedTensorMap)
    },
    dispose: () => saved.dispose(),
  }
}

const createLoadError = (path: string, error: unknown) =>
  error instanceof ModelError
    ? error
    : new ModelError(
        `'${path}' does not load: ${error instanceof Error ? error.message : String(error)}`,
        'convert it again, and check that TensorFlow.js supports all its operations',
      )

/** A tensor with the name that clients use, and the model's own. */
interface TensorDescription {
  readonly tensorName: string
  readonly spec: TensorSpec
}
type Signature = Readonly<Record<string, { readonly name?: string }>>

function describeTensor(
  { name, dtype, shape }: SavedModelTensor,
  path: string,
  signature: Signature = {},
): TensorDescription {
  const plain = name.replace(/:0$/, '')
  const signed = Object.entries(signature).find(
    ([, tensor]) => tensor.name?.replace(/:0$/, '') === plain,
  )
  const spec = {
    name: signed?.[0] ?? plain,
    datatype: findDatatype(dtype, name, path),
    shape: [-1, ...(shape ?? []).slice(1)],
  }
  return { tensorName: name, spec }
}

/**
 * Graphs without a signature leave outputs' types open: float32 then, which is checked when they
 * come.
 */
function findDatatype(dtype: string | undefined, name: string, path: string): EngineDatatype {
  if (dtype === 'float32' || dtype === undefined) return 'FP32'
  if (dtype === 'int32') return 'INT32'
  throw new ModelError(
    `tensor '${name}' of '${path}' has type ${dtype}`,
    'inputs and outputs must be float32 or int32',
  )
}

/** The common part of all users' models. */
function describeModel(
  name: string,
  inputs: readonly TensorDescription[],
  outputs: readonly TensorDescription[],
  sequenceLength: number,
) {
  const specs = inputs.map(({ spec }) => spec)
  const task = detectTask(specs)
  return {
    name,
    seeded: false,
    task,
    inputs: task === 'text' ? fixLength(specs, sequenceLength) : specs,
    outputs: outputs.map(({ spec }) => spec),
  }
}

function nameOutputs(
  outputs: readonly TensorDescription[],
  tensors: Tensor | Tensor[],
): NamedTensorMap {
  const list = Array.isArray(tensors) ? tensors : [tensors]
  return Object.fromEntries(outputs.map(({ spec }, i) => [spec.name, list[i]!]))
}

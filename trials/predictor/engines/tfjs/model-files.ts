/** Reads a model.json and its weight files. */
import { dirname, join } from 'node:path'
import { io } from '@tensorflow/tfjs-core'
import { z } from 'zod'
import { BoundError, readBytes, readText } from '../../../../profiler/bounded-reader.ts'
import { ModelError } from '../../models/model-registry.ts'

export interface ModelFile {
  readonly path: string
  readonly format: 'graph-model' | 'layers-model'
  readonly handler: io.IOHandler
}

const manifest = z.array(
  z
    .object({
      paths: z.array(z.string()),
      weights: z.array(z.object({ name: z.string() }).loose()),
    })
    .loose(),
)
const modelJson = z
  .object({
    format: z.string().optional(),
    modelTopology: z.record(z.string(), z.unknown()),
    weightsManifest: manifest,
  })
  .loose()

/**
 * @throws ModelError naming the file that is missing, no JSON, not a model, or shorter than its
 * weights.
 */
export async function readModelFile(path: string): Promise<ModelFile> {
  const json = modelJson.safeParse(
    parseJson(
      path,
      readFileOrThrow(path, () => readText(path, 'data')),
    ),
  )
  if (!json.success) {
    const [issue] = json.error.issues
    throw new ModelError(
      `'${path}' is not a TensorFlow.js model: ${issue!.path.join('.')} ${issue!.message}`,
      'write it with tensorflowjs_converter',
    )
  }
  const { format, modelTopology } = json.data
  return {
    path,
    format:
      format === 'graph-model' || (format !== 'layers-model' && 'node' in modelTopology)
        ? 'graph-model'
        : 'layers-model',
    handler: {
      load: () =>
        io.getModelArtifactsForJSON(json.data as unknown as io.ModelJSON, async (groups) => [
          groups.flatMap((group) => group.weights),
          readWeights(path, groups),
        ]),
    },
  }
}

function parseJson(path: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new ModelError(
      `'${path}' is not JSON: ${(error as Error).message}`,
      'write it with tensorflowjs_converter',
    )
  }
}

function readWeights(path: string, groups: io.WeightsManifestConfig): ArrayBuffer {
  const files = groups.flatMap((group) => group.paths)
  const paths = files.map((file) => join(dirname(path), file))
  const whole = Buffer.concat(
    paths.map((file) => readFileOrThrow(file, () => readBytes(file, 'model'))),
  )
  const expectedBytes = io
    .getWeightSpecs(groups)
    .reduce((bytes, { shape, dtype, quantization }) => {
      const element = quantization
        ? { uint8: 1, uint16: 2, float16: 2 }[quantization.dtype]
        : ({ bool: 1, string: 0 }[dtype as string] ?? 4)
      return bytes + element * shape.reduce((a, b) => a * b, 1)
    }, 0)
  if (whole.length < expectedBytes)
    throw new ModelError(
      `the weights of '${path}' have ${whole.length} bytes, but the model needs ${expectedBytes}`,
      `one of its weight files is incomplete: ${files.join(', ')}`,
    )
  return whole.buffer.slice(whole.byteOffset, whole.byteOffset + whole.length) as ArrayBuffer
}

/** @throws ModelError if it cannot be read, or is no file of a model's size */
function readFileOrThrow<T>(path: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof BoundError) throw new ModelError(error.message, error.hint)
    throw new ModelError(
      `cannot read '${path}'`,
      'put all weight files that model.json names into its folder',
    )
  }
}

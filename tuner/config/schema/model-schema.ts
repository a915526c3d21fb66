/** Schema of `model`: the model to serve. */

import { existsSync } from 'node:fs'
import { z } from 'zod'
import { absolutePath, createCodec, createQuantity, optional, path, text } from './schema-parts.ts'

/** A name on a hub, organisation/name, unless there is a file or folder of that path. */
const isHubName = (model: string): boolean =>
  /^[\w.-]+\/[\w.-]+$/.test(model) && !existsSync(absolutePath(model))
const modelKeys = z.strictObject({
  name: optional(text('a name'), 'name under which the model is served, e.g. bert'),
  architecture: optional(
    path('an architecture', (name) => !isDimensionsFile(name)),
    'architecture for the built-in predictor and the device model, or a file with its dimensions (Hugging Face config.json, or YAML), relative to this file; default: the name',
  ),
  path: optional(
    path('a path', isHubName),
    'your own model: a folder or file, relative to this file; default: the architecture with random weights',
  ),
  version: optional(
    createQuantity(String, 'a version', String),
    'version folder to serve; default: the latest',
  ),
})
type ModelEntry = z.output<typeof modelKeys>
export const model = z.union([createCodec(text('the name of a model'), readModel), modelKeys], {
  error: 'expected the name of a model, or {name, architecture, path, version}',
})

/** 'bert', 'models/mine', 'mine.onnx', 'mine.gguf', 'mine/config.json' (dimensions, no weights). */
function readModel(name: string): ModelEntry {
  if (isDimensionsFile(name)) return { architecture: absolutePath(name) }
  if (!/[/\\]|\.(onnx|gguf)$/.test(name)) return { name }
  return { path: isHubName(name) ? name : absolutePath(name) }
}

/** Whether the short form of `model` is read as a name and not as a path. */
export const isModelName = (model: string): boolean => 'name' in readModel(model)

/** Whether an architecture is a file of dimensions rather than a name. */
export const isDimensionsFile = (architecture: string): boolean =>
  /\.(json|ya?ml)$/i.test(architecture)

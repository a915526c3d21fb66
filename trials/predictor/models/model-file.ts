/** Finds the model file below a path of the user. */
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ModelError } from './model-registry.ts'

/**
 * Finds the file to open: the path itself, or in a folder its model.onnx (model.gguf), or its only
 * file of that kind.
 * @throws ModelError
 */
export async function findModelFile(path: string, ending: 'onnx' | 'gguf'): Promise<string> {
  const found = await stat(path).catch(() => undefined)
  if (!found)
    throw new ModelError(
      `no model at '${path}'`,
      `pass the path of ${ending === 'onnx' ? 'an' : 'a'} .${ending} file or of its folder`,
    )
  if (!found.isDirectory()) return path
  const files = (await readdir(path)).filter((name) => name.endsWith(`.${ending}`))
  const usual = `model.${ending}`
  const file = files.includes(usual) ? usual : files.length === 1 ? files[0] : undefined
  if (file === undefined)
    throw new ModelError(
      `the folder '${path}' contains ${files.length === 0 ? `no .${ending} file` : `several: ${files.join(', ')}`}`,
      `pass the path of the file, or rename the file to ${usual}`,
    )
  return join(path, file)
}

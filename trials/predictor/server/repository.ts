/** The versions of a model on disk, and those that the server serves. */
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { RequestError } from '../protocol/tensors.ts'
import type { ServedModel } from './served-model.ts'

/** One version to load: its number as text, and its folder if the user gave a path. */
export interface ModelVersion {
  readonly version: string
  readonly path?: string
}

/**
 * Chooses the versions to serve under a path, by policy (as TensorFlow Serving's): 'latest',
 * 'latest:N', 'all', 'specific:1,3'. A path without numbered folders, or no path, is version 1.
 * @throws Error when nothing is there to serve
 */
export async function chooseVersions(
  modelPath: string | undefined,
  policy: string,
): Promise<readonly ModelVersion[]> {
  const [kind, argument] = policy.split(':') as [string, string | undefined]
  const found = await listVersions(modelPath)
  if (kind === 'specific') {
    const wanted = [...new Set(argument!.split(',').map((version) => String(Number(version))))]
    const missing = wanted.filter((version) => !found.some((each) => each.version === version))
    if (missing.length > 0)
      throw new Error(
        `version ${missing.join(', ')} of ${modelPath ?? 'the built-in model'} does not exist; there is ${found.map((v) => v.version).join(', ')}`,
      )
    return found.filter(({ version }) => wanted.includes(version))
  }
  return kind === 'all' ? found : found.slice(-Number(argument ?? 1))
}

/** In ascending order. */
async function listVersions(modelPath: string | undefined): Promise<readonly ModelVersion[]> {
  if (modelPath === undefined) return [{ version: '1' }]
  const kind = await stat(modelPath).catch((error: NodeJS.ErrnoException) => {
    throw new Error(
      `cannot read the model path '${modelPath}': ${error.code === 'ENOENT' ? 'it does not exist' : error.message}`,
    )
  })
  if (!kind.isDirectory()) return [{ version: '1', path: modelPath }]
  const entries = await readdir(modelPath, { withFileTypes: true })
  const versions = entries
    .filter((entry) => entry.isDirectory() && /^\d+$/.test(entry.name))
    .map((entry) => ({ version: String(Number(entry.name)), path: join(modelPath, entry.name) }))
    .sort((a, b) => Number(a.version) - Number(b.version))
  return versions.length > 0 ? versions : [{ version: '1', path: modelPath }]
}

/** Served models: one model in one or more versions. */
export class ModelRepository {
  readonly #name: string
  #served: readonly ServedModel[] = []
  #draining = false

  constructor(name: string) {
    this.#name = name
  }

  /** All versions are loaded: from now on `ready`. */
  serve(versions: readonly ServedModel[]): void {
    this.#served = versions
  }

  /** Drains requests in flight; then nothing is served until `serve`. */
  async unload(): Promise<void> {
    const served = this.#served
    this.#served = []
    await Promise.all(served.map((each) => each.drain()))
  }

  get ready(): boolean {
    return this.#served.length > 0 && !this.#draining
  }
  get draining(): boolean {
    return this.#draining
  }
  /** In ascending order. */
  get versions(): readonly string[] {
    return this.#served.map((each) => each.info.version)
  }
  get retryAfterSeconds(): number {
    return Math.max(1, ...this.#served.map((each) => each.retryAfterSeconds))
  }
  /** Items waiting, all versions. */
  get waiting(): number {
    return this.#served.reduce((sum, each) => sum + each.waiting, 0)
  }

  /** @throws RequestError 404 for another model's name */
  checkName(model: string): void {
    if (model !== this.#name)
      throw new RequestError(404, `unknown model '${model}'; this predictor serves '${this.#name}'`)
  }

  /**
   * Finds the version asked for, or the newest.
   * @throws RequestError 404 for unknown names, 503 when loading or draining
   */
  find(model: string, version?: string): ServedModel {
    this.checkName(model)
    if (!this.ready)
      throw new RequestError(
        503,
        this.#draining ? 'the predictor is stopping' : `model '${model}' is loading`,
      )
    const found =
      version === undefined
        ? this.#served.at(-1)
        : this.#served.find((each) => each.info.version === version)
    if (!found)
      throw new RequestError(
        404,
        `model '${model}' has no version '${version}'; there is ${this.versions.join(', ')}`,
      )
    return found
  }

  /** Refuses new requests and resolves when those in flight are answered. */
  async drain(): Promise<void> {
    this.#draining = true
    await Promise.all(this.#served.map((each) => each.drain()))
  }
}

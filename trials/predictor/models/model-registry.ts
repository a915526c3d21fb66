/** The models the predictor can build without files, by the names the rest of the project uses. */
import { type Architecture, findArchitecture } from '../../devices/architecture.ts'
import { suggestNames } from '../../near-names.ts'
import { buildConvnet } from './convnet.ts'
import { buildEncoder } from './encoder.ts'
import type { Model } from './model.ts'
import { modelNames } from './model-names.ts'
import type { Pack } from './weights.ts'

/** A model that is neither built in nor loadable from its path. */
export class ModelError extends Error {
  constructor(message: string, hint: string) {
    super(`${message}; ${hint}`)
    this.name = 'ModelError'
  }
}

/**
 * Resolves the architecture of a built-in model, by name or alias ('bert' is bert-base).
 * @throws ModelError naming close names.
 */
export function resolveModel(name: string): Exclude<Architecture, { kind: 'decoder' | 'graph' }> {
  const found = findKnownArchitecture(name)
  if (
    found === undefined ||
    found.kind === 'decoder' ||
    found.kind === 'graph' ||
    !(modelNames as readonly string[]).includes(found.name)
  )
    throw new ModelError(
      `no built-in model '${name}' (pass your own model by its path)`,
      suggestNames(name, ['bert', ...modelNames]),
    )
  return found
}

function findKnownArchitecture(name: string): Architecture | undefined {
  try {
    return findArchitecture(name)
  } catch {
    return undefined // its error speaks of architectures to emulate, which are more than can be built here
  }
}

/**
 * Builds a built-in model with seeded weights on the backend in use.
 * @throws ModelError, RangeError for a sequence length
 */
export function buildModel(name: string, sequenceLength: number, seed: number, pack?: Pack): Model {
  const architecture = resolveModel(name)
  return architecture.kind === 'convnet'
    ? buildConvnet(architecture, seed)
    : buildEncoder(architecture, sequenceLength, seed, pack)
}

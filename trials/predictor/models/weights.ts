/**
 * Seeded weights for models without trained ones: real shapes, sound scales, the same numbers for
 * the same seed.
 */
import {
  dispose,
  ones,
  type Tensor,
  type Tensor1D,
  type Tensor2D,
  tensor,
  zeros,
} from '@tensorflow/tfjs-core'

/** 'ones', 'zeros', or zero-mean noise of a standard deviation. */
type Initial = 'ones' | 'zeros' | { readonly deviation: number }

/**
 * Uniform noise with mean 0 and the given standard deviation, with a separate stream for each name.
 * Uniform rather than normal noise is fast (100 million in 0.5 s), and the time of matrix products
 * does not depend on it. Generator: mulberry32 (T. Ettinger), seeded by FNV-1a of seed and name.
 */
export function createSeededNoise(
  seed: number,
  name: string,
  size: number,
  deviation: number,
): Float32Array {
  let state = fnv1a(`${seed}/${name}`)
  const values = new Float32Array(size)
  const scale = (deviation * Math.sqrt(12)) / 2 ** 32
  for (let i = 0; i < size; i++) {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    values[i] = (((t ^ (t >>> 14)) >>> 0) - 2 ** 31) * scale
  }
  return values
}

function fnv1a(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash
}

/** A dense layer: rows×from to rows×to is x W + b. */
export interface Dense {
  readonly kernel: Tensor2D
  readonly bias: Tensor1D
  readonly activation?: 'relu'
}

/**
 * Called with a dense layer whose weights are used only for its products, so that a backend with a
 * packed copy may free them.
 */
export type Pack = (dense: Dense) => void

/** Creates a model's weights and counts them. */
export class SeededWeights {
  readonly #seed: number
  readonly #pack: Pack | undefined
  readonly #tensors: Tensor[] = []
  parameters = 0

  constructor(seed: number, pack?: Pack) {
    this.#seed = seed
    this.#pack = pack
  }

  dense(name: string, from: number, to: number, deviation: number, activation?: 'relu'): Dense {
    const made: Dense = {
      kernel: this.tensor(`${name}/kernel`, [from, to], { deviation }),
      bias: this.tensor(`${name}/bias`, [to], { deviation }),
      activation,
    }
    this.#pack?.(made)
    return made
  }

  tensor<T extends Tensor>(name: string, shape: number[], initial: Initial): T {
    const size = shape.reduce((a, b) => a * b, 1)
    this.parameters += size
    const made =
      initial === 'ones'
        ? ones(shape)
        : initial === 'zeros'
          ? zeros(shape)
          : tensor(createSeededNoise(this.#seed, name, size, initial.deviation), shape, 'float32')
    this.#tensors.push(made)
    return made as T
  }

  /** Frees one tensor early; it stays counted. */
  release(released: Tensor): void {
    this.#tensors.splice(this.#tensors.indexOf(released), 1)
    released.dispose()
  }

  /** Takes over a tensor made from weights, to be disposed with them. */
  keep<T extends Tensor>(derived: T): T {
    this.#tensors.push(derived)
    return derived
  }

  dispose(): void {
    dispose(this.#tensors.splice(0))
  }
}

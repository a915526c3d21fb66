/** What one call asks of a device, whatever the model. */

/**
 * A matrix product [rows × depth] × [depth × columns], done `count` times, a convolution being one
 * by its output pixels.
 */
export interface Product {
  readonly rows: number
  readonly columns: number
  readonly depth: number
  readonly count: number
  /** A 3 × 3 convolution of stride 1, which CUDA cores do by Winograd's algorithm. */
  readonly winograd?: boolean
  readonly convolution?: boolean
}

export interface Work {
  /** Kernels a compiled engine launches, about. */
  readonly kernels: number
  readonly products: readonly Product[]
  /**
   * Fused attention: `count` launches, each of `blocks` thread blocks of `flopsPerBlock`
   * operations.
   */
  readonly attention?: readonly {
    readonly count: number
    readonly blocks: number
    readonly flopsPerBlock: number
  }[]
  /** Bytes of one weight. */
  readonly weightElementBytes: number
  /** Activations to and from memory, when nothing stays in the cache. */
  readonly activationBytes: number
  /**
   * What one kernel reads and writes, typically: beside the cache, it tells how much of the traffic
   * stays in it.
   */
  readonly workingSetBytes: number
  /** Keys and values read from their cache (decoding only). */
  readonly kvBytes: number
}

/** Operations of a call, 2 × multiply-accumulates, attention included. */
export const flopsOf = ({
  products,
  attention = [],
}: Pick<Work, 'products' | 'attention'>): number =>
  products.reduce((sum, p) => sum + 2 * p.rows * p.columns * p.depth * p.count, 0) +
  attention.reduce((sum, a) => sum + a.count * a.blocks * a.flopsPerBlock, 0)

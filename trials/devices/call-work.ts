/** The work of one inference call on a device, independent of the model. */

/**
 * A matrix product [rows × depth] × [depth × columns], executed `count` times. A convolution has a
 * row for each output pixel.
 */
export interface MatrixProduct {
  readonly rows: number
  readonly columns: number
  readonly depth: number
  readonly count: number
  /** A 3 × 3 convolution of stride 1, for which CUDA cores use Winograd's algorithm. */
  readonly winograd?: boolean
  readonly convolution?: boolean
}

export interface Work {
  /** Approximate number of kernels that a compiled engine launches. */
  readonly kernels: number
  readonly products: readonly MatrixProduct[]
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
  /** Activation traffic to and from memory without a cache. */
  readonly activationBytes: number
  /**
   * Typical traffic of one kernel. Compared with the cache size, it determines the share of cache
   * hits.
   */
  readonly workingSetBytes: number
  /** Bytes read from the key-value cache (decoding only). */
  readonly kvBytes: number
}

/** Operations of a call, 2 × multiply-accumulates, attention included. */
export const countFlops = ({
  products,
  attention = [],
}: Pick<Work, 'products' | 'attention'>): number =>
  products.reduce((sum, p) => sum + 2 * p.rows * p.columns * p.depth * p.count, 0) +
  attention.reduce((sum, a) => sum + a.count * a.blocks * a.flopsPerBlock, 0)

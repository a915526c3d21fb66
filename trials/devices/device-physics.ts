/**
 * Latency from first principles: a sum of launches, products, attention and memory traffic, with
 * the few coefficients that calibration fits.
 *
 * ```
 * latency = kernels × launch / clock                           launches
 *         + Σ max(waves × tile / rate, weights / bandwidth)    matrix products (GEMMs), in tiles
 *         + Σ waves × block / rate                             attention, in thread blocks
 *         + activations × miss / bandwidth                     traffic that the cache does not hold
 *         + KV cache / bandwidth                               keys and values read while decoding
 * rate    = efficiency × peak, no more than the power budget allows
 * waves   = tiles or blocks / multiprocessors, rounded up in part
 * ```
 */

import type { Work } from './call-work.ts'
import { type Gpu, type Precision, resolvePrecision } from './catalogue.ts'

/** Coefficients for all GPUs, fitted to published tables by `npm run calibrate`. */
export interface Physics {
  /** Time of a kernel launch at 1.5 GHz, µs. */
  readonly launchUs: number
  /** Part of the dense peak that large products (GEMMs) reach. */
  readonly productEfficiency: number
  /** Efficiency of convolutions relative to products. */
  readonly convolutionFactor: number
  /** Efficiency of fused attention relative to products. */
  readonly attentionEfficiency: number
  /** Share of the datasheet bandwidth that activation traffic reaches. */
  readonly bandwidthEfficiency: number
  /**
   * fp16 TFLOP/s that one watt sustains at 12 nm; in proportion to 12 nm / process, and to the
   * width of the type.
   */
  readonly tflopsPerWatt: number
  /** Working sets up to about this multiple of the cache size stay in the cache. */
  readonly cacheReach: number
  /** Efficiency of int8 products relative to fp16 ones, each against its peak. */
  readonly int8Efficiency: number
  /** Speed of int8 attention relative to fp16 attention. */
  readonly int8AttentionGain: number
  /** 1: a started wave costs a whole one; 0: waves are continuous. */
  readonly waveQuantisation: number
}

/**
 * Deviation of one GPU from the common coefficients, as logarithms; zero without published tables.
 */
export interface Deviation {
  readonly compute: number
  readonly launch: number
  readonly bandwidth: number
  readonly precision: Readonly<Partial<Record<Precision, number>>>
}

export const noDeviation: Deviation = { compute: 0, launch: 0, bandwidth: 0, precision: {} }

/** The parts of a latency, ms. */
interface LatencyParts {
  readonly launchMs: number
  readonly computeMs: number
  readonly memoryMs: number
}

/** Output tiles, with their efficiency relative to the largest. */
const tiles = [
  { rows: 256, columns: 128, efficiency: 1 },
  { rows: 128, columns: 128, efficiency: 0.95 },
  { rows: 128, columns: 64, efficiency: 0.85 },
  { rows: 64, columns: 64, efficiency: 0.7 },
  { rows: 16, columns: 64, efficiency: 0.35 },
] as const
/** CUDA cores need no tensor-core tiles. */
const scalarTiles = [...tiles, { rows: 32, columns: 32, efficiency: 0.5 }] as const
/**
 * F(2 × 2, 3 × 3) needs 4/9 of the multiplications (Lavin and Gray 2015); its transforms cost part
 * of the gain.
 */
const winogradGain = 1.8

/** Share of the datasheet bandwidth at which products read their weights. */
const weightBandwidth = 0.85
/** Share of the bandwidth at which attention reads a paged cache. */
const cacheBandwidth = 0.5

/**
 * Resolves the precision that runtimes execute: where int8 products are not faster than fp16, fp16.
 */
export function resolveExecutedPrecision(
  gpu: Gpu,
  requested: Precision,
): { precision: Precision; tflops: number } {
  const effective = resolvePrecision(gpu, requested)
  const half = gpu.peakTflops.fp16
  return effective.precision === 'int8' && half !== undefined && half >= effective.tflops
    ? { precision: 'fp16', tflops: half }
    : effective
}

const processNm: Readonly<Record<string, number>> = {
  Kepler: 28,
  Maxwell: 28,
  Pascal: 16,
  Volta: 12,
  Turing: 12,
  Ampere: 8,
  Ada: 5,
  Hopper: 5,
  Blackwell: 5,
  RDNA3: 5,
  CDNA: 7,
  CDNA2: 6,
  CDNA3: 5,
  CDNA4: 3,
  'Xe-HPC': 6,
}
/** GA100 is made at 7 nm, the other Ampere chips at 8. */
export const findProcessNm = (gpu: Pick<Gpu, 'name' | 'generation' | 'processNm'>): number =>
  gpu.processNm ?? (/^A(100|30)/.test(gpu.name) ? 7 : (processNm[gpu.generation] ?? 8))

/** Operations per joule relative to fp16. */
const relativeOpsPerJoule: Readonly<Record<Precision, number>> = {
  fp32: 0.25,
  tf32: 0.5,
  fp16: 1,
  bf16: 1,
  int8: 2,
  fp8: 2,
}

/** Computes the TFLOP/s that the board's power sustains. */
export const limitTflopsByPower = (
  gpu: Gpu,
  precision: Precision,
  { tflopsPerWatt }: Pick<Physics, 'tflopsPerWatt'>,
): number =>
  tflopsPerWatt * gpu.tdpWatts * relativeOpsPerJoule[precision] * (12 / findProcessNm(gpu))

/**
 * Time of the work on a whole GPU at the precision it is executed in (`resolveExecutedPrecision`).
 * @param convolutional the products are convolutions
 */
export function computeLatencyParts(
  work: Work,
  gpu: Gpu,
  executed: { readonly precision: Precision; readonly tflops: number },
  physics: Physics,
  deviation: Deviation,
  convolutional: boolean,
): LatencyParts {
  const { precision, tflops } = executed
  const isScalar = precision === 'fp32'
  const isNarrow = precision === 'int8' || precision === 'fp8'
  // Bytes per ms at a part of the bandwidth.
  const bandwidthAt = (efficiency: number) =>
    gpu.bandwidthGBs * 1e6 * Math.min(1, efficiency * Math.exp(deviation.bandwidth))
  const efficiency =
    physics.productEfficiency *
    (convolutional ? physics.convolutionFactor : 1) *
    (isNarrow ? physics.int8Efficiency : 1)
  const unlimitedTflops = efficiency * tflops
  const powerLimitTflops = limitTflopsByPower(gpu, precision, physics)
  // Smooth minimum of both limits (4-norm).
  const reachedTflops = unlimitedTflops * (1 + (unlimitedTflops / powerLimitTflops) ** 4) ** -0.25
  const rate =
    reachedTflops * 1e9 * Math.exp(deviation.compute + (deviation.precision[precision] ?? 0)) // operations per ms
  const ratePerMultiprocessor = rate / gpu.multiprocessors
  const quantisation = physics.waveQuantisation
  const waves = (blocks: number) => {
    const exact = blocks / gpu.multiprocessors
    return quantisation * Math.ceil(exact) + (1 - quantisation) * Math.max(exact, 1)
  }

  let computeMs = 0
  for (const { rows, columns, depth, count, winograd } of work.products) {
    let tilesMs = Number.POSITIVE_INFINITY
    const gain = isScalar && winograd ? winogradGain : 1
    for (const tile of isScalar ? scalarTiles : tiles) {
      const blocks = Math.ceil(rows / tile.rows) * Math.ceil(columns / tile.columns)
      tilesMs = Math.min(
        tilesMs,
        (waves(blocks) * 2 * tile.rows * tile.columns * depth) /
          (ratePerMultiprocessor * tile.efficiency * gain),
      )
    }
    const weightsMs = (columns * depth * work.weightElementBytes) / bandwidthAt(weightBandwidth)
    computeMs += count * Math.max(tilesMs, weightsMs)
  }
  for (const { count, blocks, flopsPerBlock } of work.attention ?? []) {
    // `rate` includes int8's nominally doubled peak and its efficiency: divide them out, so that
    // attention runs at int8AttentionGain times its fp16 speed.
    const gain = isNarrow ? physics.int8AttentionGain / (2 * physics.int8Efficiency) : 1
    computeMs +=
      (count * waves(blocks) * flopsPerBlock) /
      (physics.attentionEfficiency * ratePerMultiprocessor * gain)
  }
  const missShare = 1 - Math.exp(-work.workingSetBytes / (physics.cacheReach * gpu.l2MiB * 1e6))
  return {
    launchMs:
      ((work.kernels * physics.launchUs) / 1e3) *
      Math.exp(deviation.launch) *
      (1500 / gpu.boostMhz),
    computeMs,
    memoryMs:
      (work.activationBytes * missShare) / bandwidthAt(physics.bandwidthEfficiency) +
      work.kvBytes / bandwidthAt(cacheBandwidth),
  }
}

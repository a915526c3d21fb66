/**
 * The calibrated device model: coefficients, residuals and errors, all written by `npm run
 * calibrate`.
 */
import type { Gpu } from './catalogue.ts'
import coefficients from './coefficients.json' with { type: 'json' }
import type { Deviation, Physics } from './device-physics.ts'
import type { ResidualBlock } from './residual.ts'

/**
 * A framework that runs the model itself or around a compiled engine: latency = max(floor +
 * floorPerItem × batch, slowdown × device) + host.
 */
export interface Runtime {
  readonly hostMs: number
  readonly floorMs: number
  /** Time of input pipeline and copies for each item. */
  readonly floorPerItemMs: number
  readonly slowdown: number
  /** GPUs on which it was measured, by their names in the tables. */
  readonly gpus: readonly string[]
}

export interface Coefficients {
  readonly physics: Physics
  readonly deviations: Readonly<Record<string, Deviation>>
  readonly residuals: readonly ResidualBlock[]
  readonly runtimes: Readonly<Record<string, Runtime>>
  /** Models whose latency was measured at several shares of a GPU under MPS. */
  readonly shareCurves: readonly ShareCurve[]
  /** Relative errors (68 % quantiles) on held-out tables. */
  readonly errors: {
    /** GPU and kind of model in the tables; another batch, length or width. */
    readonly calibrated: number
    /** GPU in the tables; another model. */
    readonly otherModel: number
    /** GPU in the tables; a kind of model that was not measured on it. */
    readonly otherKind: number
    /** GPU in no table. */
    readonly otherGpu: number
    /** GPU in no table, of which only memory, bandwidth and peak rates are known. */
    readonly datasheetGpu: number
    /** A convolutional network in TensorRT itself: those of the tables ran inside a framework. */
    readonly engine: number
    /** A framework that runs layer by layer, on a GPU where it was not measured. */
    readonly framework: number
    /**
     * Slowdown by a share under MPS, for a model with a share curve; `otherShare` for any other.
     */
    readonly share: number
    readonly otherShare: number
    readonly memory: number
  }
  readonly memory: MemoryCoefficients
}

/**
 * latency = fixed + fixedPerItem × batch + (shared + sharedPerItem × batch) / share^exponent, ms
 * (after iGniter, TPDS '22, eq. 4).
 */
export interface ShareCurve {
  readonly gpu: string
  readonly model: string
  readonly precision: string
  readonly fixedMs: number
  readonly fixedPerItemMs: number
  readonly sharedMs: number
  readonly sharedPerItemMs: number
  readonly exponent: number
}

export const evaluateShareCurve = (curve: ShareCurve, batch: number, share: number): number =>
  curve.fixedMs +
  curve.fixedPerItemMs * batch +
  (curve.sharedMs + curve.sharedPerItemMs * batch) / share ** curve.exponent

export interface MemoryCoefficients {
  /** CUDA context and libraries: 300-400 MiB as nvidia-smi shows them. */
  readonly contextMiB: number
  /** Context memory on GPUs up to the Pascal generation, with drivers of that time. */
  readonly contextUpToPascalMiB: number
  /**
   * Frameworks that store every activation: stored bytes over the outputs of all layers, fitted.
   */
  readonly storedActivationRatio: number
}

export const calibratedCoefficients = coefficients as unknown as Coefficients

/** GPUs that differ only in memory size: the tables of one apply to the other. */
const equivalentGpus: Readonly<Record<string, string>> = {
  'V100-32GB': 'V100',
  'A100-80GB': 'A100-40GB',
}

/** Finds the name of this GPU in the tables; undefined if it is not in them. */
export const findTableName = (
  { name }: Gpu,
  { deviations }: Pick<Coefficients, 'deviations'>,
): string | undefined =>
  [name, equivalentGpus[name]].find(
    (known) => known !== undefined && deviations[known] !== undefined,
  )

/** Whether the figures of this GPU rest on published tables of it or of an equivalent GPU. */
export const isCalibrated = (gpu: Gpu, with_: Coefficients = calibratedCoefficients): boolean =>
  findTableName(gpu, with_) !== undefined

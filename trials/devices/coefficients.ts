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
  /** Input pipelines and copies that the framework does for each item. */
  readonly floorPerItemMs: number
  readonly slowdown: number
  /** GPUs that it was measured on, by the names of the tables. */
  readonly gpus: readonly string[]
}

export interface Coefficients {
  readonly physics: Physics
  readonly deviations: Readonly<Record<string, Deviation>>
  readonly residuals: readonly ResidualBlock[]
  readonly runtimes: Readonly<Record<string, Runtime>>
  /** Models whose latency was measured at several shares of a GPU under MPS. */
  readonly shareCurves: readonly ShareCurve[]
  /**
   * Relative errors (68 % of predictions lie within), each from tables that the fit had not seen.
   */
  readonly errors: {
    /** A GPU and kind of model in the tables, at another batch, length or width. */
    readonly calibrated: number
    /** A GPU in the tables, another model. */
    readonly otherModel: number
    /** A GPU in the tables, a kind of model that they do not have of it. */
    readonly otherKind: number
    /** A GPU in no table. */
    readonly otherGpu: number
    /** The same, of which memory, bandwidth and peaks alone are known. */
    readonly bareGpu: number
    /**
     * A convolutional network in TensorRT by itself: those of the tables ran inside a framework.
     */
    readonly engine: number
    /** A framework that runs layer by layer, on a GPU where it was not measured. */
    readonly framework: number
    /** The slowdown by a share under MPS: of a model with a share curve, and of any other. */
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

export const shareCurveMs = (curve: ShareCurve, batch: number, share: number): number =>
  curve.fixedMs +
  curve.fixedPerItemMs * batch +
  (curve.sharedMs + curve.sharedPerItemMs * batch) / share ** curve.exponent

export interface MemoryCoefficients {
  /** CUDA context and libraries: 300-400 MiB as nvidia-smi shows them. */
  readonly contextMiB: number
  /** The same on GPUs up to the Pascal generation with the drivers of their time. */
  readonly contextUpToPascalMiB: number
  /** Frameworks that keep every activation: kept bytes against the sum over layers. */
  readonly keptActivations: number
}

export const calibration = coefficients as unknown as Coefficients

/**
 * Modules of one silicon at one clock and power, whose memory differs: the tables of one are those
 * of the other.
 */
const twins: Readonly<Record<string, string>> = { 'V100-32GB': 'V100', 'A100-80GB': 'A100-40GB' }

/** By which name the tables have this GPU; undefined: they do not. */
export const tablesOf = (
  { name }: Gpu,
  { deviations }: Pick<Coefficients, 'deviations'>,
): string | undefined =>
  [name, twins[name]].find((known) => known !== undefined && deviations[known] !== undefined)

/** Whether published tables of this GPU, or of its twin, are behind its figures. */
export const isCalibrated = (gpu: Gpu, with_: Coefficients = calibration): boolean =>
  tablesOf(gpu, with_) !== undefined

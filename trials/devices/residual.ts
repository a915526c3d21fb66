/**
 * A Gaussian process over the residuals of the physical model on the tables of one GPU, precision
 * and kind of model.
 */
import { matern52 } from '../../search/gp/kernel.ts'
import { type Architecture, type CallShape, defaultSequenceLength } from './architecture.ts'
import { countFlops } from './call-work.ts'
import { loadMatrix } from './matrix.ts'
import { countWork } from './work.ts'

/** One measured configuration with its residual. */
export interface ResidualPoint {
  /** From `computeResidualFeatures`. */
  readonly features: readonly [number, number, number]
  readonly logRatio: number
}
/** The measured configurations of one GPU, executed precision and kind of architecture. */
export interface ResidualBlock {
  readonly gpu: string
  readonly precision: string
  readonly kind: Architecture['kind']
  readonly points: readonly ResidualPoint[]
}

/**
 * Standard deviations of the residual, and of the noise of published figures; both of logarithms.
 */
const residualSd = 0.08
export const tableNoiseSd = 0.02

/** Logarithms of batch, length and model width, divided by their length scales (1.2, 0.8, 0.6). */
export function computeResidualFeatures(
  architecture: Architecture,
  shape: CallShape,
): readonly [number, number, number] {
  const image = architecture.kind === 'convnet' || architecture.kind === 'graph'
  const length = image
    ? (shape.imageSize ?? architecture.imageSize)
    : (shape.sequenceLength ?? defaultSequenceLength)
  const width = image
    ? countFlops(countWork(architecture, { batch: 1 }, 'fp16')) ** 0.5
    : architecture.hidden
  return [Math.log(shape.batch) / 1.2, Math.log(length) / 0.8, Math.log(width) / 0.6]
}

/** Matérn-5/2 covariance of two residuals. */
const kernel = (a: readonly number[], b: readonly number[]): number =>
  residualSd ** 2 * matern52(a.reduce((sum, v, i) => sum + (v - b[i]!) ** 2, 0))

export interface Correction {
  /** Added to the logarithm of the physical latency. */
  readonly logRatio: number
  /** Posterior over prior standard deviation: 0 at a measured point, 1 far from all. */
  readonly relativeSd: number
}
export const noCorrection: Correction = { logRatio: 0, relativeSd: 1 }

/** Fits the posterior of one block (Rasmussen and Williams 2006, eqs. 2.25 and 2.26). */
export function fitResidualPosterior(
  points: readonly ResidualPoint[],
): (at: readonly number[]) => Correction {
  const { CholeskyDecomposition, Matrix } = loadMatrix()
  const covariance = new Matrix(
    points.map((p, i) =>
      points.map((q, j) => kernel(p.features, q.features) + (i === j ? tableNoiseSd ** 2 : 0)),
    ),
  )
  const cholesky = new CholeskyDecomposition(covariance)
  const weights = cholesky.solve(Matrix.columnVector(points.map((p) => p.logRatio))).to1DArray()
  return (at) => {
    const k = points.map((p) => kernel(at, p.features))
    const solved = cholesky.solve(Matrix.columnVector(k)).to1DArray()
    const variance = residualSd ** 2 - k.reduce((sum, v, i) => sum + v * solved[i]!, 0)
    return {
      logRatio: k.reduce((sum, v, i) => sum + v * weights[i]!, 0),
      relativeSd: Math.sqrt(Math.max(0, variance)) / residualSd,
    }
  }
}

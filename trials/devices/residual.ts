/**
 * What published tables say beyond the physics: a Gaussian process over the residuals of one GPU,
 * precision and kind of model.
 */
import { matern52 } from '../../search/gp/kernel.ts'
import { type Architecture, type CallShape, defaultSequenceLength } from './architecture.ts'
import { flopsOf } from './call-work.ts'
import { loadMatrix } from './matrix.ts'
import { workOf } from './work.ts'

/** One measured configuration and ln(measured / physics). */
export interface ResidualPoint {
  /** `residualFeatures` of it. */
  readonly at: readonly [number, number, number]
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
 * Standard deviation of the residual, and of the published figures around their truth; both of
 * logarithms.
 */
const signal = 0.08
export const tableNoise = 0.02

/**
 * Where a call lies: batch, length and width of the model, in length scales (ln batch 1.2, ln
 * length 0.8, ln width 0.6).
 */
export function residualFeatures(
  architecture: Architecture,
  shape: CallShape,
): readonly [number, number, number] {
  const image = architecture.kind === 'convnet' || architecture.kind === 'graph'
  const length = image
    ? (shape.imageSize ?? architecture.imageSize)
    : (shape.sequenceLength ?? defaultSequenceLength)
  const width = image
    ? flopsOf(workOf(architecture, { batch: 1 }, 'fp16')) ** 0.5
    : architecture.hidden
  return [Math.log(shape.batch) / 1.2, Math.log(length) / 0.8, Math.log(width) / 0.6]
}

/** Matérn-5/2 with the signal's variance. */
const kernel = (a: readonly number[], b: readonly number[]): number =>
  signal ** 2 * matern52(a.reduce((sum, v, i) => sum + (v - b[i]!) ** 2, 0))

export interface Correction {
  /** To add to ln(physics). */
  readonly logRatio: number
  /** 0: measured here; 1: nothing measured near. */
  readonly ignorance: number
}
export const noCorrection: Correction = { logRatio: 0, ignorance: 1 }

/** The posterior of one block (Rasmussen and Williams 2006, eqs. 2.25 and 2.26). */
export function residualPosterior(
  points: readonly ResidualPoint[],
): (at: readonly number[]) => Correction {
  const { CholeskyDecomposition, Matrix } = loadMatrix()
  const covariance = new Matrix(
    points.map((p, i) =>
      points.map((q, j) => kernel(p.at, q.at) + (i === j ? tableNoise ** 2 : 0)),
    ),
  )
  const cholesky = new CholeskyDecomposition(covariance)
  const weights = cholesky.solve(Matrix.columnVector(points.map((p) => p.logRatio))).to1DArray()
  return (at) => {
    const k = points.map((p) => kernel(at, p.at))
    const solved = cholesky.solve(Matrix.columnVector(k)).to1DArray()
    const variance = signal ** 2 - k.reduce((sum, v, i) => sum + v * solved[i]!, 0)
    return {
      logRatio: k.reduce((sum, v, i) => sum + v * weights[i]!, 0),
      ignorance: Math.sqrt(Math.max(0, variance)) / signal,
    }
  }
}

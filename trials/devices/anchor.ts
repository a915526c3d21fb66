/**
 * The device model of one server: a few of its own latencies, batch by batch, fit what it adds to
 * the device.
 *
 *   latency = host + hostPerItem × batch + max(floor, processes × level × (batch / 8)^slope ×
 *   device)
 *
 * The host works while the GPU waits; launching kernels hides behind them or holds them up (the
 * floor); processes that share a GPU take turns.
 */
import { leastSquares } from './calibration/least-squares.ts'
import { loadMatrix } from './matrix.ts'

/** One measured size. */
export interface AnchorPoint {
  readonly batch: number
  /** Of one batch, with nothing else under way. */
  readonly latencyMs: number
}

/** What a server adds to the device, fitted; logarithms but for the slope. */
export interface Anchored {
  /** ln host ms, ln host ms per item, ln floor ms, ln level, slope over ln batch (5). */
  readonly at: readonly number[]
  /**
   * How unsure: `at` + scatter × z, with z standard normal, is a server that the points allow (5 ×
   * 5, lower triangle).
   */
  readonly scatter: readonly (readonly number[])[]
}

/**
 * Typical values and how far, in logarithms, a server may lie from them: eager frameworks, compiled
 * engines, in-process tokenizers.
 */
const start = [Math.log(0.3), Math.log(0.1), Math.log(2), Math.log(1.5), 0] as const
const priorSd = [1.5, 2, 1.2, 0.7, 0.08] as const
/** A single latency against the smooth law, as a standard deviation of its logarithm. */
const anchorNoise = 0.05

const pivot = 8
const sharpness = 6

/**
 * Latency of a batch, ms.
 * @param deviceMs what the device model says of the batch on this GPU or slice
 * @param processes that share it, each with a batch under way
 */
export function anchoredMs(
  at: readonly number[],
  batch: number,
  deviceMs: number,
  processes = 1,
): number {
  const [host, perItem, floor, level, slope] = at as readonly [
    number,
    number,
    number,
    number,
    number,
  ]
  const device = processes * Math.exp(level + slope * Math.log(batch / pivot)) * deviceMs
  // A smooth maximum: kernels are held up in part before they are held up altogether.
  const larger = Math.max(Math.exp(floor), device)
  const running =
    larger *
    ((Math.exp(floor) / larger) ** sharpness + (device / larger) ** sharpness) ** (1 / sharpness)
  return Math.exp(host) + Math.exp(perItem) * batch + running
}

/**
 * The most probable server behind the points (maximum a posteriori, Gauss-Newton; its covariance is
 * the inverse Hessian, Laplace's approximation).
 * @param deviceMs the device model at each point's batch (n)
 */
export function fitAnchor(
  points: readonly (AnchorPoint & { readonly deviceMs: number; readonly processes?: number })[],
): Anchored {
  const data = (at: readonly number[]) =>
    Float64Array.from(
      points,
      (p) => Math.log(anchoredMs(at, p.batch, p.deviceMs, p.processes) / p.latencyMs) / anchorNoise,
    )
  const at = leastSquares({ start: [...start], priorSd, data })
  const { CholeskyDecomposition, inverse, Matrix } = loadMatrix()
  const precision = Matrix.zeros(at.length, at.length)
  const gradients = points.map((p) => gradientOf(at, p.batch, p.deviceMs, p.processes))
  for (let j = 0; j < at.length; j++)
    for (let k = 0; k < at.length; k++)
      precision.set(
        j,
        k,
        gradients.reduce((sum, g) => sum + (g[j]! * g[k]!) / anchorNoise ** 2, 0) +
          (j === k ? 1 / priorSd[j]! ** 2 : 0),
      )
  const covariance = inverse(precision)
  const symmetric = Matrix.add(covariance, covariance.transpose()).mul(0.5)
  return { at, scatter: new CholeskyDecomposition(symmetric).lowerTriangularMatrix.to2DArray() }
}

/** The fit's numbers moved by standard normals within what the points allow (5). */
export const movedAnchor = ({ at, scatter }: Anchored, z: readonly number[]): readonly number[] =>
  at.map((value, j) => value + scatter[j]!.reduce((sum, s, k) => sum + s * z[k]!, 0))

/** ∂ ln(latency) / ∂ at (5), by forward differences. */
function gradientOf(
  at: readonly number[],
  batch: number,
  deviceMs: number,
  processes = 1,
): number[] {
  const h = 1e-4
  const base = Math.log(anchoredMs(at, batch, deviceMs, processes))
  return at.map((_, j) => {
    const moved = at.map((v, k) => (k === j ? v + h : v))
    return (Math.log(anchoredMs(moved, batch, deviceMs, processes)) - base) / h
  })
}

/** ∂ ln(latency) / ∂ ln(device): how much of the latency is the device's. */
export const deviceSensitivity = (
  at: readonly number[],
  batch: number,
  deviceMs: number,
  processes = 1,
): number => gradientOf(at, batch, deviceMs, processes)[3]!

/** Standard deviation of ln(latency) that the points leave, their own noise included. */
export function anchorError(
  { at, scatter }: Anchored,
  batch: number,
  deviceMs: number,
  processes = 1,
): number {
  const g = gradientOf(at, batch, deviceMs, processes)
  return Math.hypot(
    anchorNoise,
    ...at.map((_, k) => g.reduce((sum, a, j) => sum + a * scatter[j]![k]!, 0)),
  )
}

/** MiB = fixed + perItem × batch. */
export interface ServerMemory {
  readonly fixedMiB: number
  readonly perItemMiB: number
}

/**
 * The line through readings of GPU memory; frameworks keep what their largest batch took, so that
 * it never falls.
 * @param readings at ascending batches (n); undefined with fewer than two sizes
 */
export function fitServerMemory(
  readings: readonly { readonly batch: number; readonly gpuMemoryMiB: number }[],
): ServerMemory | undefined {
  const n = readings.length
  const mean = (of: (r: (typeof readings)[number]) => number) =>
    readings.reduce((sum, r) => sum + of(r), 0) / n
  const [batch, memory] = [mean((r) => r.batch), mean((r) => r.gpuMemoryMiB)]
  const spread = mean((r) => (r.batch - batch) ** 2)
  if (!(spread > 0)) return undefined
  const perItemMiB = Math.max(
    0,
    mean((r) => (r.batch - batch) * (r.gpuMemoryMiB - memory)) / spread,
  )
  return { fixedMiB: Math.max(0, memory - perItemMiB * batch), perItemMiB }
}

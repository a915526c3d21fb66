/**
 * The device model of one server, fitted to a few of its own batch latencies:
 *
 * latency = host + hostPerItem × batch + max(floor, processes × level × (batch / 8)^slope × device)
 *
 * The host works while the GPU waits. Kernel launches overlap with kernels, or delay them (the
 * floor). Processes that share a GPU take turns.
 */
import { solveLeastSquares } from './calibration/least-squares.ts'
import { loadMatrix } from './matrix.ts'

/** The measured latency of one batch size. */
export interface BatchLatency {
  readonly batch: number
  /** Latency of one batch on an otherwise unloaded server. */
  readonly latencyMs: number
}

/** Fitted parameters of a server: logarithms, except the slope. */
export interface ServerFit {
  /** ln host ms, ln host ms per item, ln floor ms, ln level, slope over ln batch (5). */
  readonly parameters: readonly number[]
  /** Cholesky factor of their covariance (5 × 5, lower triangle). */
  readonly covarianceFactor: readonly (readonly number[])[]
}

/**
 * Prior means and standard deviations (of logarithms). They cover eager frameworks, compiled
 * engines and in-process tokenizers.
 */
const typicalParameters = [Math.log(0.3), Math.log(0.1), Math.log(2), Math.log(1.5), 0] as const
const priorSd = [1.5, 2, 1.2, 0.7, 0.08] as const
/** Standard deviation of ln(measured latency / fitted latency). */
const latencyNoise = 0.05

/** Batch size at which the slope changes no time. */
const referenceBatch = 8
/** Exponent of the smooth maximum of floor and device time. */
const maximumSharpness = 6

/**
 * Predicts the latency of a batch, ms.
 * @param deviceMs device time of the batch by the device model
 * @param processes processes that share the GPU, each with a batch in flight
 */
export function predictServerMs(
  parameters: readonly number[],
  batch: number,
  deviceMs: number,
  processes = 1,
): number {
  const [host, perItem, floor, level, slope] = parameters as readonly [
    number,
    number,
    number,
    number,
    number,
  ]
  const device = processes * Math.exp(level + slope * Math.log(batch / referenceBatch)) * deviceMs
  // A smooth maximum: the launch floor delays some kernels before it delays all.
  const larger = Math.max(Math.exp(floor), device)
  const running =
    larger *
    ((Math.exp(floor) / larger) ** maximumSharpness + (device / larger) ** maximumSharpness) **
      (1 / maximumSharpness)
  return Math.exp(host) + Math.exp(perItem) * batch + running
}

/**
 * Fits the parameters by maximum a posteriori (Gauss-Newton); the covariance is Laplace's
 * approximation.
 * @param deviceMs the device model at each point's batch (n)
 */
export function fitServer(
  points: readonly (BatchLatency & { readonly deviceMs: number; readonly processes?: number })[],
): ServerFit {
  const data = (parameters: readonly number[]) =>
    Float64Array.from(
      points,
      (p) =>
        Math.log(predictServerMs(parameters, p.batch, p.deviceMs, p.processes) / p.latencyMs) /
        latencyNoise,
    )
  const parameters = solveLeastSquares({ start: [...typicalParameters], priorSd, data })
  const { CholeskyDecomposition, inverse, Matrix } = loadMatrix()
  const precision = Matrix.zeros(parameters.length, parameters.length)
  const gradients = points.map((p) =>
    differentiateLogLatency(parameters, p.batch, p.deviceMs, p.processes),
  )
  for (let j = 0; j < parameters.length; j++)
    for (let k = 0; k < parameters.length; k++)
      precision.set(
        j,
        k,
        gradients.reduce((sum, g) => sum + (g[j]! * g[k]!) / latencyNoise ** 2, 0) +
          (j === k ? 1 / priorSd[j]! ** 2 : 0),
      )
  const covariance = inverse(precision)
  const symmetric = Matrix.add(covariance, covariance.transpose()).mul(0.5)
  return {
    parameters,
    covarianceFactor: new CholeskyDecomposition(symmetric).lowerTriangularMatrix.to2DArray(),
  }
}

/**
 * Samples parameters from the posterior of a fit.
 * @param z standard normals (5)
 */
export const sampleServerFit = (
  { parameters, covarianceFactor }: ServerFit,
  z: readonly number[],
): readonly number[] =>
  parameters.map(
    (value, j) => value + covarianceFactor[j]!.reduce((sum, s, k) => sum + s * z[k]!, 0),
  )

/** Computes ∂ ln(latency) / ∂ parameters (5), by forward differences. */
function differentiateLogLatency(
  parameters: readonly number[],
  batch: number,
  deviceMs: number,
  processes = 1,
): number[] {
  const h = 1e-4
  const base = Math.log(predictServerMs(parameters, batch, deviceMs, processes))
  return parameters.map((_, j) => {
    const shifted = parameters.map((v, k) => (k === j ? v + h : v))
    return (Math.log(predictServerMs(shifted, batch, deviceMs, processes)) - base) / h
  })
}

/** Computes ∂ ln(latency) / ∂ ln(device time), the share of the device in the latency. */
export const computeDeviceSensitivity = (
  parameters: readonly number[],
  batch: number,
  deviceMs: number,
  processes = 1,
): number => differentiateLogLatency(parameters, batch, deviceMs, processes)[3]!

/** Estimates the posterior standard deviation of ln(latency), including measurement noise. */
export function estimateFitError(
  { parameters, covarianceFactor }: ServerFit,
  batch: number,
  deviceMs: number,
  processes = 1,
): number {
  const g = differentiateLogLatency(parameters, batch, deviceMs, processes)
  return Math.hypot(
    latencyNoise,
    ...parameters.map((_, k) => g.reduce((sum, a, j) => sum + a * covarianceFactor[j]![k]!, 0)),
  )
}

/** MiB = fixed + perItem × batch. */
export interface ServerMemory {
  readonly fixedMiB: number
  readonly perItemMiB: number
}

/**
 * Fits a least-squares line through readings of GPU memory. Its slope is at least 0: frameworks
 * keep the memory of their largest batch.
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

/**
 * Limited-memory BFGS in a box (Nocedal and Wright, Numerical Optimization, algorithm 7.4). Steps are
 * projected onto the bounds.
 */

export interface Evaluation {
  readonly value: number
  readonly gradient: Float64Array
}
interface Bounds {
  readonly low: Float64Array
  readonly high: Float64Array
}
interface Minimum extends Evaluation {
  readonly x: Float64Array
  readonly evaluations: number
}

/**
 * Stored pairs of step and gradient change: 3 to 20 are usual (Nocedal and Wright, section 7.2).
 */
const maxStoredPairs = 8
/**
 * Sufficient decrease of the line search (Nocedal and Wright, eq. 3.4, which proposes this value).
 */
const armijo = 1e-4
/** Largest step in any coordinate; the coordinates are logarithms. Assumed. */
const maxStep = 2
/** Factor on the step length while the decrease is not sufficient, and its end. Assumed. */
const backtrackingFactor = 0.4
const minStepLength = 1e-6
/**
 * Smallest curvature sᵀy of a stored pair, which keeps the approximate Hessian positive definite.
 */
const minCurvature = 1e-10
/**
 * Relative decrease at which the minimisation has converged: below the errors of the likelihood.
 */
const convergedDecrease = 1e-9

/**
 * Minimises f from x0 within bounds. f returns undefined where it cannot be computed; such points
 * count as infinitely high.
 * Stops at a projected gradient below `tolerance`, a relative decrease below `convergedDecrease`,
 * or `maxEvaluations`. Undefined where f cannot be computed at x0.
 */
export function minimise(
  f: (x: Float64Array) => Evaluation | undefined,
  x0: Float64Array,
  bounds: Bounds,
  { maxEvaluations = 60, tolerance = 1e-4 } = {},
): Minimum | undefined {
  const clamp = (x: Float64Array) =>
    x.map((v, i) => Math.min(bounds.high[i]!, Math.max(bounds.low[i]!, v)))
  let x = clamp(x0)
  let current = f(x)
  let evaluations = 1
  if (!current) return undefined
  const steps: Float64Array[] = []
  const gradientChanges: Float64Array[] = []
  while (evaluations < maxEvaluations) {
    const projectedGradient = current.gradient.map((g, i) =>
      (x[i]! <= bounds.low[i]! && g > 0) || (x[i]! >= bounds.high[i]! && g < 0) ? 0 : g,
    )
    if (Math.max(...projectedGradient.map(Math.abs)) < tolerance) break
    let direction = computeDirection(projectedGradient, steps, gradientChanges)
    if (dot(direction, projectedGradient) >= 0) direction = projectedGradient.map((g) => -g)
    const maxComponent = Math.max(...direction.map(Math.abs))
    const firstLength = steps.length === 0 ? Math.min(1, 1 / maxComponent) : 1
    let length = Math.min(firstLength, maxStep / maxComponent)
    let next: Evaluation | undefined
    let nextX = x
    for (; evaluations < maxEvaluations && length > minStepLength; length *= backtrackingFactor) {
      nextX = clamp(x.map((v, i) => v + length * direction[i]!))
      next = f(nextX)
      evaluations++
      const maxValue = current.value + armijo * dot(current.gradient, subtract(nextX, x))
      if (next && next.value <= maxValue) break
      next = undefined
    }
    if (!next) break
    const step = subtract(nextX, x)
    const change = subtract(next.gradient, current.gradient)
    if (dot(step, change) > minCurvature) {
      steps.push(step)
      gradientChanges.push(change)
      if (steps.length > maxStoredPairs) {
        steps.shift()
        gradientChanges.shift()
      }
    }
    const decrease = current.value - next.value
    x = nextX
    current = next
    if (decrease < convergedDecrease * (1 + Math.abs(current.value))) break
  }
  return { x, ...current, evaluations }
}

/** Computes the L-BFGS direction -H g (Nocedal and Wright, algorithm 7.4). */
function computeDirection(
  gradient: Float64Array,
  steps: readonly Float64Array[],
  gradientChanges: readonly Float64Array[],
): Float64Array {
  // q, a (α) and b (β) as in the algorithm.
  const q = Float64Array.from(gradient)
  const a: number[] = []
  for (let i = steps.length - 1; i >= 0; i--) {
    a[i] = dot(steps[i]!, q) / dot(steps[i]!, gradientChanges[i]!)
    axpy(-a[i]!, gradientChanges[i]!, q)
  }
  const last = steps.length - 1
  if (last >= 0) {
    const [step, change] = [steps[last]!, gradientChanges[last]!]
    const gamma = dot(step, change) / dot(change, change)
    for (let i = 0; i < q.length; i++) q[i] = q[i]! * gamma
  }
  for (let i = 0; i < steps.length; i++) {
    const b = dot(gradientChanges[i]!, q) / dot(steps[i]!, gradientChanges[i]!)
    axpy(a[i]! - b, steps[i]!, q)
  }
  return q.map((v) => -v)
}

const dot = (a: Float64Array, b: Float64Array): number =>
  a.reduce((sum, v, i) => sum + v * b[i]!, 0)
const subtract = (a: Float64Array, b: Float64Array): Float64Array => a.map((v, i) => v - b[i]!)
function axpy(scale: number, x: Float64Array, y: Float64Array): void {
  for (let i = 0; i < y.length; i++) y[i] = y[i]! + scale * x[i]!
}

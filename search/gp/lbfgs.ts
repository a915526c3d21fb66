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

/** Stored pairs of step and gradient change. */
const memory = 8
/** Sufficient decrease of the line search (Nocedal and Wright, eq. 3.4). */
const armijo = 1e-4
/** Largest step in any coordinate; the coordinates are logarithms. */
const maxStep = 2

/**
 * Minimises f from x0 within bounds. f returns undefined where it cannot be computed; such points
 * count as infinitely high.
 * Stops at a projected gradient below `tolerance`, a relative decrease below 1e-9, or
 * `maxEvaluations`. Undefined where f cannot be computed at x0.
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
  let here = f(x)
  let evaluations = 1
  if (!here) return undefined
  const steps: Float64Array[] = []
  const changes: Float64Array[] = []
  while (evaluations < maxEvaluations) {
    const free = here.gradient.map((g, i) =>
      (x[i]! <= bounds.low[i]! && g > 0) || (x[i]! >= bounds.high[i]! && g < 0) ? 0 : g,
    )
    if (Math.max(...free.map(Math.abs)) < tolerance) break
    let direction = computeDirection(free, steps, changes)
    if (dot(direction, free) >= 0) direction = free.map((g) => -g)
    const longest = Math.max(...direction.map(Math.abs))
    const first = steps.length === 0 ? Math.min(1, 1 / longest) : 1
    let t = Math.min(first, maxStep / longest)
    let next: Evaluation | undefined
    let y = x
    for (; evaluations < maxEvaluations && t > 1e-6; t *= 0.4) {
      y = clamp(x.map((v, i) => v + t * direction[i]!))
      next = f(y)
      evaluations++
      if (next && next.value <= here.value + armijo * dot(here.gradient, subtract(y, x))) break
      next = undefined
    }
    if (!next) break
    const step = subtract(y, x)
    const change = subtract(next.gradient, here.gradient)
    if (dot(step, change) > 1e-10) {
      steps.push(step)
      changes.push(change)
      if (steps.length > memory) {
        steps.shift()
        changes.shift()
      }
    }
    const decrease = here.value - next.value
    x = y
    here = next
    if (decrease < 1e-9 * (1 + Math.abs(here.value))) break
  }
  return { x, ...here, evaluations }
}

/** The L-BFGS direction -H g (Nocedal and Wright, algorithm 7.4). */
function computeDirection(
  gradient: Float64Array,
  steps: readonly Float64Array[],
  changes: readonly Float64Array[],
): Float64Array {
  const q = Float64Array.from(gradient)
  const a: number[] = []
  for (let i = steps.length - 1; i >= 0; i--) {
    a[i] = dot(steps[i]!, q) / dot(steps[i]!, changes[i]!)
    axpy(-a[i]!, changes[i]!, q)
  }
  const last = steps.length - 1
  if (last >= 0) {
    const gamma = dot(steps[last]!, changes[last]!) / dot(changes[last]!, changes[last]!)
    for (let i = 0; i < q.length; i++) q[i] = q[i]! * gamma
  }
  for (let i = 0; i < steps.length; i++) {
    const b = dot(changes[i]!, q) / dot(steps[i]!, changes[i]!)
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

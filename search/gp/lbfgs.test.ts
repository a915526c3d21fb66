import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Evaluation, minimise } from './lbfgs.ts'

const box = (low: number, high: number, d = 2) => ({
  low: new Float64Array(d).fill(low),
  high: new Float64Array(d).fill(high),
})
const start = Float64Array.of(-1.2, 1)

/** (1 - x)² + 100 (y - x²)²: a curved valley to (1, 1). */
const rosenbrock = ([x = 0, y = 0]: Float64Array): Evaluation => ({
  value: (1 - x) ** 2 + 100 * (y - x * x) ** 2,
  gradient: Float64Array.of(-2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)),
})
/** Σ i (x_i - m_i)², scaled unequally. */
const bowl =
  (minimum: readonly number[]) =>
  (x: Float64Array): Evaluation => ({
    value: x.reduce((sum, v, i) => sum + 10 ** i * (v - minimum[i]!) ** 2, 0),
    gradient: x.map((v, i) => 2 * 10 ** i * (v - minimum[i]!)),
  })

describe('minimise', () => {
  test('follows a curved valley to its end in quasi-Newton steps', () => {
    const found = minimise(rosenbrock, start, box(-5, 5), { maxEvaluations: 200, tolerance: 1e-8 })!
    expect(found.value).toBeLessThan(1e-8)
    for (const v of found.x) expect(v).toBeCloseTo(1, 3)
    // Steepest descent takes thousands.
    expect(found.evaluations).toBeLessThan(90)
    expect(found.value).toBe(rosenbrock(found.x).value)
    expect(found.gradient).toEqual(rosenbrock(found.x).gradient)
  })

  test('ends in the corner or on the edge nearest to a minimum outside', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: -4, max: 4, noNaN: true }), { minLength: 3, maxLength: 3 }),
        (minimum) => {
          const { x } = minimise(bowl(minimum), new Float64Array(3), box(-2, 2, 3), {
            maxEvaluations: 300,
            tolerance: 1e-7,
          })!
          for (const [i, v] of x.entries())
            expect(v).toBeCloseTo(Math.min(2, Math.max(-2, minimum[i]!)), 3)
        },
      ),
    )
  })

  test('starts within the box, and never leaves it', () => {
    const seen: number[] = []
    const watched = (x: Float64Array) => {
      seen.push(...x)
      return bowl([9, -9])(x)
    }
    minimise(watched, Float64Array.of(50, -50), box(-1, 3))
    expect(Math.max(...seen)).toBeLessThanOrEqual(3)
    expect(Math.min(...seen)).toBeGreaterThanOrEqual(-1)
    expect(seen.slice(0, 2)).toEqual([3, -1])
  })

  test('evaluates no more often than allowed', () => {
    for (const maxEvaluations of [1, 2, 7, 60]) {
      let calls = 0
      const counted = (x: Float64Array) => {
        calls++
        return rosenbrock(x)
      }
      const found = minimise(counted, start, box(-5, 5), { maxEvaluations })!
      expect(calls).toBeLessThanOrEqual(maxEvaluations)
      expect(found.evaluations).toBe(calls)
    }
  })

  test('evaluates once at a minimum', () => {
    const found = minimise(bowl([1, 2]), Float64Array.of(1, 2), box(-5, 5))!
    expect([found.evaluations, found.value]).toEqual([1, 0])
    // At a bound that the descent leads out of, likewise.
    expect(minimise(bowl([9, 9]), Float64Array.of(5, 5), box(-5, 5))!.evaluations).toBe(1)
    expect(minimise(bowl([-9, -9]), Float64Array.of(-5, -5), box(-5, 5))!.evaluations).toBe(1)
  })

  test('avoids points where f cannot be computed; undefined where the first is one', () => {
    const holed = (x: Float64Array) => (x[0]! > 0.5 && x[0]! < 0.9 ? undefined : bowl([0.4, 0])(x))
    const found = minimise(holed, Float64Array.of(-3, 1), box(-5, 5), { maxEvaluations: 200 })!
    expect(found.x[0]).toBeCloseTo(0.4, 3)
    expect(minimise(() => undefined, start, box(-5, 5))).toBeUndefined()
  })

  test('never ends above where it began, and its first step is no longer than one', () => {
    fc.assert(
      fc.property(
        fc.double({ min: -4, max: 4, noNaN: true }),
        fc.double({ min: -4, max: 4, noNaN: true }),
        (a, b) => {
          const first = Float64Array.of(a, b)
          const seen: Float64Array[] = []
          const watched = (x: Float64Array) => {
            seen.push(Float64Array.from(x))
            return rosenbrock(x)
          }
          const found = minimise(watched, first, box(-5, 5), { maxEvaluations: 15 })!
          expect(found.value).toBeLessThanOrEqual(rosenbrock(first).value)
          if (seen[1])
            expect(Math.max(...seen[1].map((v, i) => Math.abs(v - first[i]!)))).toBeLessThanOrEqual(
              1 + 1e-9,
            )
        },
      ),
    )
  })
})

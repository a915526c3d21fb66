import { inverse, Matrix } from 'ml-matrix'
import { describe, expect, test } from 'vitest'
import { fitCoupled } from './coupled.ts'
import { datum } from './datum.ts'
import { createRng } from './rng.ts'
import { configurationKey, enumerate } from './space.ts'
import { fitSurrogate } from './surrogate.ts'
import type { Configuration, Observation, Problem } from './types.ts'

const problem: Problem = {
  space: {
    parameters: [
      { name: 'cores', category: 'resource', kind: 'ordinal', values: [1, 2, 4, 8], scale: 'log' },
      { name: 'batch', category: 'server', kind: 'ordinal', values: [1, 2, 4, 8, 16, 32], scale: 'log', concurrency: true },
    ],
    constraints: [],
  },
  objective: { kind: 'price-per-request' },
  constraintLimit: 20,
  constraintAtRate: true,
  pricePerHour: (c) => 0.1 * Number(c.cores),
}
const all = enumerate(problem.space)
const latencyMs = (c: Configuration) => 4 + Number(c.batch) / Number(c.cores)
const observe = (seed: number): Observation[] => {
  const rng = createRng(seed)
  const noisy = (value: number) => value * Math.exp(0.03 * rng.normal())
  return all
    .filter((_, i) => i % 4 === 1)
    .map(
      (configuration): Observation => ({
        configuration,
        state: 'complete',
        constraint: { value: noisy(latencyMs(configuration)), logSd: 0.03 },
        rate: { value: noisy((1000 * Number(configuration.batch)) / latencyMs(configuration)), logSd: 0.03 },
      }),
    )
}
const observations = observe(0)
const complete = observations.flatMap((o) => (o.state === 'complete' ? [o] : []))
const rates = complete.map((o) => datum(o.configuration, Math.log(o.rate!.value), o.rate))
const constraints = complete.map((o) => datum(o.configuration, Math.log(o.constraint!.value / 20), o.constraint))

describe('a coupled model', () => {
  const model = fitCoupled(problem, rates, constraints, [])

  test('its marginals and covariance are those of its joint distribution', () => {
    const some = all.slice(0, 5)
    const { rate, constraint, covariance } = model.predict(some)
    const { mean, covariance: joint } = model.joint(some)
    const m = some.length
    for (let i = 0; i < m; i++) {
      expect(mean[i]).toBeCloseTo(rate.mean[i]!, 8)
      expect(mean[m + i]).toBeCloseTo(constraint.mean[i]!, 8)
      expect(joint[i * 2 * m + i]).toBeCloseTo(rate.variance[i]!, 8)
      expect(joint[(m + i) * 2 * m + m + i]).toBeCloseTo(constraint.variance[i]!, 8)
      expect(joint[i * 2 * m + m + i]).toBeCloseTo(covariance[i]!, 8)
    }
  })

  test('what is faster than expected is believed to serve more', () => {
    const untried = all.filter((c) => !observations.some((o) => configurationKey(o.configuration) === configurationKey(c)))
    const { covariance } = model.predict(untried)
    for (const value of covariance) expect(value).toBeLessThan(0)
  })

  test('a latency that surprises tells of the rate as well, and the model is chosen', () => {
    const where: Configuration = { cores: 4, batch: 8 }
    const slow: Observation = { configuration: where, state: 'complete', constraint: { value: 3 * latencyMs(where), logSd: 0.03 } }
    const rateAt = (withoutLittle: boolean) => {
      const { rate, covariance } = fitSurrogate(problem, [...observations, slow], [], { withoutLittle }).believe([where])
      expect(covariance === undefined).toBe(withoutLittle)
      return Math.exp(rate!.mean[0]!)
    }
    const expected = (1000 * 8) / latencyMs(where)
    expect(rateAt(true)).toBeGreaterThan(0.7 * expected)
    expect(rateAt(false)).toBeLessThan(0.55 * expected)
  })

  test('is not chosen where the metric is of a server without load', () => {
    expect(fitSurrogate({ ...problem, constraintAtRate: false }, observations, []).believe(all).covariance).toBeUndefined()
  })
})

describe("Little's law", () => {
  const parameters: Problem['space']['parameters'] = [
    { name: 'cores', category: 'resource', kind: 'ordinal', values: [1, 2, 4], scale: 'log' },
    { name: 'batch', category: 'server', kind: 'ordinal', values: [1, 4, 16], scale: 'log', concurrency: true },
    { name: 'waitMs', category: 'server', kind: 'ordinal', values: [0, 1, 2], scale: 'linear' },
    { name: 'loop', category: 'server', kind: 'categorical', values: ['sync', 'async'] },
  ]
  const asked: Problem = { ...problem, space: { parameters, constraints: [] }, pricePerHour: (c) => 0.1 * Number(c.cores) }
  const cells = enumerate(asked.space)
  const read = [cells[0]!, cells[20]!, cells[41]!]
  const noise = 1e-4
  const latency = (c: Configuration) => 0.3 + 0.2 * Math.log(Number(c.batch)) - 0.3 * Math.log(Number(c.cores))
  const inServer = (c: Configuration) => 0.4 + 0.9 * Math.log(Number(c.batch)) + 0.1 * Number(c.waitMs)
  const readings = (of: (c: Configuration) => number, at = read) => at.map((c) => datum(c, of(c), { logSd: Math.sqrt(noise) }))
  const fitted = (pending: readonly Configuration[] = []) =>
    fitCoupled(
      asked,
      readings((c) => inServer(c) - latency(c)),
      readings(latency),
      pending,
    )

  test('ln(rate × latency) is a Bayesian linear regression on what is said to set it and, less, on all else', () => {
    // Its columns, scaled to [0, 1], and their prior deviations: an exact factor for the batch ± 10 %, 30 % of a reach for the rest, 15 % for names and for the price.
    const row = (c: Configuration) => [
      Math.log(Number(c.cores)) / Math.log(4),
      Math.log(Number(c.batch)) / Math.log(16),
      Number(c.waitMs) / 2,
      c.loop === 'sync' ? Math.SQRT1_2 : 0,
      c.loop === 'async' ? Math.SQRT1_2 : 0,
      Math.log(Number(c.cores)) / Math.log(4),
      1,
    ]
    const mean = [0, Math.log(16), 0, 0, 0, 0, 0]
    const sd = [0.3 * Math.log(4), 0.1 * Math.log(16), 0.3, 0.15, 0.15, 0.15 * Math.log(4), 10]
    const kernel = (a: readonly number[], b: readonly number[]) => a.reduce((sum, v, i) => sum + v * b[i]! * sd[i]! ** 2, 0)
    const level = (x: readonly number[]) => x.reduce((sum, v, i) => sum + v * mean[i]!, 0)
    const rows = read.map(row)
    const K = inverse(new Matrix(rows.map((a, i) => rows.map((b, j) => kernel(a, b) + (i === j ? 2 * noise : 0)))))
    const weights = K.mmul(Matrix.columnVector(read.map((c, i) => inServer(c) - level(rows[i]!))))
    const { rate, constraint, covariance } = fitted().predict(cells)
    for (const [i, c] of cells.entries()) {
      const k = Matrix.columnVector(rows.map((a) => kernel(a, row(c))))
      const expected = level(row(c)) + k.transpose().mmul(weights).get(0, 0)
      const variance = kernel(row(c), row(c)) - k.transpose().mmul(K).mmul(k).get(0, 0)
      expect(Math.abs(rate.mean[i]! + constraint.mean[i]! - expected)).toBeLessThan(0.02)
      const found = rate.variance[i]! + constraint.variance[i]! + 2 * covariance[i]!
      expect(Math.abs(Math.sqrt(Math.max(0, found)) - Math.sqrt(variance))).toBeLessThan(0.02)
    }
  })

  test('pending trials are believed to turn out as predicted, in rate and latency', () => {
    const where = cells[33]!
    const [before, after] = [fitted(), fitted([where])].map((model) => model.predict([where]))
    expect(after!.rate.mean[0]).toBeCloseTo(before!.rate.mean[0]!, 2)
    expect(after!.constraint.mean[0]).toBeCloseTo(before!.constraint.mean[0]!, 2)
    expect(Math.sqrt(after!.rate.variance[0]!)).toBeLessThan(0.011)
    expect(Math.sqrt(after!.constraint.variance[0]!)).toBeLessThan(0.011)
    expect(Math.sqrt(before!.rate.variance[0]!)).toBeGreaterThan(0.1)
  })

  test('dearer is expected to be faster, elasticity 0.7, and batches to be slower by half their size', () => {
    const far = fitCoupled(asked, [], readings(latency, [cells[0]!]), []).predict([
      { cores: 1, batch: 1, waitMs: 0, loop: 'sync' },
      { cores: 4, batch: 1, waitMs: 0, loop: 'sync' },
      { cores: 1, batch: 16, waitMs: 0, loop: 'sync' },
    ]).constraint.mean
    expect(far[1]! - far[0]!).toBeLessThan(-0.4 * Math.log(4))
    expect(far[1]! - far[0]!).toBeGreaterThan(-Math.log(4))
    expect(far[2]! - far[0]!).toBeGreaterThan(0.3 * Math.log(16))
    expect(far[2]! - far[0]!).toBeLessThan(0.7 * Math.log(16))
  })
})

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

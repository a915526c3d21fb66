import { describe, expect, test } from 'vitest'
import { createRng } from '../rng.ts'
import { enumerateConfigurations } from '../space/space.ts'
import type { Configuration, Observation, OrdinalParameter, Problem } from '../types.ts'
import { fitSurrogate } from './surrogate.ts'

const ordinal = (name: string, values: readonly number[]): OrdinalParameter => ({
  name,
  category: 'resource',
  kind: 'ordinal',
  values,
  scale: 'log',
})
const problem: Problem = {
  space: {
    parameters: [ordinal('cores', [1, 2, 4, 8]), ordinal('batch', [1, 2, 4, 8, 16])],
    constraints: [],
  },
  objective: { kind: 'price-per-request' },
  constraintLimit: 20,
  pricePerHour: (c) => 0.1 + 0.1 * Number(c.cores),
}
const all = enumerateConfigurations(problem.space)
const rps = ({ cores, batch }: Configuration) => 200 * Number(cores) ** 0.6 * Number(batch) ** 0.4
const ms = ({ cores, batch }: Configuration) => 3 + (4 * Number(batch)) / Number(cores)
const measure = (configuration: Configuration, more: object = {}): Observation => ({
  configuration,
  state: 'complete',
  rate: { value: rps(configuration), logSd: 0.01 },
  constraint: { value: ms(configuration), logSd: 0.01 },
  ...more,
})
const failed = (configuration: Configuration): Observation => ({
  configuration,
  state: 'infeasible',
  reason: 'out of memory',
})
const some = [0, 3, 6, 9, 12, 14, 19].map((i) => all[i]!)
const observations = some.map((c) => measure(c))
const rateAt = (
  given: Problem,
  trials: readonly Observation[],
  c: Configuration,
  pending: readonly Configuration[] = [],
) => {
  const { rate } = fitSurrogate(given, trials, pending).predict([c])
  return { mean: rate!.mean[0]!, sd: Math.sqrt(rate!.variance[0]!) }
}

describe('predictions', () => {
  const surrogate = fitSurrogate(problem, observations, [])

  test('are ln rate and ln(metric / limit), near the measurements where measured', () => {
    const { rate, constraint, logServes } = surrogate.predict(some)
    for (const [i, c] of some.entries()) {
      expect(Math.abs(rate!.mean[i]! - Math.log(rps(c)))).toBeLessThan(0.02)
      expect(Math.abs(constraint!.mean[i]! - Math.log(ms(c) / 20))).toBeLessThan(0.03)
      expect(Math.sqrt(rate!.variance[i]!)).toBeLessThan(0.011)
    }
    expect([...logServes]).toEqual(some.map(() => 0))
  })
  test('are near the truth, and more certain near measurements', () => {
    const left = all.filter((c) => !some.includes(c))
    const { rate } = surrogate.predict(left)
    for (const [i, c] of left.entries())
      expect(Math.abs(rate!.mean[i]! - Math.log(rps(c)))).toBeLessThan(0.15)
    expect(Math.max(...rate!.variance)).toBeGreaterThan(
      5 * Math.max(...surrogate.predict(some).rate!.variance),
    )
  })
  test('from few observations are the same approximately as exactly', () => {
    expect(surrogate.predict(all, 'approximate')).toEqual(surrogate.predict(all))
  })
  test('of P(serves) are the minimum of the failure model and of servesProbability, after a failure', () => {
    const known = {
      ...problem,
      servesProbability: ({ batch }: Configuration) => (Number(batch) >= 8 ? 0.1 : 1),
    }
    const trials = [...observations, failed({ cores: 1, batch: 16 })]
    const given = [
      { cores: 8, batch: 8 },
      { cores: 1, batch: 16 },
      { cores: 8, batch: 1 },
    ]
    const [plain, logProbabilities] = [problem, known].map(
      (p) => fitSurrogate(p, trials, []).predict(given).logServes,
    )
    expect(logProbabilities![0]).toBeCloseTo(Math.min(plain![0]!, Math.log(0.1)), 9)
    expect(logProbabilities![0]).toBeLessThan(plain![0]!)
    expect(logProbabilities![1]).toBeCloseTo(Math.min(plain![1]!, Math.log(0.1)), 9)
    expect(logProbabilities![2]).toBe(plain![2])
  })
  test('of P(serves) include the memory fit from the start, conditioned on what served', () => {
    const fits: Readonly<Record<number, number>> = { 1: 1, 8: 0.5, 16: 0.2 }
    const known = {
      ...problem,
      memoryFitProbability: ({ batch }: Configuration) => fits[Number(batch)]!,
    }
    const given = [1, 8, 16].map((batch) => ({ cores: 8, batch }))
    const logProbabilities = (trials: readonly Observation[]) =>
      [...fitSurrogate(known, trials, []).predict(given).logServes].map((log) =>
        Number(Math.exp(log).toFixed(9)),
      )
    const served = (batch: number): Observation => ({
      configuration: { cores: 1, batch },
      state: 'complete',
      rate: { value: 9 },
    })
    expect(logProbabilities([])).toEqual([1, 0.5, 0.2])
    expect(logProbabilities([served(1)])).toEqual([1, 0.5, 0.2])
    expect(logProbabilities([served(8), served(1)])).toEqual([1, 1, 0.4])
    expect(logProbabilities([served(16)])).toEqual([1, 1, 1])
    const lacked = logProbabilities([served(8), failed({ cores: 1, batch: 16 })])
    expect(lacked[2]).toBeLessThanOrEqual(0.4)
    expect(
      fitSurrogate(known, [served(1)], []).sampleJoint(given, createRng(1)).logServes[2],
    ).toBeCloseTo(Math.log(0.2), 9)
  })
  test('without a limit, the constraint is ln(metric)', () => {
    const { constraint } = fitSurrogate(
      { ...problem, constraintLimit: undefined },
      observations,
      [],
    ).predict(some)
    for (const [i, c] of some.entries())
      expect(Math.abs(constraint!.mean[i]! - Math.log(ms(c)))).toBeLessThan(0.03)
  })
  test('are absent for a quantity that was never measured', () => {
    const silent = observations.map((o) => ({ ...o, constraint: undefined }) as Observation)
    const { rate, constraint } = fitSurrogate(problem, silent, []).predict(all)
    expect([rate === undefined, constraint]).toEqual([false, undefined])
    const nothing = observations.map(
      (o) => ({ ...o, rate: { value: 0 }, constraint: undefined }) as Observation,
    )
    expect(fitSurrogate(problem, nothing, []).predict(all).rate).toBeUndefined()
    expect(
      fitSurrogate(problem, [failed(all[1]!)], [])
        .sampleJoint(all, createRng(1))
        .next(),
    ).toEqual({})
  })
  test('of a pruned trial: its rate is at most that, and may be far less', () => {
    const cut = measure(all[18]!, {
      rate: { value: 1.2 * rps(all[18]!), logSd: 0.01 },
      censored: true,
    })
    const read = { ...cut, censored: undefined } as Observation
    const rest = observations.slice(0, 4)
    const [open, exact] = [cut, read].map((o) => rateAt(problem, [...rest, o], all[18]!))
    expect(exact!.mean).toBeCloseTo(Math.log(1.2 * rps(all[18]!)), 1)
    expect(open!.mean).toBeLessThan(exact!.mean)
    expect(open!.sd).toBeGreaterThan(3 * exact!.sd)
    // Far above what is expected anyway it says nothing.
    const idle = { ...cut, rate: { value: 1e6, logSd: 0.01 } } as Observation
    expect(rateAt(problem, [...rest, idle], all[18]!).mean).toBeCloseTo(
      rateAt(problem, rest, all[18]!).mean,
      1,
    )
  })
})

describe('an objective for which only the limit matters', () => {
  const priced: Problem = { ...problem, objective: { kind: 'price' }, constraintLimit: 6 }
  const read = (c: Configuration, value: number): Observation => ({
    configuration: c,
    state: 'complete',
    constraint: { value, logSd: 0.02 },
  })
  const constraintAt = (trials: readonly Observation[], c: Configuration, given = priced) => {
    const { constraint } = fitSurrogate(given, trials, []).predict([c])
    return { mean: constraint!.mean[0]!, sd: Math.sqrt(constraint!.variance[0]!) }
  }
  const close = [read(all[2]!, 7), read(all[7]!, 5), read(all[11]!, 6)]

  test('a value off by more than a factor e is censored there', () => {
    const [near, far] = [10, 1e6].map((value) =>
      constraintAt([...close, read(all[4]!, value)], all[4]!),
    )
    expect(near!.mean).toBeCloseTo(Math.log(10 / 6), 1)
    expect(near!.sd).toBeLessThan(0.05)
    expect(far!.mean).toBeGreaterThan(0.9)
    expect(far!.sd).toBeGreaterThan(3 * near!.sd)
    expect(far).toEqual(constraintAt([...close, read(all[4]!, 1e3)], all[4]!))
    const good = constraintAt([...close, read(all[15]!, 1e-6)], all[15]!)
    expect(good.mean).toBeLessThan(-0.9)
    expect(good.sd).toBeGreaterThan(3 * near!.sd)
  })
  test('within it every value counts, and beyond it too where the objective models the constraint, or without a limit', () => {
    const [a, b] = [6 * Math.exp(0.98), 6 * Math.exp(0.9)].map(
      (value) => constraintAt([...close, read(all[4]!, value)], all[4]!).mean,
    )
    expect(a! - b!).toBeCloseTo(0.08, 2)
    const far = read(all[4]!, 100)
    const latency: Problem = { ...priced, objective: { kind: 'min-latency', maxPricePerHour: 9 } }
    expect(constraintAt([...close, far], all[4]!, latency).mean).toBeCloseTo(Math.log(100 / 6), 1)
    expect(
      constraintAt([...close, far], all[4]!, { ...priced, constraintLimit: undefined }).mean,
    ).toBeCloseTo(Math.log(100), 1)
  })
})

describe('infeasible configurations', () => {
  const bad = [all[4]!, all[3]!, all[9]!]
  const trials = [...[0, 1, 5, 10, 15].map((i) => measure(all[i]!)), ...bad.map(failed)]
  const serves = (o: readonly Observation[], cs: readonly Configuration[], given = problem) =>
    [...fitSurrogate({ ...given, constraintLimit: undefined }, o, []).predict(cs).logServes].map(
      Math.exp,
    )

  test('is separated from what serves, and from what lies between', () => {
    const [failing, serving, between] = serves(trials, [all[4]!, all[0]!, all[2]!])
    expect(failing).toBeLessThan(0.2)
    expect(serving).toBeGreaterThan(0.8)
    expect(between).toBeLessThan(serving!)
    expect(between).toBeGreaterThan(failing!)
  })
  test('includes trials that serve no rate', () => {
    const zero = trials.map((o) =>
      o.state === 'infeasible' ? measure(o.configuration, { rate: { value: 0 } }) : o,
    )
    expect(serves(zero, all)).toEqual(serves(trials, all))
  })
  test('serves probably by default: a latent 1 ± 1 beside the process', () => {
    // One failure far from everything else: what is far from it is about as likely as before.
    const [far] = serves([failed(all[4]!)], [all[15]!])
    expect(far).toBeGreaterThan(0.4)
    expect(far).toBeLessThan(0.9)
  })
})

describe('pending trials', () => {
  test('enter at their predicted mean: the mean stays, the variance vanishes', () => {
    const where = all[17]!
    const before = rateAt(problem, observations.slice(0, 4), where)
    const after = rateAt(problem, observations.slice(0, 4), where, [where])
    expect(after.mean).toBeCloseTo(before.mean, 3)
    expect(after.sd).toBeLessThan(0.011)
    expect(before.sd).toBeGreaterThan(0.02)
  })
})

describe('joint draws', () => {
  test('have the mean, deviation and correlation of the posterior', () => {
    const surrogate = fitSurrogate(problem, observations.slice(0, 4), [])
    const where = [all[16]!, all[17]!, all[18]!]
    const count = 4_000
    const draws = surrogate.sampleJoint(where, createRng(5))
    const drawn = Array.from({ length: count }, () => {
      const { rate, constraint } = draws.next()
      return { rate: rate!.slice(), constraint: constraint!.slice() }
    })
    const predictions = surrogate.predict(where)
    for (const quantity of ['rate', 'constraint'] as const) {
      const rows = drawn.map((one) => one[quantity])
      const mean = (of: (row: Float64Array) => number) =>
        rows.reduce((sum, row) => sum + of(row), 0) / count
      for (const i of where.keys()) {
        const [m, v] = [predictions[quantity]!.mean[i]!, predictions[quantity]!.variance[i]!]
        expect(Math.abs(mean((row) => row[i]!) - m)).toBeLessThan(4 * Math.sqrt(v / count))
        expect(mean((row) => (row[i]! - m) ** 2) / v).toBeCloseTo(1, 0.9)
      }
      // Neighbours move together.
      const [a, b] = [0, 1].map(
        (i) => (row: Float64Array) =>
          (row[i]! - predictions[quantity]!.mean[i]!) /
          Math.sqrt(predictions[quantity]!.variance[i]!),
      )
      expect(mean((row) => a!(row) * b!(row))).toBeGreaterThan(0.5)
    }
    expect(draws.logServes).toEqual(predictions.logServes)
    expect(drawn[0]!.rate).not.toEqual(drawn[0]!.constraint)
  })
})

describe('an informative prior', () => {
  const withPrior = (change: (logRate: number, c: Configuration) => number): Problem => ({
    ...problem,
    priorLogRate: (c) => change(Math.log(rps(c)), c),
  })
  const right = withPrior((v) => v)

  test('leads before any measurement, within 10 % and a share of itself', () => {
    const { mean, sd } = rateAt(right, [], all[7]!)
    expect(mean).toBeCloseTo(Math.log(rps(all[7]!)), 6)
    expect(sd).toBeGreaterThan(0.1)
    expect(sd).toBeLessThan(0.3)
    expect(fitSurrogate(right, [], []).isPriorAccepted).toBe(true)
    const limited: Problem = { ...problem, priorLogConstraint: (c) => Math.log(ms(c)) }
    const { rate, constraint } = fitSurrogate(limited, [], []).predict([all[7]!])
    expect([rate, constraint!.mean[0]]).toEqual([
      undefined,
      expect.closeTo(Math.log(ms(all[7]!) / 20), 6),
    ])
    expect(fitSurrogate(limited, [], []).isPriorAccepted).toBe(true)
    expect(fitSurrogate(problem, [], []).isPriorAccepted).toBe(false)
  })
  test('that is right narrows the posterior; a wrong one is rejected', () => {
    const few = observations.slice(0, 3)
    const where = all[17]!
    expect(fitSurrogate(right, few, []).isPriorAccepted).toBe(true)
    expect(rateAt(right, few, where).sd).toBeLessThan(0.5 * rateAt(problem, few, where).sd)
    expect(Math.abs(rateAt(right, few, where).mean - Math.log(rps(where)))).toBeLessThan(0.03)
    const wrong = withPrior((v) => 12 - v)
    expect(fitSurrogate(wrong, observations, []).isPriorAccepted).toBe(false)
    expect(rateAt(wrong, observations, where)).toEqual(rateAt(problem, observations, where))
  })
  describe('and outliers', () => {
    /** The first `low` of six trials serve 40 % less than the device model says. */
    const lowered = (low: number) =>
      some.slice(0, 6).map((c, i) => {
        const value = (i < low ? 0.6 : 1) * rps(c)
        return measure(c, { rate: { value, logSd: 0.02 } })
      })
    test.each([0, 1, 2, 3, 4, 5])(
      'one reading 40 %% low among five good ones leaves it accepted: the one at %i',
      (at) => {
        const trials = lowered(1)
        const moved = [...trials.slice(1, at + 1), trials[0]!, ...trials.slice(at + 1)]
        expect(fitSurrogate(right, moved, []).isPriorAccepted).toBe(true)
        // The others predict as without it.
        const beside = rateAt(right, moved, all[17]!)
        expect(Math.abs(beside.mean - Math.log(rps(all[17]!)))).toBeLessThan(0.05)
        // Its own reading counts where it was read.
        expect(rateAt(right, moved, some[0]!).mean).toBeLessThan(Math.log(0.7 * rps(some[0]!)))
      },
    )
    test('the same for a pruned trial far below', () => {
      const pruned = measure(some[1]!, { rate: { value: 0.3 * rps(some[1]!) }, censored: true })
      const trials = [measure(some[0]!), pruned]
      expect(fitSurrogate(right, trials, []).isPriorAccepted).toBe(true)
    })
    test('three readings 40 % low are no outliers: predictions beside them follow', () => {
      const between = all[4]!
      expect(rateAt(right, lowered(3), between).mean).toBeLessThan(Math.log(0.75 * rps(between)))
    })
    test('one trial does not reject a device model that has everything the wrong way round, three do', () => {
      const wrong = withPrior((v) => 12 - v)
      const trials = [0, 19, 14].map((i) => measure(all[i]!))
      expect(fitSurrogate(wrong, trials.slice(0, 1), []).isPriorAccepted).toBe(true)
      expect(fitSurrogate(wrong, trials, []).isPriorAccepted).toBe(false)
    })
  })
  test('is accepted beside a pruned trial whose bound has no standard deviation', () => {
    const cut = measure(all[18]!, { rate: { value: 1.2 * rps(all[18]!) }, censored: true })
    const few = [...observations.slice(0, 3), cut]
    expect(fitSurrogate(right, few, []).isPriorAccepted).toBe(true)
    const { mean, sd } = rateAt(right, few, all[18]!)
    expect(Math.abs(mean - Math.log(rps(all[18]!)))).toBeLessThan(0.05)
    expect(sd).toBeLessThan(0.2)
    // Without a device-model prior it is a bound all the same.
    const low = measure(all[18]!, { rate: { value: 0.2 * rps(all[18]!) }, censored: true })
    expect(rateAt(problem, [...observations, low], all[18]!).mean).toBeLessThan(
      Math.log(0.5 * rps(all[18]!)),
    )
  })
  test('without a prediction for a configuration counts as 0 there', () => {
    const partial: Problem = {
      ...problem,
      priorLogRate: (c) => (c.cores === 8 ? undefined : Math.log(rps(c))),
    }
    for (const v of fitSurrogate(partial, observations.slice(0, 2), []).predict(all).rate!.mean)
      expect(v).toSatisfy(Number.isFinite)
    const constraint: Problem = {
      ...problem,
      priorLogConstraint: (c) => (c.cores === 8 ? undefined : Math.log(ms(c))),
    }
    expect(
      fitSurrogate(constraint, [], []).predict([{ cores: 8, batch: 1 }]).constraint!.mean[0],
    ).toBeCloseTo(0, 9)
  })
  test('with factors moves to their calibrated values', () => {
    const factored: Problem = {
      ...right,
      priorFactors: {
        sd: [0.5],
        applyFactors: ([f]) => ({
          predictLogRate: (c) => Math.log(rps(c)) + f! * Math.log(Number(c.cores)),
          computeSensitivities: (c) => [Math.log(Number(c.cores))],
        }),
      },
    }
    // The truth: cores count for 0.3 more than the device model says.
    const shifted = [all[0]!, all[8]!].map((c) =>
      measure(c, { rate: { value: rps(c) * Number(c.cores) ** 0.3, logSd: 0.01 } }),
    )
    const expected = Math.log(rps(all[17]!) * 8 ** 0.3)
    expect(Math.abs(rateAt(factored, shifted, all[17]!).mean - expected)).toBeLessThan(0.1)
    expect(Math.abs(rateAt(factored, shifted, all[17]!).mean - expected)).toBeLessThan(
      Math.abs(rateAt(right, shifted, all[17]!).mean - expected),
    )
    expect(rateAt(factored, [], all[17]!).sd).toBeGreaterThan(rateAt(right, [], all[17]!).sd)
  })
  test('from earlier trials is accepted once the trials are more probable with it', () => {
    const earlier = all.map((c) => measure(c, { rate: { value: 1.5 * rps(c) } }))
    const withPast: Problem = { ...problem, earlier }
    const few = observations.slice(0, 4)
    expect(fitSurrogate(withPast, few, []).isPriorAccepted).toBe(true)
    expect(rateAt(withPast, few, all[17]!).sd).toBeLessThan(rateAt(problem, few, all[17]!).sd)
  })
})

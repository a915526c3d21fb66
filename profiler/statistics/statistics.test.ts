import { describe, expect, test } from 'vitest'
import { seeded } from '../seeded-random.ts'
import type { LoadRun, MachineWait, Slo } from '../types.ts'
import { dispersion, momentsOf, overShare } from './dependence.ts'
import { provesPercentile, requestsNeeded } from './early-stopping.ts'
import { loadPointOf } from './load-point.ts'

describe("LoadGen's early stopping", () => {
  test.each([
    [0, 299],
    [1, 473],
    [2, 628],
    [5, 1049],
    [10, 1693],
  ])('%i over the limit: p99 at 95 %% needs about %i requests', (over, needed) => {
    expect(Math.abs(requestsNeeded(over, 0.99) - needed)).toBeLessThanOrEqual(2)
    expect(provesPercentile(requestsNeeded(over, 0.99), over, 0.99)).toBe(true)
    expect(provesPercentile(requestsNeeded(over, 0.99) - 1, over, 0.99)).toBe(false)
  })
})

describe('dispersion', () => {
  test('is about 1 for independent values, and the cluster size for clusters', () => {
    const uniform = seeded(3)
    const independent = Array.from({ length: 20_000 }, () => (uniform() < 0.05 ? 1 : 0))
    expect(dispersion(independent)).toBeLessThan(2.2)
    const clustered = Array.from({ length: 2000 }, () => (uniform() < 0.05 ? 1 : 0)).flatMap((one) => Array<number>(10).fill(one))
    expect(dispersion(clustered)).toBeGreaterThan(4)
    expect(dispersion(clustered)).toBeLessThan(25)
  })

  test('shrinks the effective sample, failures counting as over', () => {
    const latency = Float64Array.from({ length: 4000 }, (_, i) => (i % 400 < 20 ? Number.NaN : 10))
    const share = overShare(latency, 50)
    expect(share.over).toBe(200)
    expect(share.nEff).toBeLessThan(4000)
    expect(share.nEff).toBeCloseTo(4000 / share.dispersion, 6)
  })
})

test('momentsOf leaves failures out', () => {
  expect(momentsOf(Float64Array.of(10, Number.NaN, 20)).mean).toBe(15)
})

describe('loadPointOf', () => {
  const slo: Slo = { percentile: 0.9, limitMs: 50, maxErrorRate: 0.001 }
  const run = (latencyMs: number[]): LoadRun => ({
    load: { kind: 'open', rateRps: 10, durationS: 1, arrivals: { kind: 'constant' }, seed: 1 },
    sentMs: Float64Array.from(latencyMs, (_, i) => i * 100),
    latencyMs: Float64Array.from(latencyMs),
    errorKinds: {},
    planned: latencyMs.length,
    latenessP99Ms: 0,
    seconds: 1,
    elapsedS: 1,
    generatorCores: 0,
  })

  test('failed requests are infinitely slow in the SLO percentile and absent from the others', () => {
    const point = loadPointOf(run([10, 20, 30, 40, 60, 10, 10, 10, Number.NaN, Number.NaN]), slo)
    expect(point).toMatchObject({ requests: 10, errors: 2, achievedRps: 8, goodputRps: 7, maxMs: 60, sloMs: Number.POSITIVE_INFINITY })
    expect(loadPointOf(run([10, 20, 30, 40, 60, 10, 10, 10, 10, Number.NaN]), slo).sloMs).toBe(60)
  })

  test('a generator that could not hold the load is marked', () => {
    expect(loadPointOf({ ...run([10]), planned: 100 }, slo).generatorSaturated).toBe(true)
    expect(loadPointOf({ ...run([10]), latenessP99Ms: 20 }, slo).generatorSaturated).toBe(true)
    expect(loadPointOf(run([10]), slo).generatorSaturated).toBe(false)
  })

  test('an empty run is no good run', () => {
    expect(loadPointOf(run([]), slo).sloMs).toBe(Number.POSITIVE_INFINITY)
  })
})

test('a window in which the machine kept the server or the generator waiting is marked', () => {
  const slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0 }
  const marked = (machineWait?: MachineWait) => {
    const load = { kind: 'open', rateRps: 1, arrivals: { kind: 'poisson' }, durationS: 1, seed: 1 } as const
    const rest = { errorKinds: {}, planned: 1, latenessP99Ms: 0, seconds: 1, elapsedS: 1, generatorCores: 0 }
    return loadPointOf({ load, sentMs: new Float64Array(1), latencyMs: new Float64Array(1), ...rest, machineWait }, slo).disturbed
  }
  expect([{ server: 0.04, generator: 0.05, stolen: 0.01 }, undefined].map(marked)).toEqual([undefined, undefined])
  expect([{ server: 0.06 }, { generator: 0.2 }, { stolen: 0.06 }].map(marked)).toEqual([true, true, true])
})

import { describe, expect, test } from 'vitest'
import type { Measurement } from '../../profiler/model/measurement.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import type { Configuration, Objective } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import {
  A,
  again,
  B,
  C,
  disturbed,
  failed,
  outOfMemory,
  slow,
  tried,
} from './invented-trials.contract.ts'
import type { RankingCriteria } from './ranked-candidate.ts'
import { rankCandidates } from './ranking.ts'

const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
/** A $0.36 an hour, B $0.72, C $1.44. */
const pricePerHour = ({ gpuMemoryPercent }: Configuration) => 0.0144 * Number(gpuMemoryPercent)
const view: RankingCriteria = {
  slo,
  objective: { kind: 'price-per-request' },
  pricePerHour,
  label: ({ gpuMemoryPercent }) => `${gpuMemoryPercent} %`,
}
const judgeUnder = (change: Partial<RankingCriteria>, ...trials: FinishedTrial[]) =>
  rankCandidates(trials, { ...view, ...change }).map(({ candidate }) => candidate)
const candidateOf = (trial: FinishedTrial, change: Partial<RankingCriteria> = {}) =>
  judgeUnder(change, trial)[0]!

describe('figures', () => {
  test('of a configuration that was measured', () => {
    // 90 % of the estimate are 324,000 requests an hour: a million cost $0.36 / 0.324.
    expect(candidateOf(tried(3, A, 100))).toMatchObject({
      trial: 3,
      configuration: A,
      label: '25 %',
      status: 'measured',
      capacityRps: 90,
      estimateRps: 100,
      capacityCi90Rps: [97, 103],
      sloMsAtCapacity: expect.closeTo(41.6, 1),
      sloMsFrom: 'model',
      unloadedMs: 8,
      pricePerHour: 0.36,
      pricePerMillionRequests: expect.closeTo(1 / 0.9, 9),
      cost: expect.closeTo(1 / 0.9, 9),
      feasible: true,
    })
  })

  test('replicas and what they cost together, where a demand is asked for', () => {
    const objective: Objective = { kind: 'price-for-demand', demandRps: 250, headroom: 0.5 }
    // Half of the safe 90 req/s is kept free: 250 / 45 are six replicas. The estimate would be five.
    const candidate = candidateOf(tried(1, A, 100), { objective })
    expect(candidate).toMatchObject({ replicas: 6 })
    expect(candidate.totalPricePerHour).toBeCloseTo(2.16, 12)
    expect(candidate.cost).toBeCloseTo(2.16, 12)
    expect(candidateOf(tried(1, A, 100))).not.toHaveProperty('replicas')
  })

  test('the idle latency is no more than the least that was measured under load', () => {
    const unloadedMs = (p99Ms: number) =>
      candidateOf(
        tried(1, A, 100, {
          windows: [
            [50, p99Ms],
            [60, p99Ms + 5],
          ],
        }),
      ).unloadedMs
    expect(unloadedMs(20)).toBe(8)
    expect(unloadedMs(6)).toBe(6)
    // What missed the SLO says nothing of it.
    expect(
      candidateOf(tried(1, A, 100, { windows: [[120, 60]], unloaded: { ...unloaded, p99Ms: 70 } }))
        .unloadedMs,
    ).toBe(70)
    expect(
      candidateOf(tried(1, A, 100, { windows: [], unloaded: { ...unloaded, p99Ms: Number.NaN } })),
    ).not.toHaveProperty('unloadedMs')
  })
  const { unloaded } = (tried(1, A, 100) as FinishedTrial & { state: 'complete' }).measurement

  test('the idle latency is that of the percentile that is asked for', () => {
    const summary = { requests: 200, meanMs: 3, p50Ms: 2, p90Ms: 4, p95Ms: 6, p99Ms: 9, maxMs: 12 }
    for (const [percentile, ms] of [
      [0.5, 2],
      [0.9, 4],
      [0.95, 6],
      [0.99, 9],
    ] as const)
      expect(
        candidateOf(tried(1, A, 100, { windows: [], unloaded: summary }), {
          slo: { ...slo, percentile },
        }).unloadedMs,
      ).toBe(ms)
  })

  test.each<[string, Partial<Measurement>, 'lower' | 'upper' | undefined]>([
    [
      'at least: the generator was the limit',
      { outcome: 'generator-limit', capacityCi90Rps: [100, Infinity], bounds: 'lower' },
      'lower',
    ],
    [
      'at most: it was cut short',
      { outcome: 'pruned', capacityCi90Rps: [0, 100], bounds: 'upper' },
      'upper',
    ],
    ['about', {}, undefined],
  ])('%s', (_, change, bound) => {
    expect(candidateOf(tried(1, A, 100, change)).bound).toBe(bound)
  })

  test('under another SLO they are derived, and say so', () => {
    expect(candidateOf(tried(1, A, 100), { slo: { ...slo, limitMs: 40 } }).derived).toBe(true)
    expect(candidateOf(tried(1, A, 100))).not.toHaveProperty('derived')
  })

  test('of a refuted one, what its second measurement missed', () => {
    const [candidate] = judgeUnder({}, tried(1, A, 100), again(2, A, [[85, 65]]))
    expect(candidate).toMatchObject({
      status: 'refuted',
      missed: { rateRps: 85, sloMs: 65 },
      capacityRps: 50,
      feasible: true,
    })
    const [held] = judgeUnder({}, tried(1, A, 100), again(2, A, [[97, 34]]))
    expect(held).not.toHaveProperty('missed')
  })
})

describe('what serves nothing is infeasible', () => {
  const nothing = { capacityRps: 0, capacityCi90Rps: [0, 0], windows: [] } as const
  test.each<[string, FinishedTrial, string, string]>([
    [
      'one that misses the SLO when idle',
      slow(1, A),
      'infeasible',
      'violates the SLO at any rate: one request at a time takes 73 ms at p99 against 50 ms',
    ],
    [
      'one whose requests all fail',
      tried(1, A, 0, { ...nothing, outcome: 'errors', detail: 'status 500' }),
      'infeasible',
      'status 500',
    ],
    [
      'one whose requests fail, from an old store',
      tried(1, A, 0, { ...nothing, outcome: 'errors' }),
      'infeasible',
      'fails requests at any load',
    ],
    [
      'one that died',
      tried(1, A, 0, { ...nothing, outcome: 'server-died', bounds: 'none' }),
      'infeasible',
      'died under load',
    ],
    [
      'one that died, as told',
      tried(1, A, 0, {
        ...nothing,
        outcome: 'server-died',
        capacityCi90Rps: [0, Infinity],
        detail: 'it no longer listens',
      }),
      'infeasible',
      'it no longer listens',
    ],
    [
      'one that was out of memory',
      outOfMemory(1, A),
      'infeasible',
      'out of memory: 5.1 GiB of 3.8 GiB',
    ],
    [
      'one that answered nothing',
      tried(1, A, 0, {
        ...nothing,
        unloaded: {
          requests: 0,
          meanMs: NaN,
          p50Ms: NaN,
          p90Ms: NaN,
          p95Ms: NaN,
          p99Ms: NaN,
          maxMs: NaN,
        },
      }),
      'infeasible',
      'violates the SLO at any rate: no request was answered at p99 against 50 ms',
    ],
    ['not one that could not be measured', failed(1, A), 'failed', 'not measured: no free port'],
    [
      'not one that the machine spoilt',
      tried(1, A, 0, { ...disturbed, windows: [], detail: 'steal 30 %' }),
      'inconclusive',
      'inconclusive: steal 30 %',
    ],
    [
      'not one of which a bound is known',
      tried(1, A, 0, {
        outcome: 'budget',
        capacityCi90Rps: [0, 512],
        bounds: 'upper',
        windows: [],
      }),
      'bound',
      'violated the SLO at every rate tried, though one request at a time takes 8.0 ms',
    ],
    [
      'not one that violated the SLO at every rate that was tried',
      tried(1, A, 0, {
        outcome: 'budget',
        capacityCi90Rps: [0, 250],
        bounds: 'upper',
        windows: [
          [300, 163],
          [250, 90],
        ],
      }),
      'bound',
      'violated the SLO at 250 req/s (p99 90 ms); lower rates were not tried',
    ],
  ])('%s', (_, trial, status, reason) => {
    expect(candidateOf(trial)).toMatchObject({
      status,
      reason,
      feasible: false,
      capacityRps: 0,
      cost: Infinity,
    })
  })

  test('it costs what it costs an hour, and no request is served for it', () => {
    expect(candidateOf(outOfMemory(7, B), { quality: () => 0.9 })).toEqual({
      trial: 7,
      configuration: B,
      label: '50 %',
      status: 'infeasible',
      capacityRps: 0,
      capacityCi90Rps: [0, 0],
      sloMsAtCapacity: Infinity,
      sloMsFrom: 'unloaded',
      quality: 0.9,
      pricePerHour: 0.72,
      pricePerMillionRequests: Infinity,
      cost: Infinity,
      feasible: false,
      reason: 'out of memory: 5.1 GiB of 3.8 GiB',
    })
    expect(candidateOf(slow(1, A)).pricePerMillionRequests).toBe(Infinity)
  })

  test('served once, and not when it was measured again', () => {
    const died: FinishedTrial = { ...outOfMemory(2, A), purpose: 'confirmation' }
    const [candidate] = judgeUnder({}, tried(1, A, 100), died)
    expect(candidate).toMatchObject({
      trial: 1,
      status: 'infeasible',
      feasible: false,
      reason: 'served once, but not in its second load test: out of memory: 5.1 GiB of 3.8 GiB',
    })
    // Later it served again.
    expect(judgeUnder({}, tried(1, A, 100), died, again(3, A, [[97, 34]]))[0]).toMatchObject({
      status: 'confirmed',
      capacityRps: 97,
    })
  })

  test('at most so much is no capacity to stand by', () => {
    const cut = tried(1, A, 891, {
      outcome: 'pruned',
      capacityCi90Rps: [0, 891],
      bounds: 'upper',
      detail: '12 % dearer at best',
    })
    expect(candidateOf(cut)).toMatchObject({
      feasible: false,
      reason: 'serves at most 891 req/s: 12 % dearer at best',
      bound: 'upper',
    })
  })
})

describe('what was asked for beside the SLO', () => {
  const quality = ({ gpuMemoryPercent }: Configuration) => Number(gpuMemoryPercent) / 100
  test('a quality', () => {
    expect(candidateOf(tried(1, A, 100), { quality, minQuality: 0.3 })).toMatchObject({
      feasible: false,
      quality: 0.25,
      reason: 'its quality is 0.25, less than 0.3',
    })
    for (const minQuality of [0.25, undefined])
      expect(candidateOf(tried(1, A, 100), { quality, minQuality })).toMatchObject({
        feasible: true,
        quality: 0.25,
      })
    expect(candidateOf(tried(1, A, 100), { minQuality: 0.3 })).toMatchObject({ feasible: true })
    expect(candidateOf(tried(1, A, 100))).not.toHaveProperty('quality')
  })

  test('a price per hour', () => {
    const within = (maxPricePerHour: number) =>
      candidateOf(tried(1, A, 100), { objective: { kind: 'max-rate', maxPricePerHour } })
    expect(within(0.36)).toMatchObject({ feasible: true, cost: -90 })
    expect(within(0.35)).toMatchObject({
      feasible: false,
      reason: 'costs $0.36 per hour, more than $0.35',
    })
  })

  test('nothing is said of the objective where there is no price', () => {
    expect(candidateOf(tried(1, A, 100), { pricePerHour: () => Infinity })).toMatchObject({
      feasible: true,
      cost: Infinity,
    })
  })
})

describe('the order', () => {
  const order = (change: Partial<RankingCriteria>, ...trials: FinishedTrial[]) =>
    judgeUnder(change, ...trials).map(({ trial }) => trial)

  test('the cheapest first, then what cannot serve', () => {
    expect(order({}, outOfMemory(1, B), tried(2, C, 300), tried(3, A, 100))).toEqual([3, 2, 1])
  })

  test('as cheap: the higher capacity, then the earlier trial', () => {
    const D = { ...A, batchSize: 16 }
    expect(order({}, tried(1, A, 100), tried(2, B, 200))).toEqual([2, 1])
    expect(order({}, tried(4, D, 100), tried(3, A, 100))).toEqual([3, 4])
  })
})

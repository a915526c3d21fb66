import { describe, expect, test } from 'vitest'
import type { MetricReading } from '../../profiler/model/server-metric.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import type { Configuration, Objective } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { listCandidates } from './candidates.ts'
import { chooseConfirmationRound } from './confirmation-round.ts'
import { A, again, B, C, slow, tried } from './invented-trials.contract.ts'
import { recommend } from './recommend.ts'

const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
const depth = { kind: 'min-metric', metric: 'depth{m="a"}' } as const
const of = (value: number): readonly MetricReading[] => [
  { name: 'depth', labels: { m: 'a' }, value },
  { name: 'served_total', value: 90 },
]
const given = (trials: readonly FinishedTrial[], objective: Objective = depth, under = slo) =>
  recommend({
    slo: under,
    objective,
    trials,
    pricePerHour: ({ gpuMemoryPercent }: Configuration) => 0.0144 * Number(gpuMemoryPercent),
    label: ({ gpuMemoryPercent }: Configuration) => `${gpuMemoryPercent} %`,
    experimentId: 'e-1',
    provenance: 'measured',
    seed: 1,
  })

describe('the best by a metric of the server', () => {
  const trials = [
    tried(1, A, 100, { metrics: of(4) }),
    tried(2, B, 90, { metrics: of(-1) }),
    tried(3, C, 200, { metrics: of(0) }),
  ]

  test('is the one with the least, or most, of those that keep the SLO, whatever its sign, rate and price', () => {
    expect(given(trials)).toMatchObject({
      best: { trial: 2, cost: -1, metrics: { 'depth{m="a"}': -1, served_total: 90 } },
    })
    expect(given(trials, { ...depth, kind: 'max-metric' })).toMatchObject({
      best: { trial: 1, cost: -4 },
    })
  })

  test('others are told by their values: a share of what may be zero means nothing', () => {
    const { alternatives, verdict } = given(trials)
    expect(alternatives.map(({ trial, whyNot }) => [trial, whyNot])).toEqual([
      [3, 'depth{m="a"} 0 against -1'],
      [1, 'depth{m="a"} 4 against -1'],
    ])
    expect(verdict).toContain('depth{m="a"} -1, $0.72 per hour')
  })

  test('and so is the baseline, unless a ratio means something', () => {
    const start = (value: number) => ({
      ...tried(1, A, 100, { metrics: of(value) }),
      purpose: 'default' as const,
    })
    expect(given([start(0), trials[1]!]).verdict).toContain(
      'against depth{m="a"} 0 of the baseline',
    )
    expect(given([start(0), trials[1]!]).gainOverDefault).toBeUndefined()
    expect(given([start(6), tried(2, B, 90, { metrics: of(2) })])).toMatchObject({
      gainOverDefault: 3,
      verdict: expect.stringContaining('67 % lower than the baseline'),
    })
  })

  test('has none where nothing is served, or nothing was read', () => {
    const { alternatives, best } = given([
      slow(1, A),
      tried(2, B, 90),
      tried(3, C, 80, { metrics: of(9) }),
    ])
    expect(best).toMatchObject({ trial: 3 })
    expect(alternatives.map(({ trial, feasible }) => [trial, feasible])).toEqual([
      [2, false],
      [1, false],
    ])
    expect(alternatives[0]!.reason).toBe(
      'depth{m="a"}, which the objective ranks by, was not read at 90 req/s',
    )
    expect(alternatives[1]).not.toHaveProperty('metrics')
  })
})

test('a value is that of the rate it was read at: under another SLO, at another rate, there is none', () => {
  const windows = [
    [40, 20],
    [80, 35],
  ] as const
  const trial = tried(1, A, 100, { metrics: of(4), windows })
  const tight = given([trial], depth, { ...slo, limitMs: 30 })
  const [candidate] = listCandidates(tight)
  expect(candidate!.capacityRps).toBeGreaterThan(0)
  expect(candidate).not.toHaveProperty('metrics')
  expect(candidate).toMatchObject({
    feasible: false,
    reason: expect.stringContaining('was not read at'),
  })
})

test('a second measurement tells its own, at the rate that it held', () => {
  const { best } = given([
    tried(1, A, 100, { metrics: of(4) }),
    again(2, A, [[90, 40]], true, { metrics: of(3) }),
  ])
  expect(best).toMatchObject({
    status: 'confirmed',
    capacityRps: 90,
    cost: 3,
    metrics: { 'depth{m="a"}': 3 },
  })
})

test('one that was refuted is measured at a lower rate, by what is known of it, and has no value until then', () => {
  const trials = [
    tried(1, A, 100, { metrics: of(1), windows: [[60, 20]] }),
    tried(2, B, 90, { metrics: of(7) }),
    again(3, A, [[93, 60]]),
  ]
  const r = given(trials)
  expect(r.best).toMatchObject({ trial: 2 })
  expect(r.alternatives[0]).toMatchObject({
    trial: 1,
    status: 'refuted',
    feasible: false,
    missed: { metrics: { 'depth{m="a"}': 1 } },
  })
  expect(chooseConfirmationRound(r, () => false)).toMatchObject({
    candidate: { trial: 1 },
    rateRps: 0.95 * 93,
  })
  // Not before one that is better by what was read of both.
  expect(
    chooseConfirmationRound(
      given([tried(1, A, 100, { metrics: of(9) }), ...trials.slice(1)]),
      () => false,
    ),
  ).toMatchObject({
    candidate: { trial: 2 },
  })
})

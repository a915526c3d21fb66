import { describe, expect, test } from 'vitest'
import { sampleInput } from '../samples.contract.ts'
import {
  A,
  again,
  B,
  C,
  disturbed,
  failed,
  outOfMemory,
  tried,
} from './invented-trials.contract.ts'
import { type RecommendInput, recommend } from './recommend.ts'

/** A costs $0.36 an hour, B twice, C four times as much. */
const given = (trials: RecommendInput['trials'], change: Partial<RecommendInput> = {}) =>
  recommend({
    ...sampleInput,
    provenance: 'measured',
    notices: [],
    label: ({ gpuMemoryPercent, batchSize }) => `${gpuMemoryPercent} % at ${batchSize}`,
    pricePerHour: ({ gpuMemoryPercent }) => 0.0144 * Number(gpuMemoryPercent),
    trials,
    ...change,
  }).caveats

test('none of a measured best far ahead of the others', () => {
  expect(given([tried(1, A, 100), tried(2, B, 100), again(3, A, [[97, 34]])])).toEqual([])
  expect(given([])).toEqual([])
  expect(given([], { notices: undefined })).toEqual([])
})

describe('of all', () => {
  test('what every reader must know, first and once', () => {
    expect(
      given([tried(1, A, 100, { caveats: ['noted', 'a pause'] })], { notices: ['noted'] }),
    ).toEqual(['noted', 'a pause'])
  })

  test('figures that are not measured say so, unless a notice has said it', () => {
    expect(given([], { provenance: 'simulated' })).toEqual([
      'the figures are simulated, not measured on the hardware they name',
    ])
    expect(given([], { provenance: 'emulated', notices: ['GPUs are EMULATED'] })).toEqual([
      'GPUs are EMULATED',
    ])
    expect(given([], { provenance: 'emulated', notices: ['GPUs are odd'] })).toHaveLength(2)
  })

  test('configurations that could not be measured, in number', () => {
    expect(given([failed(1, A)])).toEqual(['1 configuration could not be measured'])
    expect(given([failed(1, A), failed(2, B), outOfMemory(3, C)])).toEqual([
      '2 configurations could not be measured',
    ])
  })
})

test('configurations without a result, because the machine disturbed their trials, by name', () => {
  expect(
    given([
      tried(1, A, 100),
      tried(2, B, 0, disturbed),
      tried(3, B, 0, disturbed),
      tried(4, C, 0, disturbed),
    ]),
  ).toEqual([
    'no result, other work on this machine disturbed every trial: 50 % at 8 (trial 3); 100 % at 8 (trial 4)',
  ])
  expect(
    given([tried(1, A, 100), tried(2, B, 0, disturbed), tried(3, B, 90)]).join(),
  ).not.toContain('no result')
})

describe('of the best', () => {
  test('read off load curves of another SLO', () => {
    expect(given([tried(1, A, 100)], { slo: { ...sampleInput.slo, limitMs: 40 } })).toContain(
      'derived from load curves measured under another SLO: confirm it before you rely on it',
    )
  })

  test('a lower bound', () => {
    const atLeast = {
      outcome: 'generator-limit',
      capacityCi90Rps: [100, Infinity],
      bounds: 'lower',
    } as const
    expect(given([tried(1, A, 100, atLeast)])).toEqual([
      'the capacity is a lower bound: nothing above 100 req/s was measured',
      'the capacity is uncertain: at least 100 req/s (90 % interval)',
    ])
  })

  test('an interval that is wider than half as much again', () => {
    const within = (low: number, high: number) =>
      given([tried(1, A, 100, { capacityCi90Rps: [low, high] })])
    expect(within(80, 120)).toEqual([])
    expect(within(80, 121)).toEqual(['the capacity is uncertain: 80 to 121 req/s (90 % interval)'])
    expect(within(0.5, 101)).toEqual([
      'the capacity is uncertain: 0.5 to 101 req/s (90 % interval)',
    ])
  })

  test('a second load test that violated the SLO', () => {
    expect(given([tried(1, A, 100), again(2, A, [[85, 65]])])).toContain(
      'not confirmed: it violated the SLO at 85 req/s in its second load test (p99 65 ms); 50 req/s met it',
    )
  })

  const spoilt =
    'its second load test is inconclusive: the machine or the load generator was too busy'
  test('an inconclusive second load test, of its own and no other', () => {
    expect(given([tried(1, A, 100), again(2, A, [[97, 90]], true, disturbed)])).toEqual([spoilt])
    expect(
      given([tried(1, A, 100), tried(2, B, 100), again(3, B, [[97, 90]], true, disturbed)]),
    ).toEqual([])
    expect(
      given([tried(1, A, 100), again(2, A, [[97, 90]], true, disturbed), again(3, A, [[97, 34]])]),
    ).toEqual([])
    expect(given([tried(1, A, 100), { ...failed(2, A), purpose: 'confirmation' }])).toEqual([])
    expect(given([tried(1, A, 100), tried(2, A, 100)])).toEqual([])
  })

  test('what its measurement says of itself', () => {
    expect(
      given([
        tried(1, A, 100, { caveats: ['a pause'] }),
        tried(2, B, 100, { caveats: ['another'] }),
      ]),
    ).toEqual(['a pause'])
  })
})

describe('of rivals', () => {
  const confirmed = [tried(1, A, 100), again(2, A, [[97, 34]])]
  const at = (number: number, batchSize: number, capacityRps: number) =>
    tried(number, { ...B, batchSize }, capacityRps)

  test('better by one measurement, and close ones apart', () => {
    // B costs twice as much: 220 req/s are more per dollar than 97 of A, also a tenth less of them;
    // 190 within the intervals.
    expect(given([...confirmed, at(3, 1, 220), at(4, 2, 190), at(5, 4, 150)])).toEqual([
      'could beat the best if confirmed: 50 % at 1 (trial 3)',
      'statistically tied with the best: 50 % at 2 (trial 4)',
    ])
  })

  test('three are named, the others counted', () => {
    const rivals = [190, 191, 192, 193, 189].map((rps, i) => at(3 + i, 2 ** i, rps))
    expect(given([...confirmed, ...rivals])).toEqual([
      'statistically tied with the best: 50 % at 8 (trial 6); 50 % at 4 (trial 5); 50 % at 2 (trial 4) and 2 more',
    ])
    expect(given([...confirmed, ...rivals.slice(0, 3)]).join()).not.toContain('more')
  })

  test('one that was cut short, where its bound would win', () => {
    const cut = (capacityRps: number) =>
      tried(3, B, capacityRps, {
        outcome: 'pruned',
        capacityCi90Rps: [0, capacityRps],
        bounds: 'upper',
      })
    expect(given([...confirmed, cut(200)])).toEqual([
      'could beat the best if confirmed: 50 % at 8 (trial 3)',
    ])
    expect(given([...confirmed, cut(190)])).toEqual([])
    expect(given([...confirmed, cut(0)])).toEqual([])
  })

  test('none of those that cannot serve', () => {
    expect(given([...confirmed, outOfMemory(3, B)])).toEqual([])
  })
})

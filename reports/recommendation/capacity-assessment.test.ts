import { describe, expect, test } from 'vitest'
import type { Measurement } from '../../profiler/model/measurement.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { assessCapacity } from './capacity-assessment.ts'
import type { CompleteTrial } from './confirmation-result.ts'
import { A, again, B, disturbed, failed, outOfMemory, tried } from './invented-trials.contract.ts'
import { groupByConfiguration } from './ranking.ts'

const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
const confirmation = (trial: FinishedTrial): FinishedTrial => ({
  ...trial,
  purpose: 'confirmation',
})

describe('which trials stand for a configuration', () => {
  const standing = (...trials: FinishedTrial[]) =>
    groupByConfiguration(trials).map(({ trial, confirmations }) => [
      trial.number,
      confirmations.map(({ number }) => number),
    ])

  const bound = {
    capacityRps: 3,
    capacityCi90Rps: [3, Number.POSITIVE_INFINITY],
    bounds: 'lower',
  } as const
  test.each<[string, FinishedTrial[], [number, number[]][]]>([
    [
      'each configuration has its own',
      [tried(1, A, 100), tried(2, B, 200)],
      [
        [1, []],
        [2, []],
      ],
    ],
    [
      'the last one that tells anything',
      [tried(1, A, 100), outOfMemory(2, A), tried(3, A, 90)],
      [[3, []]],
    ],
    ['a failed one only where there is nothing better', [failed(1, A), failed(2, A)], [[2, []]]],
    [
      'one that the machine spoilt neither',
      [tried(1, A, 100), tried(2, A, 0, disturbed)],
      [[1, []]],
    ],
    [
      'nor in place of a bound',
      [tried(1, A, 3, { ...disturbed, ...bound }), tried(2, A, 0, disturbed), failed(3, A)],
      [[1, []]],
    ],
    [
      'one that was spoilt in place of a failure',
      [failed(1, A), tried(2, A, 0, disturbed), failed(3, A)],
      [[2, []]],
    ],
    ['a later success in place of a failure', [failed(1, A), tried(2, A, 100)], [[2, []]]],
    ['a failure in place of nothing that was known', [tried(1, A, 100), failed(2, A)], [[1, []]]],
    [
      'confirmations in time order',
      [tried(1, A, 100), again(2, A, [[97, 40]]), again(3, A, [[97, 41]])],
      [[1, [2, 3]]],
    ],
    [
      'a confirmation belongs to its own configuration',
      [tried(1, A, 100), tried(2, B, 100), again(3, B, [[97, 40]])],
      [
        [1, []],
        [2, [3]],
      ],
    ],
    [
      'a confirmation that failed says nothing',
      [tried(1, A, 100), confirmation(failed(2, A))],
      [[1, []]],
    ],
    [
      'one that could not serve does',
      [tried(1, A, 100), confirmation(outOfMemory(2, A))],
      [[1, [2]]],
    ],
    [
      'confirmations outlast a new first measurement',
      [tried(1, A, 100), again(2, A, [[97, 40]]), tried(3, A, 110)],
      [[3, [2]]],
    ],
    ['where the first is lost, a confirmation stands for it', [again(2, A, [[97, 40]])], [[2, []]]],
  ])('%s', (_, trials, expected) => {
    expect(standing(...trials)).toEqual(expected)
  })
})

const known = (first: FinishedTrial, confirmations: FinishedTrial[] = [], asked: Slo = slo) =>
  assessCapacity(first as CompleteTrial, confirmations as CompleteTrial[], asked)
const first = tried(1, A, 100, {
  windows: [
    [50, 20],
    [70, 30],
  ],
})

describe('measured once', () => {
  test('its estimate, and the latency at which it was made', () => {
    expect(known(first)).toMatchObject({
      status: 'measured',
      capacityRps: 100,
      capacityCi90Rps: [97, 103],
      sloMs: 50,
      sloMsFrom: 'model',
    })
  })

  test('a window that kept the SLO within half a percent of the estimate tells the latency there', () => {
    const at = (rate: number, p99Ms = 44) => known(tried(1, A, 100, { windows: [[rate, p99Ms]] }))
    expect(at(100.4)).toMatchObject({ sloMs: 44, sloMsFrom: 'measured' })
    expect(at(99.6)).toMatchObject({ sloMs: 44, sloMsFrom: 'measured' })
    expect(at(100.6)).toMatchObject({ sloMsFrom: 'model' })
    expect(at(99.4)).toMatchObject({ sloMsFrom: 'model' })
    expect(at(100, 51)).toMatchObject({ sloMsFrom: 'model' })
  })

  test.each<[string, Partial<Measurement>, string, string]>([
    [
      'cut short: at most',
      { outcome: 'pruned', capacityCi90Rps: [0, 100], bounds: 'upper' },
      'bound',
      'upper',
    ],
    [
      'the limit of the generator: at least',
      { outcome: 'generator-limit', capacityCi90Rps: [100, Infinity], bounds: 'lower' },
      'bound',
      'lower',
    ],
    [
      'an interval that begins at nothing, though it is called held',
      { capacityCi90Rps: [0, 120], bounds: 'both' },
      'bound',
      'upper',
    ],
    [
      'an interval about the estimate',
      { capacityCi90Rps: [80, 120], bounds: 'both' },
      'measured',
      'both',
    ],
  ])('%s', (_, change, status, how) => {
    expect(known(tried(1, A, 100, change))).toMatchObject({ status, bounds: how, capacityRps: 100 })
  })

  test('nothing kept the SLO: the idle latency is what is known', () => {
    const none = tried(1, A, 0, {
      outcome: 'slo-unattainable',
      capacityCi90Rps: [0, 0],
      windows: [],
    })
    expect(known(none)).toMatchObject({
      status: 'measured',
      capacityRps: 0,
      sloMs: 8,
      sloMsFrom: 'unloaded',
    })
  })

  test('spoilt by the machine: nothing is known', () => {
    expect(known(tried(1, A, 0, { ...disturbed, windows: [] }))).toMatchObject({
      status: 'inconclusive',
      capacityRps: 0,
      sloMsFrom: 'unloaded',
    })
  })
})

describe('measured again', () => {
  test('what held takes the place of the estimate; above, the first bound stays', () => {
    expect(known(first, [again(2, A, [[97, 34]])])).toMatchObject({
      status: 'confirmed',
      capacityRps: 97,
      capacityCi90Rps: [97, 103],
      bounds: 'both',
      sloMs: 34,
      sloMsFrom: 'measured',
      derived: false,
    })
  })

  test('too few requests: held, and surely a little less', () => {
    const { status, capacityCi90Rps } = known(first, [again(2, A, [[97, 34]], false)])
    expect(status).toBe('met')
    expect(capacityCi90Rps[0]).toBeCloseTo(0.95 * 97, 9)
    expect(capacityCi90Rps[1]).toBe(103)
  })

  test('held above all that the first allowed: its own rate is the upper end', () => {
    expect(known(first, [again(2, A, [[110, 34]])]).capacityCi90Rps).toEqual([110, 110])
  })

  test('nothing bounds it from above where nothing bounded the first', () => {
    const open = tried(1, A, 100, {
      outcome: 'generator-limit',
      capacityCi90Rps: [100, Infinity],
      bounds: 'lower',
    })
    expect(known(open, [again(2, A, [[97, 34]])])).toMatchObject({
      bounds: 'lower',
      capacityCi90Rps: [97, Infinity],
    })
  })

  test('what missed leaves the highest rate below it that held, first measurement or second', () => {
    const missed = again(2, A, [
      [97, 90],
      [85, 65],
    ])
    expect(known(first, [missed])).toMatchObject({
      status: 'refuted',
      capacityRps: 70,
      capacityCi90Rps: [70, 85],
      bounds: 'both',
      sloMs: 30,
      sloMsFrom: 'measured',
      derived: false,
    })
    const higher = tried(1, A, 100, {
      windows: [
        [50, 20],
        [95, 45],
        [85, 40],
        [70, 30],
      ],
    })
    expect(known(higher, [missed])).toMatchObject({ capacityRps: 70 })
  })

  test('what missed where nothing below is known to hold leaves no capacity', () => {
    const missed = again(2, A, [[40, 65]])
    expect(known(first, [missed])).toMatchObject({
      status: 'refuted',
      capacityRps: 0,
      capacityCi90Rps: [0, 40],
      bounds: 'upper',
    })
  })

  test('the last one that says anything counts', () => {
    const held = again(2, A, [[97, 34]])
    const missed = again(3, A, [[85, 65]])
    const spoilt = again(4, A, [[97, 90]], true, disturbed)
    expect(known(first, [held, missed]).status).toBe('refuted')
    expect(known(first, [missed, held]).status).toBe('confirmed')
    expect(known(first, [held, spoilt]).status).toBe('confirmed')
    expect(known(first, [spoilt]).status).toBe('measured')
  })

  test('windows and curve are of both', () => {
    const { windows, measurement } = known(first, [again(2, A, [[97, 34]])])
    expect(windows.map(({ rateRps }) => rateRps)).toEqual([50, 70, 97])
    expect(measurement.points).toHaveLength(3)
  })
})

describe('under another SLO', () => {
  const under = (limitMs: number, confirmations: FinishedTrial[]) =>
    known(first, confirmations, { ...slo, limitMs })

  test('a confirmation that keeps it confirms, unless the curve promises more than a tenth more', () => {
    expect(under(48, [again(2, A, [[97, 34]])])).toMatchObject({
      status: 'confirmed',
      capacityRps: 97,
      sloMs: 34,
      derived: false,
    })
    expect(under(48, [again(2, A, [[60, 24]])])).toMatchObject({
      status: 'measured',
      derived: true,
    })
    // The curve promises a little less than 100 req/s.
    expect(under(48, [again(2, A, [[92, 24]])]).status).toBe('confirmed')
    expect(under(48, [again(2, A, [[86, 24]])]).status).toBe('measured')
  })

  test('one that missed it refutes an estimate at or above it, and none below it', () => {
    const missed = again(2, A, [[97, 49]])
    expect(under(49.5, [again(2, A, [[70, 52]])])).toMatchObject({
      status: 'refuted',
      capacityRps: 50,
    })
    const below = under(31, [missed])
    expect(below.status).toBe('measured')
    expect(below.capacityRps).toBeLessThan(97)
    expect(below.capacityRps).toBeGreaterThan(60)
  })
})

describe('first and second measurement together', () => {
  const second = again(2, A, [[97, 34]], true, {
    unloaded: { ...(first as CompleteTrial).measurement.unloaded, requests: 500, p99Ms: 6 },
    saturationRps: 150,
    requests: 7000,
    caveats: ['of the second'],
  })

  test('the better known idle latency, the highest saturation, all requests, every caveat once', () => {
    const one = tried(1, A, 100, { caveats: ['of the first', 'of both'] })
    const more = {
      ...(second as CompleteTrial),
      measurement: {
        ...(second as CompleteTrial).measurement,
        caveats: ['of both', 'of the second'],
      },
    }
    expect(known(one, [more]).measurement).toMatchObject({
      unloaded: { requests: 500, p99Ms: 6 },
      saturationRps: 150,
      requests: 4000 + 7000,
      caveats: ['of the first', 'of both', 'of the second'],
    })
    const brief = {
      ...(second as CompleteTrial),
      measurement: {
        ...(second as CompleteTrial).measurement,
        unloaded: { ...(first as CompleteTrial).measurement.unloaded, requests: 5, p99Ms: 6 },
        saturationRps: 90,
      },
    }
    expect(known(one, [brief]).measurement).toMatchObject({
      unloaded: { requests: 200, p99Ms: 8 },
      saturationRps: 120,
    })
  })

  test('a caveat that a later measurement has with its own figures is told with those; one measurement may tell of several', () => {
    const one = tried(1, A, 100, {
      caveats: ['used up to 0.87 of one core', 'missed at 90', 'missed at 95'],
    })
    const more = {
      ...(second as CompleteTrial),
      measurement: {
        ...(second as CompleteTrial).measurement,
        caveats: ['used up to 0.11 of one core'],
      },
    }
    expect(known(one, [more]).measurement.caveats).toEqual([
      'missed at 90',
      'missed at 95',
      'used up to 0.11 of one core',
    ])
  })

  test('what a confirmation says of itself is about the SLO that it was made for', () => {
    expect(known(first, [second]).measurement.caveats).toEqual(['of the second'])
    expect(known(first, [second], { ...slo, limitMs: 40 }).measurement.caveats).toEqual([])
  })

  test('a first measurement alone is itself', () => {
    expect(known(first).measurement).toBe((first as CompleteTrial).measurement)
  })

  test('a window that missed at or below the first estimate takes it off the curve; one above does not', () => {
    const at = (rate: number) => known(first, [again(2, A, [[rate, 90]])]).measurement
    expect(at(100)).toMatchObject({ capacityRps: 0, capacityCi90Rps: [0, 103] })
    expect(at(101)).toMatchObject({ capacityRps: 100, capacityCi90Rps: [97, 103] })
    expect(known(first, [again(2, A, [[97, 34]])]).measurement).toMatchObject({ capacityRps: 100 })
    expect(
      known(first, [again(2, A, [[97, 90]]), again(3, A, [[90, 34]])]).measurement,
    ).toMatchObject({ capacityRps: 0 })
  })
})

test('curves are made as the caller makes them', () => {
  const knots = [{ rateRps: 10, latencyMs: 5, lowMs: 5, highMs: 5, requests: 1 }]
  expect(assessCapacity(first as CompleteTrial, [], slo, () => knots).curve).toBe(knots)
})

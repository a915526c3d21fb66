import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { countReplicas } from '../../search/objective.ts'
import { createPatternDemand, type Demand, parseDayTable } from './demand.ts'
import { findMinReplicas, simulateAutoscaledFleet, simulateStaticFleet } from './fleet.ts'
import { defaultBehaviour, type HpaSettings } from './hpa.ts'
import { findLosslessSettings } from './lossless.ts'
import { computeOverLimitShare, type FleetUnit } from './replica.ts'

const hundred: FleetUnit = {
  label: 'x',
  capacityRps: 100,
  percentile: 0.99,
  limitMs: 50,
  startupSeconds: 60,
  nodeSeconds: 0,
  replicasPerNode: 1,
}
const surroundings = { timeoutSeconds: 10, reactionSeconds: 30 }
const settings: HpaSettings = {
  targetRps: 80,
  minReplicas: 1,
  maxReplicas: Number.POSITIVE_INFINITY,
  behaviour: defaultBehaviour,
  countedRequests: 'arrived',
}
const spans = (...list: readonly (readonly [rps: number, seconds: number])[]): Demand => ({
  what: '',
  spans: list.map(([rps, seconds]) => ({ rps, seconds })),
})
const knot = (rateRps: number, latencyMs: number) => ({
  rateRps,
  latencyMs,
  lowMs: latencyMs,
  highMs: latencyMs,
  requests: 100,
})
const curved: FleetUnit = {
  ...hundred,
  saturationRps: 120,
  curve: [knot(0, 10), knot(50, 20), knot(100, 50), knot(110, 80)],
}

describe('one replica', () => {
  test('misses what the percentile allows at its capacity, less below, more above, everything at saturation', () => {
    const shares = [0, 50, 99, 100, 101, 110, 119, 120, 500].map((rps) =>
      computeOverLimitShare(curved, rps),
    )
    expect(shares.toSorted((a, b) => a - b)).toEqual(shares)
    expect(shares[1]).toBeCloseTo(0.01 ** 4, 12)
    expect(shares[3]).toBeCloseTo(0.01, 9)
    expect(shares[4]).toBeGreaterThan(0.01)
    expect(shares.slice(-2)).toEqual([1, 1])
    // 30 of the 50 ms are waited for.
    expect(computeOverLimitShare(curved, 50, 30)).toBeCloseTo(0.01, 9)
    expect(computeOverLimitShare(curved, 50, 45)).toBe(1)
  })

  test('a curve of fewer requests does not raise the capacity', () => {
    const generous = { ...curved, curve: [knot(0, 10), knot(120, 40)] }
    expect(computeOverLimitShare(generous, 101)).toBeGreaterThan(0.01)
  })
})

describe('a static fleet', () => {
  test('loses exactly the minutes beyond its capacity', () => {
    const day = parseDayTable('0-8:50, 8-10:400, 10-24:200')
    expect(simulateStaticFleet(hundred, day, 4, surroundings)).toMatchObject({
      lostMinutes: 0,
      lostHours: [],
    })
    const small = simulateStaticFleet({ ...hundred, saturationRps: 250 }, day, 2, surroundings)
    expect(small).toMatchObject({ lostMinutes: 120, lostHours: [8, 9] })
    expect(small.minutes).toBe(24 * 60)
  })

  test('says the hours that clocks show, whenever the trace begins', () => {
    const night = {
      ...spans([50, 3600], [400, 3600], [50, 79_200]),
      beginsAtS: Date.parse('2026-10-01T22:00:00Z') / 1000,
    }
    expect(
      simulateStaticFleet({ ...hundred, saturationRps: 250 }, night, 2, surroundings).lostHours,
    ).toEqual([23])
  })

  test('a queue builds up and drains: what was over for a minute loses the minutes after it, until it is empty', () => {
    // 60 s at 30 req/s too many leave 1,800, drained at 20 a second in 90 s: three minutes are
    // lost, and the queue of the last span carries over to the next period.
    const demand = spans([100, 600], [150, 60], [100, 600])
    const patient = { ...surroundings, timeoutSeconds: 60 }
    expect(simulateStaticFleet(curved, demand, 1, patient).lostMinutes).toBe(3)
    // Clients that give up after a second leave 120 to drain in six.
    expect(
      simulateStaticFleet(curved, demand, 1, { ...surroundings, timeoutSeconds: 1 }).lostMinutes,
    ).toBe(2)
    expect(simulateStaticFleet(curved, spans([100, 600], [150, 60]), 1, patient).lostMinutes).toBe(
      3,
    )
  })

  test('the percentile over the whole period forgives what minutes do not', () => {
    // Ten seconds in a day at twice the capacity: no minute's hundredth part, and far less than a
    // hundredth of the day.
    const blip = spans([50, 43_200], [200, 10], [50, 43_190])
    expect(findMinReplicas(curved, blip, 0, surroundings)).toEqual({
      everyMinute: 2,
      wholePeriod: 1,
    })
    expect(findMinReplicas(curved, spans([200, 86_400]), 0.2, surroundings)).toEqual({
      everyMinute: 3,
      wholePeriod: 3,
    })
  })

  test('never more than the peak takes, never fewer than the mean', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 900 }), { minLength: 1, maxLength: 12 }),
        (rates) => {
          const demand = spans(...rates.map((rps) => [rps, 300] as const))
          const { everyMinute, wholePeriod } = findMinReplicas(curved, demand, 0, surroundings)
          expect(everyMinute).toBe(
            countReplicas({ demandRps: Math.max(...rates), headroom: 0 }, 100),
          )
          expect(wholePeriod).toBeLessThanOrEqual(everyMinute)
          expect(wholePeriod).toBeGreaterThan(
            rates.reduce((sum, rps) => sum + rps, 0) / rates.length / 121,
          )
        },
      ),
      { numRuns: fc.readConfigureGlobal().numRuns ?? 40 },
    )
  })
})

describe('an autoscaled fleet', () => {
  test('loses the time from a rise to what it ordered, and pays until the window has passed', () => {
    const day = parseDayTable('0-12:75, 12-13:225, 13-24:75')
    const outcome = simulateAutoscaledFleet(hundred, day, settings, surroundings)
    // The rate is 30 s old and a mean of a minute: at 45 s the first look sees more than its
    // tolerance, at 90 s all; a replica takes 60 s, then waiting ones leave.
    expect(outcome.lostHours).toEqual([12])
    expect(outcome.lostMinutes).toBeGreaterThanOrEqual(2)
    expect(outcome.lostMinutes).toBeLessThanOrEqual(4)
    expect(outcome).toMatchObject({ minReplicas: 1, maxReplicas: 3 })
    // Two more for an hour and the five minutes of the window.
    expect(outcome.meanReplicas).toBeGreaterThan(1 + (2 * 3800) / 86_400)
    expect(outcome.meanReplicas).toBeLessThan(1 + (2 * 4000) / 86_400)
  })

  test('a node that has to come loses its time, too, and is paid for ten minutes longer', () => {
    const day = parseDayTable('0-12:75, 12-13:225, 13-24:75')
    const there = simulateAutoscaledFleet(hundred, day, settings, surroundings)
    const ordered = simulateAutoscaledFleet(
      { ...hundred, nodeSeconds: 240 },
      day,
      settings,
      surroundings,
    )
    expect(ordered.lostMinutes - there.lostMinutes).toBe(4)
    expect((ordered.meanReplicas - there.meanReplicas) * 86_400).toBeCloseTo(2 * 600, 6)
    // The second half of a node is free: it is paid for from the first on, and a replica finds it
    // without waiting.
    const shared = simulateAutoscaledFleet(
      { ...hundred, nodeSeconds: 240, replicasPerNode: 4 },
      day,
      settings,
      surroundings,
    )
    expect(shared).toMatchObject({ lostMinutes: there.lostMinutes, meanReplicas: 4 })
  })

  test('of what waits the answered requests say nothing: a target near the capacity is never left, which counting before the replicas does', () => {
    const rise = spans([75, 3600], [300, 3600])
    // 100 answered are within the tolerance of a target of 95.
    const near = { ...settings, targetRps: 95, countedRequests: 'answered' } as const
    expect(simulateAutoscaledFleet(hundred, rise, near, surroundings).maxReplicas).toBe(1)
    expect(
      simulateAutoscaledFleet(hundred, rise, { ...near, countedRequests: 'arrived' }, surroundings)
        .maxReplicas,
    ).toBe(3)
  })

  test('goes to none and wakes up, losing what comes before the first serves', () => {
    const seldom = spans([50, 1800], [0, 5400])
    const outcome = simulateAutoscaledFleet(
      { ...hundred, nodeSeconds: 240 },
      seldom,
      { ...settings, minReplicas: 0 },
      surroundings,
    )
    expect(outcome).toMatchObject({ minReplicas: 0, maxReplicas: 1 })
    // Seen at the first poll after 30 s; then a node and a start: within six minutes.
    expect(outcome.lostMinutes).toBeGreaterThanOrEqual(5)
    expect(outcome.lostMinutes).toBeLessThanOrEqual(6)
    expect(simulateAutoscaledFleet(hundred, seldom, settings, surroundings)).toMatchObject({
      lostMinutes: 0,
      minReplicas: 1,
      meanReplicas: 1,
    })
  })

  test('is played alike whether looks at which nothing changes are left out or not', () => {
    const long = spans([75, 21_600], [225, 21_600])
    const cut = {
      what: '',
      spans: long.spans.flatMap(({ rps, seconds }) =>
        Array.from({ length: seconds / 600 }, (_, i) => ({ rps: rps + i * 1e-9, seconds: 600 })),
      ),
    }
    const [a, b] = [long, cut].map((demand) =>
      simulateAutoscaledFleet(hundred, demand, settings, surroundings),
    )
    expect(a!.lostMinutes).toBe(b!.lostMinutes)
    expect(a!.meanReplicas).toBeCloseTo(b!.meanReplicas, 9)
    expect(a!.ready).toEqual(b!.ready)
  })
})

describe('settings that lose no minute', () => {
  test('are found where they cost less than a fleet that never changes, and lose none when played', () => {
    const unit = { ...curved, nodeSeconds: 240 }
    const day = createPatternDemand('daily', 2000)
    const most = findMinReplicas(unit, day, 0, surroundings).everyMinute
    const given = { ...settings, targetRps: 100, countedRequests: 'answered' } as const
    expect(simulateAutoscaledFleet(unit, day, given, surroundings).lostMinutes).toBeGreaterThan(0)
    const found = findLosslessSettings(unit, day, given, most, surroundings)!
    expect(found.outcome.lostMinutes).toBe(0)
    expect(found.outcome.meanReplicas).toBeLessThan(0.9 * most)
    expect(simulateAutoscaledFleet(unit, day, found.settings, surroundings)).toEqual(found.outcome)
    expect(found.settings.maxReplicas).toBeGreaterThan(found.outcome.maxReplicas)
  })

  test('are none where the demand never changes', () => {
    expect(
      findLosslessSettings(curved, spans([500, 86_400]), settings, 5, surroundings),
    ).toBeUndefined()
  })
})

import { describe, expect, test } from 'vitest'
import type { Offer } from '../../trials/prices/offers.ts'
import { toText } from '../report/document/markdown.ts'
import { type Demand, patternDemand, steadyDemand } from './demand.ts'
import { staticFleet } from './fleet.ts'
import { lostMinutesShare, type SpotRisk } from './interruptions.ts'
import { needsOf, planMix, type SpotTerms } from './mix-plan.ts'
import { planBlocks } from './plan-blocks.ts'
import { planCapacity } from './plan-capacity.ts'
import { hoursPerMonth } from './plan-costs.ts'
import { playSpot } from './played-spot.ts'
import type { FleetUnit } from './replica.ts'

/** Breaks the SLO beyond its capacity, and has no queue up to twice that. */
const unit: FleetUnit = {
  label: 'x',
  capacityRps: 100,
  saturationRps: 200,
  percentile: 0.99,
  limitMs: 50,
  startupSeconds: 90,
  nodeSeconds: 240,
  perNode: 1,
}
const surroundings = { timeoutSeconds: 10, reactionSeconds: 30 }
const offer: Offer = {
  replicasEach: 1,
  onDemandPerHour: 1,
  committedPerHour: 0.6,
  spotPerHour: 0.3,
}
const terms: SpotTerms = {
  interruptionsPerHour: 0.05,
  noticeSeconds: 120,
  lostShare: 0.001,
  mostShare: 1,
  zones: 1,
}
const paid = (...steps: (readonly [seconds: number, replicas: number])[]) => ({
  paid: steps.map(([seconds, replicas]) => ({ seconds, replicas })),
})
const mixed = (
  demand: Demand,
  replicas: number,
  spot: SpotTerms | undefined,
  offers = [offer],
  of = unit,
) =>
  planMix({
    unit: of,
    offers,
    demand,
    surroundings,
    zones: 3,
    ...(spot && { spot }),
    outcome: staticFleet(of, demand, replicas, surroundings),
  })

test('what is needed, by how long, in whole instances', () => {
  const needs = needsOf(paid([0, 1], [6 * 3600, 5], [18 * 3600, 4]), 86_400, 4, (n) => n)
  expect(needs).toEqual([
    { instances: 1, share: 0.5 },
    { instances: 2, share: 0.5 },
  ])
})

describe('the mix of a plan', () => {
  test('of a fleet that never changes all are committed to, and each row beside the other ways to buy', () => {
    const { rows, fleet } = mixed(steadyDemand(400), 4, undefined)!
    expect(fleet).toBe('static')
    expect(
      rows.map(({ keeps, mix, perMonth }) => [keeps, mix.committed, Math.round(perMonth.all)]),
    ).toEqual([
      ['as planned', 4, 4 * 432],
      ['N+1', 5, 5 * 432],
      ['a zone lost', 6, 6 * 432],
    ])
    expect(rows[0]).toMatchObject({
      allOnDemandPerMonth: 4 * hoursPerMonth,
      allCommittedPerMonth: 4 * 0.6 * hoursPerMonth,
      lostShare: 0,
    })
  })

  test('the instance that makes the cheapest mix is not always the one that is cheapest on demand', () => {
    const other: Offer = {
      instance: 'box',
      replicasEach: 2,
      onDemandPerHour: 2.2,
      committedPerHour: 0.9,
    }
    const { rows } = mixed(steadyDemand(400), 4, undefined, [offer, other])!
    expect(rows[0]).toMatchObject({
      offer: { instance: 'box' },
      mix: { committed: 2 },
      allOnDemandPerMonth: 4 * hoursPerMonth,
    })
    expect(rows[0]!.perMonth.all).toBeCloseTo(1.8 * hoursPerMonth, 9)
  })

  test('without prices of anything but on demand there is none', () => {
    expect(
      mixed(steadyDemand(400), 4, undefined, [{ replicasEach: 1, onDemandPerHour: 1 }]),
    ).toBeUndefined()
    expect(
      mixed(steadyDemand(400), 4, undefined, [
        { replicasEach: 1, onDemandPerHour: 1, spotPerHour: 0.1 },
      ]),
    ).toBeUndefined()
  })

  test('spot with spares keeps what is allowed, by the model and as played', () => {
    const plan = mixed(steadyDemand(990), 10, terms)!
    const [{ mix, lostShare }] = plan.rows as [(typeof plan.rows)[number]]
    expect(mix.levels[0]).toMatchObject({ spotNeeded: 10, spot: 11, onDemand: 0 })
    expect(lostShare).toBeLessThanOrEqual(terms.lostShare)
    expect(plan.played!.interruptions).toBeGreaterThan(1000)
    expect(plan.played!.lostMinutes / plan.played!.minutes).toBeLessThanOrEqual(terms.lostShare)
    expect(plan.risk!.outSeconds).toBe(210)
  })

  test('of a need that changes: what is committed stays, and the bills are those of each hour', () => {
    const outcome = {
      ...staticFleet(unit, steadyDemand(400), 4, surroundings),
      ...paid([0, 1], [64_800, 6]),
      leastReplicas: 1,
      mostReplicas: 6,
    }
    const of = {
      unit,
      offers: [{ ...offer, replicasEach: 2 }],
      demand: steadyDemand(400),
      surroundings,
      zones: 3,
      outcome,
    }
    const { rows, fleet } = planMix(of)!
    expect(fleet).toBe('autoscaled')
    // One instance three quarters of the time, three a quarter: the first alone is used for more
    // than 60 % of it.
    expect(rows[0]!.mix.committed).toBe(1)
    expect(rows[0]!.perMonth.all).toBeCloseTo((0.6 + 0.25 * 2) * hoursPerMonth, 9)
    expect(rows[0]!.allOnDemandPerMonth).toBeCloseTo(1.5 * hoursPerMonth, 9)
    expect(rows[0]!.allCommittedPerMonth).toBeCloseTo(3 * 0.6 * hoursPerMonth, 9)
    expect(rows.map(({ mix }) => mix.levels.map(({ instances }) => instances))).toEqual([
      [1, 3],
      [2, 4],
      [2, 5],
    ])
    const dear = planMix({
      ...of,
      offers: [
        { ...of.offers[0]!, committedPerHour: 0.8 },
        { ...of.offers[0]!, onDemandPerHour: 2 },
      ],
    })!
    expect(dear.rows[0]).toMatchObject({
      allOnDemandPerMonth: 1.5 * hoursPerMonth,
      allCommittedPerMonth: 3 * 0.6 * hoursPerMonth,
    })
    const spot = planMix({ ...of, spot: { ...terms, zones: 3 } })!
    const { risk } = spot
    const lost = spot.rows[0]!.mix.levels.map(
      (l) => l.share * lostMinutesShare(l.spot, l.spot - l.spotNeeded, risk!),
    )
    expect(spot.rows[0]!.lostShare).toBeCloseTo(lost[0]! + lost[1]!, 12)
    expect(spot.rows[0]!.lostShare).toBeGreaterThan(0)
    // A zone's loss counted once: the spare ones of its spot are not bought again.
    expect(spot.rows[2]!.mix.levels.map((l) => [l.spotNeeded, l.spot])).toEqual([
      [2, 3],
      [5, 6],
    ])
    expect(spot.rows[0]!.mix.levels.map((l) => [l.spotNeeded, l.spot])).toEqual([
      [1, 2],
      [3, 5],
    ])
  })

  test('where a zone’s spot may vanish at once, the rest carries all; no more than a share is spot', () => {
    const { rows } = mixed(steadyDemand(400), 4, { ...terms, zones: 3, mostShare: 0.5 })!
    const { spot, spotNeeded } = rows[0]!.mix.levels[0]!
    expect(spotNeeded).toBe(2)
    expect(spot).toBe(3)
  })
})

describe('interruptions as played', () => {
  const risk: SpotRisk = { ...terms, outSeconds: 1800, interruptionsPerHour: 1 / 12 }
  const spot = (spotNeeded: number, spares: number) => () => ({
    committed: 0,
    onDemand: 0,
    spotNeeded,
    spot: spotNeeded + spares,
  })
  const played = (
    demand: Demand,
    replicas: number,
    spares: number,
    replicasEach = 1,
    days = 300,
  ) => {
    const fleet = staticFleet(unit, demand, replicas, surroundings)
    return playSpot(
      {
        unit,
        demand,
        surroundings,
        fleet,
        replicasEach,
        split: spot(replicas / replicasEach, spares),
        risk,
      },
      days,
      3,
    )
  }

  test.each([
    [4, 0],
    [4, 1],
    [10, 2],
  ])(
    '%i at their capacity and %i to spare lose the minutes that the model says',
    (replicas, spares) => {
      const { lostMinutes, minutes, interruptions, days } = played(
        steadyDemand(100 * replicas),
        replicas,
        spares,
      )
      const model = lostMinutesShare(replicas + spares, spares, risk)
      expect(lostMinutes / minutes / model).toBeGreaterThan(0.85)
      expect(lostMinutes / minutes / model).toBeLessThan(1.1)
      // Each is up for 12 hours and out for half an hour.
      expect(interruptions / ((days * 24 * (replicas + spares)) / 12.5)).toBeCloseTo(1, 1)
    },
  )

  test('a fleet that changes is exposed as it is: one half of the day, five the other, the demand with them', () => {
    const halves = [
      { rps: 100, seconds: 43_200 },
      { rps: 500, seconds: 43_200 },
    ]
    const ready = [
      { seconds: 0, replicas: 1 },
      { seconds: 43_200, replicas: 5 },
    ]
    const split = (instances: number) => ({
      committed: 0,
      onDemand: 0,
      spotNeeded: instances,
      spot: instances,
    })
    const fleet = {
      unit,
      demand: { spans: halves, what: '' },
      surroundings,
      fleet: { ready },
      replicasEach: 1,
      split,
      risk,
    }
    const { lostMinutes, minutes, interruptions, days } = playSpot(fleet, 300, 3)
    const model = (lostMinutesShare(1, 0, risk) + lostMinutesShare(5, 0, risk)) / 2
    expect(days).toBe(300)
    expect(lostMinutes / minutes / model).toBeGreaterThan(0.9)
    expect(lostMinutes / minutes / model).toBeLessThan(1.1)
    expect(interruptions / ((days * 24 * 3) / 12.5)).toBeCloseTo(1, 1)
  })

  test('what is taken is back just when its replacement serves', () => {
    // 90 s, to the second: a fleet of one loses two or three minutes to each.
    const brief = { ...risk, outSeconds: 90, interruptionsPerHour: 0.5 }
    const demand = steadyDemand(100)
    const fleet = staticFleet(unit, demand, 1, surroundings)
    const { lostMinutes, interruptions } = playSpot(
      { unit, demand, surroundings, fleet, replicasEach: 1, split: spot(1, 0), risk: brief },
      100,
      3,
    )
    expect(lostMinutes / interruptions).toBeCloseTo(2.5, 1)
  })

  test('an instance takes all its replicas along', () => {
    const alone = played(steadyDemand(400), 4, 0, 4)
    expect(alone.lostMinutes / alone.minutes / lostMinutesShare(1, 0, risk)).toBeCloseTo(1, 0)
    expect(alone.lostMinutes).toBeLessThan(0.4 * played(steadyDemand(400), 4, 0).lostMinutes)
    // Four of four on each, and one to spare: as many as the ready ones fill.
    const day = steadyDemand(1600)
    const split = (instances: number) => ({
      committed: 0,
      onDemand: 0,
      spotNeeded: instances,
      spot: instances + 1,
    })
    const fleet = staticFleet(unit, day, 16, surroundings)
    const four = playSpot(
      { unit, demand: day, surroundings, fleet, replicasEach: 4, split, risk },
      300,
      3,
    )
    expect(four.lostMinutes / four.minutes / lostMinutesShare(5, 1, risk)).toBeGreaterThan(0.85)
    expect(four.lostMinutes / four.minutes / lostMinutesShare(5, 1, risk)).toBeLessThan(1.1)
  })

  test('where the demand leaves room, less is lost, and never more', () => {
    const day = patternDemand('daily', 400)
    const roomy = played(day, 4, 0)
    expect(roomy.lostMinutes).toBeGreaterThan(0)
    expect(roomy.lostMinutes / roomy.minutes).toBeLessThan(0.8 * lostMinutesShare(4, 0, risk))
    expect(played(steadyDemand(300), 4, 0, 1, 30).lostMinutes).toBeLessThan(
      0.5 * played(steadyDemand(400), 4, 0, 1, 30).lostMinutes,
    )
  })
})

describe('the mix in words', () => {
  const textWith = async (spot?: SpotTerms) => {
    const planUnit = {
      ...unit,
      trial: 1,
      status: 'confirmed',
      resources: { cpuCores: 1, memoryMiB: 1024, gpus: 0, gpuShare: 0 },
      prices: [{ name: 'list', currency: 'USD', perHour: 1 }],
      offers: [offer],
    } as const
    const plan = planCapacity({
      units: [planUnit],
      slo: { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 },
      demand: steadyDemand(400),
      headroom: 0,
      growthPerMonth: 0,
      months: 1,
      zones: 3,
      surroundings,
      minReplicas: 1,
      ...(spot && { spot }),
    })
    return toText(await planBlocks(plan, []))
  }

  test('numbers and money of each, and what was not asked for', async () => {
    const text = await textWith()
    expect(text).toContain('$2,880 per month, or $1,728 in the cheapest mix of ways to buy')
    expect(text).toMatch(/as planned +4 +0 +\$1,728 +\$2,880 +\$1,728/)
    expect(text).toContain('4 needed 100 % of the time: 4 committed')
    expect(text).toContain('where it is needed more than 60 % of the time')
    expect(text).toContain('without spot: give --spot')
  })

  test('spot with its terms, its spares, and what was lost; the table in 80 columns', async () => {
    const text = await textWith(terms)
    expect(text).toContain('(interruptions may lose 0.1 % of the minutes)')
    expect(text).toMatch(/4 needed 100 % of the time: 5 spot \(1 to spare\)/)
    expect(text).toMatch(
      /taken once in 20 h from each instance, at random, and its replacement serves 210 s later/,
    )
    expect(text).toMatch(
      /played for 100 days in virtual time, \d+ interruptions lost \d+ of 144,000 minutes/,
    )
    const rows = text
      .split('\n')
      .filter((line) => /^(keeps|as planned|N\+1|a zone lost) /.test(line))
    expect(rows).toHaveLength(4)
    for (const row of rows) expect(row.length).toBeLessThanOrEqual(80)
  })
})

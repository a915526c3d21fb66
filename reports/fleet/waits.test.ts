import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DrawnRequests, playTurns, type TakingTurns, togetherIn, waitsAtRises } from './waits.ts'

const steady = (rps: number) => [{ rps, seconds: 86_400 }]
const turner = (more: Partial<TakingTurns> & { readonly rps?: number }): TakingTurns => ({
  asked: { spans: steady(more.rps ?? 0.01), beginsS: 0, carriedRps: 1 },
  ...{ factor: 1, rateRps: 1e6, loadS: 1e-6, answerS: 0, slackS: 0, mayBeLate: 1 },
  ...more,
})

describe('on demand', () => {
  test('of Poisson arrivals a request loads its model unless the one before it was for the same', () => {
    const [a, b, c] = playTurns([turner({ rps: 0.02 }), turner({ rps: 0.05 }), turner({ rps: 0.03 })])!
    for (const [waits, rps] of [
      [a, 0.02],
      [b, 0.05],
      [c, 0.03],
    ] as const) {
      const expected = 86_400 * rps * (1 - rps / 0.1)
      expect(Math.abs(waits!.loadsPerDay / expected - 1)).toBeLessThan(0.05)
      expect(Math.abs(waits!.waiting - (1 - rps / 0.1))).toBeLessThan(0.03)
    }
  })

  test('one whose SLO is longer than a load and the other’s answers keeps it, and one that is shorter does not', () => {
    const pair = (slackS: number) => [
      turner({ loadS: 20, answerS: 5, slackS, mayBeLate: 0.005 }),
      turner({ loadS: 30, answerS: 5, slackS, mayBeLate: 0.005 }),
    ]
    const [a, b] = playTurns(pair(600))!
    expect(a!.waiting).toBeGreaterThan(0.3)
    expect([a!.late, b!.late].every((late) => late < 0.005)).toBe(true)
    expect(a!.longestS).toBeGreaterThanOrEqual(20)
    expect(playTurns(pair(10))).toBeUndefined()
  })

  test('how many are late is told by two standard errors more, and of none that were, three', () => {
    const [a] = playTurns([turner({ loadS: 20, slackS: 10 }), turner({ loadS: 20, slackS: 10 })])!
    const none = playTurns([turner({ loadS: 20, slackS: 1e5 }), turner({ loadS: 20, slackS: 1e5 })])!
    expect(none[0]!.late).toBe(3 / none[0]!.requests)
    // Every other request loads, and of those that come while one is loaded half wait so long.
    expect(a!.late).toBeGreaterThan(0.5)
    expect(a!.late).toBeLessThan(a!.waiting)
  })

  test('requests come when their period says, day by day, however it lies to midnight', () => {
    const came = new DrawnRequests()
    const asked = {
      spans: [
        { rps: 1, seconds: 600 },
        { rps: 0, seconds: 50_000 },
      ],
      beginsS: 3600,
      carriedRps: 1,
    }
    const days = [0, 1, 2, 3].map((day) => came.on(day, turner({ asked, rateRps: 5 })))
    for (const [day, times] of days.entries()) {
      expect(times).toEqual([...times].sort((a, b) => a - b))
      for (const atS of times) {
        expect(Math.floor(atS / 86_400)).toBe(day)
        const since = (((atS - 3600) % 50_600) + 50_600) % 50_600
        expect(since).toBeLessThan(600)
      }
    }
    expect(Math.abs(days.flat().length - (4 * 86_400 * 600) / 50_600)).toBeLessThan(700)
    expect(came.on(2, turner({ asked }))).toBe(days[2])
    const other = came.on(2, turner({ asked: { ...asked } }))
    expect(other).not.toEqual(days[2])
  })

  test('bursts far apart survive loads that a steady rate of as many does not: only what comes during a load waits', () => {
    // 1,200 requests in two minutes, every four hours; two hours later those of the other.
    const bursts = (beginsS: number) => ({
      spans: [
        { rps: 10, seconds: 120 },
        { rps: 0, seconds: 14_280 },
      ],
      beginsS,
      carriedRps: 10,
    })
    const of = (asked: TakingTurns['asked']) => turner({ asked, loadS: 0.2, rateRps: 20, answerS: 0.1, mayBeLate: 0.01 })
    const waits = playTurns([of(bursts(0)), of(bursts(7200))])
    expect(waits?.map(({ loadsPerDay }) => Math.round(loadsPerDay))).toEqual([6, 6])
    expect(waits![0]!.late).toBeLessThan(0.01)
    const spread = { spans: steady(1200 / 14_400), beginsS: 0, carriedRps: 1 }
    expect(playTurns([of(spread), of(spread)])).toBeUndefined()
  })

  test('the first turn waits until all before it are answered; more than the slice carries is refused', () => {
    const waits = playTurns([
      turner({ rps: 0.001, loadS: 10, answerS: 60, slackS: 80 }),
      turner({ rps: 0.001, loadS: 10, answerS: 60, slackS: 80 }),
    ])!
    expect(waits[0]!.longestS).toBeGreaterThan(60)
    expect(playTurns([turner({ rps: 2, rateRps: 1, mayBeLate: 0.5 }), turner({})])).toBeUndefined()
  })
})

describe('several in memory at once', () => {
  test('of Poisson arrivals one of three with room for two is loaded as often as King says of a cache with least recently used', () => {
    const rates = [0.02, 0.05, 0.03]
    const all = rates.map((rps) => turner({ rps, memoryMiB: 10 }))
    const played = playTurns(all, new DrawnRequests(), 20)!
    const shares = rates.map((rps) => rps / 0.1)
    for (const [i, { loadsPerDay }] of played.entries()) {
      // The two that were asked for last are there, each such pair as often as its one was asked for after the other.
      const missed = shares.reduce(
        (sum, last, j) =>
          sum + shares.reduce((of, before, k) => of + (k === j || k === i ? 0 : (last * before) / (1 - last)), 0) * Number(j !== i),
        0,
      )
      expect(Math.abs(loadsPerDay / (86_400 * rates[i]! * missed) - 1)).toBeLessThan(0.06)
    }
    expect(playTurns(all, new DrawnRequests(), 30)!.map(({ loadsPerDay }) => loadsPerDay * 4 <= 1)).toEqual([true, true, true])
  })

  test('as many as fit stay, the one that was asked for longest ago leaves first: reckoned anew for each request by who came since', () => {
    const drawn = fc.record({
      rps: fc.constantFrom(0.01, 0.03),
      memoryMiB: fc.integer({ min: 1, max: 6 }),
      loadS: fc.integer({ min: 1, max: 40 }),
    })
    fc.assert(
      fc.property(fc.array(drawn, { minLength: 2, maxLength: 4 }), fc.integer({ min: 6, max: 16 }), (of, roomMiB) => {
        const all = of.map((one) => turner({ ...one, answerS: 2, slackS: 1e5, rateRps: 3 }))
        fc.pre(togetherIn(all, roomMiB) > 1)
        const came = new DrawnRequests()
        const played = playTurns(all, came, roomMiB)!
        const days = Math.ceil(2000 / (86_400 * Math.min(...of.map(({ rps }) => rps))))
        const requests = Array.from({ length: Math.max(4, days) }, (_, day) =>
          all.flatMap((one, model) => came.on(day, one).map((atS) => ({ atS, model }))),
        )
          .flat()
          .sort((a, b) => a.atS - b.atS)
        const last = all.map(() => -1)
        const loads = all.map(() => 0)
        let [answeredS, nextS] = [0, 0]
        const waited = all.map(() => 0)
        const aloneS = all.map(() => 0)
        for (const [n, { atS, model }] of requests.entries()) {
          const since = new Set(last[model]! < 0 ? all.keys() : requests.slice(last[model]! + 1, n).map((one) => one.model)).add(model)
          const holds = [...since].reduce((sum, one) => sum + of[one]!.memoryMiB, 0)
          const load = last[model]! < 0 || holds > roomMiB
          if (load) loads[model]!++
          if (requests[n - 1]?.model !== model) nextS = Math.max(atS, answeredS) + (load ? of[model]!.loadS : 0)
          const beginS = Math.max(atS, nextS)
          if (beginS - Math.max(atS, aloneS[model]!) > 1e-9) waited[model]!++
          aloneS[model] = Math.max(atS, aloneS[model]!) + 1 / 3
          nextS = beginS + 1 / 3
          answeredS = Math.max(answeredS, beginS + 2)
          last[model] = n
        }
        for (const [i, { loadsPerDay, waiting, requests: count }] of played.entries()) {
          expect(loadsPerDay * Math.max(4, days)).toBeCloseTo(loads[i]!, 6)
          expect(waiting * count).toBeCloseTo(waited[i]!, 6)
        }
      }),
      { numRuns: 15 },
    )
  }, 60_000)

  test('none is loaded again where all fit, but each must bear to be as many times as slow; who holds what nobody knows is alone', () => {
    const pair = (more: Partial<TakingTurns>) => [0.01, 0.02].map((rps) => turner({ rps, loadS: 60, answerS: 4, memoryMiB: 5, ...more }))
    const together = playTurns(pair({ slackS: 20 }), new DrawnRequests(), 10)!
    for (const { loadsPerDay, waiting } of together) {
      expect(loadsPerDay).toBeLessThan(1)
      expect(waiting).toBeGreaterThan(0.02)
      expect(waiting).toBeLessThan(0.15)
    }
    expect(playTurns(pair({ slackS: 3 }), new DrawnRequests(), 10)).toBeUndefined()
    const unknown = playTurns(pair({ slackS: 1e4, memoryMiB: undefined }), new DrawnRequests(), 10)!
    expect(unknown[0]!.loadsPerDay).toBeGreaterThan(100)
    expect([
      togetherIn(pair({}), 9.9),
      togetherIn(pair({}), 10),
      togetherIn(pair({ memoryMiB: undefined }), 100),
      togetherIn(pair({})),
    ]).toEqual([1, 2, 1, 1])
  })
})

test('what comes while replicas load queues, and is served faster than more comes: as long as load / (1 - busy)', () => {
  const between = (value: number) => Array.from({ length: 96 }, (_, step) => (step >= 32 && step < 80 ? value : 0))
  const [loadS, busy] = [180, 0.6]
  const { waiting, late, longestS, loadsPerDay } = waitsAtRises(between(30), between(30 / busy), loadS, 60)
  const hours = 12 * 3600
  expect(waiting).toBeCloseTo(loadS / (1 - busy) / hours, 3)
  expect(late).toBeCloseTo((loadS - 60) / (1 - busy) / hours, 3)
  expect(longestS).toBeCloseTo(loadS, -1)
  expect(loadsPerDay).toBe(1)
  // With nothing kept free the queue of the morning is there in the evening, and what the evening leaves waits for the next day.
  expect(waitsAtRises(between(30), between(30), loadS, 60).late).toBeGreaterThan(0.9)
  expect(waitsAtRises(between(30), Array(96).fill(50), loadS, 0)).toEqual({ waiting: 0, late: 0, longestS: 0, loadsPerDay: 0 })
})

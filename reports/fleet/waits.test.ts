import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  DrawnRequests,
  keepingOf,
  mostTogether,
  playTurns,
  type TakingTurns,
  waitsAtRises,
} from './waits.ts'

const steady = (rps: number) => [{ rps, seconds: 86_400 }]
const turner = (more: Partial<TakingTurns> & { readonly rps?: number }): TakingTurns => ({
  asked: { spans: steady(more.rps ?? 0.01), beginsS: 0, carriedRps: 1 },
  ...{ factor: 1, rateRps: 1e6, loadS: 1e-6, answerS: 0, slackS: 0, mayBeLate: 1 },
  ...more,
})

describe('on demand', () => {
  test('of Poisson arrivals a request loads its model unless the one before it was for the same', () => {
    const [a, b, c] = playTurns([
      turner({ rps: 0.02 }),
      turner({ rps: 0.05 }),
      turner({ rps: 0.03 }),
    ])!
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
    const none = playTurns([
      turner({ loadS: 20, slackS: 1e5 }),
      turner({ loadS: 20, slackS: 1e5 }),
    ])!
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
    const of = (asked: TakingTurns['asked']) =>
      turner({ asked, loadS: 0.2, rateRps: 20, answerS: 0.1, mayBeLate: 0.01 })
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
  const of = (memoryMiB: number | undefined, more: Parameters<typeof turner>[0] = {}) =>
    turner({ memoryMiB, ...more })

  test('of sets of models those that fit are kept whole; each is alone where what one of them holds is not known', () => {
    expect(keepingOf([of(9), of(4), of(5)], 10).sets).toEqual([[0], [1, 2]])
    expect(keepingOf([of(5), of(5), of(5)], 10).sets).toEqual([
      [0, 1],
      [0, 2],
      [1, 2],
    ])
    for (const [all, roomMiB] of [
      [[of(1), of(undefined)], 10],
      [[of(1), of(1)], undefined],
    ] as const)
      expect(keepingOf(all, roomMiB).sets).toEqual([[0], [1]])
    const sizes = fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 4 })
    fc.assert(
      fc.property(sizes, fc.integer({ min: 6, max: 16 }), (held, roomMiB) => {
        const { sets } = keepingOf(
          held.map((memoryMiB) => of(memoryMiB)),
          roomMiB,
        )
        const sum = (set: readonly number[]) => set.reduce((all, i) => all + held[i]!, 0)
        for (const set of sets) {
          expect(sum(set)).toBeLessThanOrEqual(roomMiB)
          for (const other of held.keys())
            if (!set.includes(other)) expect(sum(set) + held[other]!).toBeGreaterThan(roomMiB)
        }
        for (const i of held.keys())
          for (const j of held.keys())
            expect(sets.some((set) => set.includes(i) && set.includes(j))).toBe(
              i === j || held[i]! + held[j]! <= roomMiB,
            )
      }),
    )
  })

  test('whose SLO leaves most time to wait leaves first, then who is asked for most rarely', () => {
    const { leaving } = keepingOf(
      [
        of(5, { slackS: 40, loadS: 30 }),
        of(5, { slackS: 15, loadS: 2 }),
        of(5, { slackS: 12, loadS: 2, rps: 0.02 }),
        of(5, { slackS: 10 + 1e-6 }),
      ],
      10,
    )
    expect(leaving).toEqual([1, 3, 0, 2])
  })

  test('who is worth most stays, and the two others put each other out', () => {
    const all = [0.02, 0.05, 0.03].map((rps) => of(10, { rps }))
    const [a, b, c] = playTurns(all, new DrawnRequests(), 20)!
    expect(b!.loadsPerDay).toBeLessThan(1)
    for (const [one, rps] of [
      [a!, 0.02],
      [c!, 0.03],
    ] as const)
      expect(Math.abs(one.loadsPerDay / ((86_400 * 0.02 * 0.03) / 0.05) - 1)).toBeLessThan(
        0.05 + rps,
      )
    for (const { loadsPerDay } of playTurns(all, new DrawnRequests(), 30)!)
      expect(loadsPerDay).toBe(0)
  })

  test('requests of a model that is in memory overtake those that wait for another', () => {
    const burst = {
      spans: [
        { rps: 1, seconds: 600 },
        { rps: 0, seconds: 3000 },
      ],
      beginsS: 0,
      carriedRps: 1,
    }
    const [, other] = playTurns([
      turner({ asked: burst, rateRps: 5, answerS: 10 }),
      turner({ rps: 0.005, loadS: 1, answerS: 1 }),
    ])!
    expect(other!.longestS).toBeGreaterThan(300)
  })

  test('as llama-swap does it, event by event: who is loaded how often, and how many wait', () => {
    const drawn = fc.record({
      rps: fc.constantFrom(0.01, 0.03),
      memoryMiB: fc.integer({ min: 1, max: 6 }),
      loadS: fc.integer({ min: 1, max: 40 }),
    })
    fc.assert(
      fc.property(
        fc.array(drawn, { minLength: 2, maxLength: 4 }),
        fc.integer({ min: 6, max: 16 }),
        (models, roomMiB) => {
          const all = models.map((one) => turner({ ...one, answerS: 2, slackS: 1e5, rateRps: 3 }))
          const came = new DrawnRequests()
          const played = playTurns(all, came, roomMiB)!
          const days = Math.max(
            4,
            Math.ceil(2000 / (86_400 * Math.min(...models.map(({ rps }) => rps)))),
          )
          const requests = Array.from({ length: days }, (_, day) =>
            all.flatMap((one, model) => came.on(day, one).map((atS) => ({ atS, model }))),
          ).flat()
          const { loads, waited } = byEvents(all, keepingOf(all, roomMiB), requests)
          for (const [i, { loadsPerDay, waiting, requests: count }] of played.entries()) {
            expect(loadsPerDay * days).toBeCloseTo(loads[i]!, 6)
            expect(waiting * count).toBeCloseTo(waited[i]!, 6)
          }
        },
      ),
      { numRuns: 15 },
    )
  }, 60_000)

  test('none is loaded where all fit, but each must bear to be as many times as slow; who holds what nobody knows is alone', () => {
    const pair = (more: Partial<TakingTurns>) =>
      [0.01, 0.02].map((rps) => of(5, { rps, rateRps: 1, loadS: 60, answerS: 4, ...more }))
    for (const { loadsPerDay, waiting } of playTurns(
      pair({ slackS: 20 }),
      new DrawnRequests(),
      10,
    )!) {
      expect(loadsPerDay).toBe(0)
      // Those that come within two seconds of the one before them.
      expect(waiting).toBeGreaterThan(0.01)
      expect(waiting).toBeLessThan(0.06)
    }
    expect(playTurns(pair({ slackS: 3 }), new DrawnRequests(), 10)).toBeUndefined()
    const unknown = playTurns(pair({ slackS: 1e4, memoryMiB: undefined }), new DrawnRequests(), 10)!
    expect(unknown[0]!.loadsPerDay).toBeGreaterThan(100)
    expect([mostTogether(keepingOf(pair({}), 9.9)), mostTogether(keepingOf(pair({}), 10))]).toEqual(
      [1, 2],
    )
  })
})

/**
 * llama-swap's scheduler (internal/router/scheduler/fifo.go): OnRequest, OnSwapDone, OnServeDone
 * and what is queued between them; a load at a time.
 */
function byEvents(
  all: readonly TakingTurns[],
  { sets, leaving }: ReturnType<typeof keepingOf>,
  requests: readonly { readonly atS: number; readonly model: number }[],
) {
  type Event = {
    readonly atS: number
    readonly model: number
    readonly kind: 'request' | 'ready' | 'answered'
  }
  const together = Math.max(...sets.map((set) => set.length))
  const came: Event[] = [...requests]
    .sort((a, b) => a.atS - b.atS)
    .map((request) => ({ ...request, kind: 'request' }))
  const due: Event[] = []
  const zeros = () => all.map(() => 0)
  const [loads, waited, inFlight, nextS, aloneS] = [zeros(), zeros(), zeros(), zeros(), zeros()]
  let there = sets.length === 1 ? [...sets[0]!] : []
  let loading: { readonly model: number; readonly waiters: Event[] } | undefined
  let queued: Event[] = []
  const later = (event: Event) => {
    due.splice(due.filter(({ atS }) => atS <= event.atS).length, 0, event)
  }
  const grant = ({ atS, model }: Event, nowS: number) => {
    const beginS = Math.max(nowS, nextS[model]!)
    nextS[model] = beginS + together / all[model]!.rateRps
    inFlight[model]!++
    later({ atS: beginS + together * all[model]!.answerS, model, kind: 'answered' })
    const alone = Math.max(atS, aloneS[model]!)
    aloneS[model] = alone + 1 / all[model]!.rateRps
    if (beginS - alone > 1e-9) waited[model]!++
  }
  const costOf = (evict: readonly number[]) =>
    evict.reduce((sum, one) => sum + 1000 ** leaving.indexOf(one), 0)
  const ask = (request: Event, nowS: number): boolean => {
    const { model } = request
    if (loading?.model === model) loading.waiters.push(request)
    else if (there.includes(model)) grant(request, nowS)
    else {
      const [evict] = sets
        .filter((set) => set.includes(model))
        .map((set) => there.filter((one) => !set.includes(one)))
        .sort((a, b) => costOf(a) - costOf(b))
      if (loading !== undefined || evict!.some((one) => inFlight[one]! > 0)) return false
      there = [...there.filter((one) => !evict!.includes(one)), model]
      loading = { model, waiters: [request] }
      loads[model]!++
      later({ atS: nowS + all[model]!.loadS, model, kind: 'ready' })
    }
    return true
  }
  const drain = (nowS: number) => {
    queued = queued.filter((request) => !ask(request, nowS))
  }
  for (let i = 0; i < came.length || due.length > 0; ) {
    const isDue = due.length > 0 && (i === came.length || due[0]!.atS <= came[i]!.atS)
    const event = isDue ? due.shift()! : came[i++]!
    if (event.kind === 'request') {
      if (!ask(event, event.atS)) queued.push(event)
      continue
    }
    if (event.kind === 'answered') inFlight[event.model]!--
    else {
      const { waiters } = loading!
      loading = undefined
      for (const request of waiters) grant(request, event.atS)
    }
    drain(event.atS)
  }
  return { loads, waited }
}

test('what comes while replicas load queues, and is served faster than more comes: as long as load / (1 - busy)', () => {
  const between = (value: number) =>
    Array.from({ length: 96 }, (_, step) => (step >= 32 && step < 80 ? value : 0))
  const [loadS, busy] = [180, 0.6]
  const { waiting, late, longestS, loadsPerDay } = waitsAtRises(
    between(30),
    between(30 / busy),
    loadS,
    60,
  )
  const hours = 12 * 3600
  expect(waiting).toBeCloseTo(loadS / (1 - busy) / hours, 3)
  expect(late).toBeCloseTo((loadS - 60) / (1 - busy) / hours, 3)
  expect(longestS).toBeCloseTo(loadS, -1)
  expect(loadsPerDay).toBe(1)
  // With nothing kept free the queue of the morning is there in the evening, and what the evening
  // leaves waits for the next day.
  expect(waitsAtRises(between(30), between(30), loadS, 60).late).toBeGreaterThan(0.9)
  expect(waitsAtRises(between(30), Array(96).fill(50), loadS, 0)).toEqual({
    waiting: 0,
    late: 0,
    longestS: 0,
    loadsPerDay: 0,
  })
})

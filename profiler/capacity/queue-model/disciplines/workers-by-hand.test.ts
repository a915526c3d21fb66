/**
 * Service times and numbers of workers of runs written by hand; those of servers are in
 * workers.test.ts.
 */
import { describe, expect, test } from 'vitest'
import type { LoadRun } from '../../../model/load-run.ts'
import { runOf } from '../../../testing/scripted-generator.ts'
import type { ServiceLog } from '../../service-log/service-log.ts'
import { extractServiceTimes, identifyWorkers, isSingleServerOutOfOrder } from './workers.ts'

type Request = readonly [sentMs: number, serviceMs: number]

/** What a server with so many workers makes of requests in the order of their arrival. */
function served(
  workers: number,
  requests: readonly Request[],
  more: Partial<LoadRun> = {},
): LoadRun {
  const freeMs = Array<number>(workers).fill(0)
  const latencyMs = requests.map(([sentMs, serviceMs]) => {
    freeMs.sort((a, b) => a - b)
    freeMs[0] = Math.max(sentMs, freeMs[0]!) + serviceMs
    return freeMs[0] - sentMs
  })
  const load = { kind: 'closed', connections: 1, durationS: 1 } as const
  return runOf(load, latencyMs, {
    sentMs: Float64Array.from(requests, ([sentMs]) => sentMs),
    ...more,
  })
}

/**
 * Bursts of requests that arrive together, far enough apart for the server to rest between them.
 */
const bursts = (
  count: number,
  size: number,
  serviceMs: (place: number, burst: number) => number,
  everyMs = 10_000,
): Request[] =>
  Array.from({ length: count * size }, (_, i) => {
    const burst = Math.floor(i / size)
    return [everyMs * burst, serviceMs(i % size, burst)] as const
  })

describe('service times', () => {
  test('begin at the arrival or with the first worker that is free, whichever is later', () => {
    const requests: Request[] = [
      [0, 10],
      [2, 5],
      [3, 7],
      [40, 6],
    ]
    const one = extractServiceTimes(served(1, requests), 1)
    expect(one.log).toEqual({
      present: [1, 1, 1, 1],
      tookMs: [10, 5, 7, 6],
      departed: [1, 1, 1, 1],
      rank: [0, 0, 0, 0],
      endedMs: [10, 15, 22, 46],
      spreadMs: [0, 0, 0, 0],
    })
    expect(one.found).toEqual([0, 1, 2, 0])
    // The second worker has ended at 7 what it began at 2, and takes the third request.
    const two = extractServiceTimes(served(2, requests), 2)
    expect([two.log.tookMs, two.log.endedMs, two.found]).toEqual([
      [10, 5, 7, 6],
      [10, 7, 14, 46],
      [0, 1, 2, 0],
    ])
  })

  test('who arrives as another leaves finds it gone', () => {
    const requests: Request[] = [
      [0, 10],
      [10, 5],
      [14.9, 5],
    ]
    expect(extractServiceTimes(served(1, requests), 1).found).toEqual([0, 0, 1])
  })

  test('go by the order of arrival, in whatever order the requests stand', () => {
    const run = served(1, [
      [0, 10],
      [2, 5],
      [3, 7],
    ])
    const turned = {
      ...run,
      sentMs: run.sentMs.toReversed(),
      latencyMs: run.latencyMs.toReversed(),
    }
    expect(extractServiceTimes(turned, 1)).toEqual(extractServiceTimes(run, 1))
  })

  test('leave out what failed: it took no worker and nobody found it', () => {
    const run = runOf({ kind: 'closed', connections: 1, durationS: 1 }, [10, Number.NaN, 14], {
      sentMs: Float64Array.of(0, 1, 2),
    })
    const { log, found } = extractServiceTimes(run, 1)
    expect([log.tookMs, found]).toEqual([
      [10, 6],
      [0, 1],
    ])
  })

  test('of a run cut short are those that had ended before', () => {
    const requests: Request[] = [
      [0, 100],
      [1, 10],
      [2, 10],
      [95, 5],
    ]
    // The last one had reached an age of 5 ms.
    const { log, found } = extractServiceTimes(served(2, requests, { cutMs: 100 }), 2)
    expect([log.tookMs, log.endedMs, found]).toEqual([
      [10, 10],
      [11, 21],
      [1, 2],
    ])
    const all = extractServiceTimes(served(2, requests, { cutMs: 100.1 }), 2)
    expect(all.log.tookMs).toEqual([100, 10, 10, 5])
    // What would have begun at the cut, or later, has not begun.
    expect(
      extractServiceTimes(served(1, [...requests.slice(1), [20, 90]], { cutMs: 21 }), 1).log.tookMs,
    ).toEqual([10])
  })

  test('leave out those that met a disturbance; the wait before them may', () => {
    const requests: Request[] = [
      [0, 50],
      [1, 10],
      [2, 10],
    ]
    const took = (fromMs: number, toMs: number) =>
      extractServiceTimes(served(1, requests), 1, [[fromMs, toMs]]).log.tookMs
    expect([took(0, 40), took(51, 59), took(61, 80), took(71, 80)]).toEqual([
      [10, 10],
      [50, 10],
      [50, 10],
      [50, 10, 10],
    ])
  })

  test('with too few workers are too short, never negative; the next begins no earlier for it', () => {
    const run = runOf({ kind: 'closed', connections: 1, durationS: 1 }, [10, 10, 3, 10], {
      sentMs: Float64Array.of(0, 0, 5, 9),
    })
    expect(extractServiceTimes(run, 1).log.tookMs).toEqual([10, 0, 0, 9])
  })
})

/** Workers of a server that was seen under open load alone, or of one with these loops. */
const workersOf = (runs: readonly LoadRun[], loops: readonly LoadRun[] = []) =>
  identifyWorkers(
    runs.map((run) => ({ run, disturbed: [] })),
    loops,
  )?.workers
/** As busy as its one worker: `elapsedS` is the time of its services. */
const busy = (requests: readonly Request[], workers = 1): LoadRun =>
  served(workers, requests, {
    elapsedS: requests.reduce((sum, [, ms]) => sum + ms, 0) / 1000 / workers,
  })

describe('how many workers there are', () => {
  test('shows from 25 requests that waited, and 25 that did not, on', () => {
    const of = (pairs: number, alone: number) =>
      workersOf([busy([...bursts(pairs, 2, () => 100), ...after(bursts(alone, 1, () => 100))])])
    const after = (requests: Request[]) =>
      requests.map(([sentMs, ms]) => [sentMs + 1e6, ms] as const)
    expect([of(25, 0), of(24, 10), of(25, 10)]).toEqual([1, undefined, 1])
    const long = (count: number) => workersOf([busy(bursts(count, 40, () => 100))])
    expect([long(24), long(25)]).toEqual([undefined, 1])
  })

  test.each([1, 2, 3, 4, 7])('%i, each busy with requests of one length', (workers) => {
    expect(
      workersOf([
        busy(
          bursts(30, 3 * workers, () => 100),
          workers,
        ),
      ]),
    ).toBe(workers)
  })

  test('64 at most', () => {
    const of = (workers: number) =>
      workersOf([
        busy(
          bursts(26, 2 * workers, () => 100),
          workers,
        ),
      ])
    expect([of(64), of(65)]).toEqual([64, undefined])
  })

  test('is looked for up to 1.6 times what Little’s law says, and one more', () => {
    // Bursts of eight, two rounds of 10 ms of four workers: 8 / every ms. Alone a request takes 10
    // ms.
    const every = (ms: number) =>
      workersOf([
        served(
          4,
          bursts(30, 8, () => 10, 1000),
          { elapsedS: (30 * ms) / 1000 },
        ),
      ])
    // 80 / 42.6 = 1.878, of which 1.6 times and one more are 4.005; 80 / 42.7 leaves 3.998.
    expect([every(42.6), every(42.7)]).toEqual([4, undefined])
  })

  /** One worker of 10 ms, whose closed loop answered so many a second at first, each in no time. */
  const once = (rps: number, size = 2) => {
    const quick = runOf(
      { kind: 'closed', connections: 1, durationS: 1 },
      Array<number>(rps).fill(0.001),
    )
    const requests = bursts(60, size, () => 10)
    return workersOf(
      [served(1, requests, { elapsedS: 100 })],
      [quick, served(1, requests, { elapsedS: 100 })],
    )
  }

  test('is no smaller than answers at the highest rate seen need, but for a tenth', () => {
    expect([once(109), once(111)]).toEqual([1, undefined])
    const open = (elapsedS: number) =>
      workersOf(
        [
          served(
            1,
            bursts(60, 2, () => 10),
            { elapsedS },
          ),
        ],
        [busy(bursts(60, 2, () => 10))],
      )
    expect([open(120 / 109), open(120 / 111)]).toEqual([1, undefined])
  })

  test('where a request is served as long as the tenth of them that found the fewest others', () => {
    // Two workers are looked for where 0.625 are busy: bursts of 24 and 20 have three who found two
    // at most, of 10, 10 and 20 ms, and of 18 two.
    const two = (rps: number, size: number) =>
      workersOf([
        served(
          2,
          bursts(60, size, () => 10, 1000),
          { elapsedS: (60 * size) / rps },
        ),
      ])
    for (const size of [24, 20]) expect([two(47, size), two(46, size)]).toEqual([2, undefined])
    expect([two(63, 18), two(62, 18)]).toEqual([2, undefined])
  })

  test('is not told by a server that answered nobody', () => {
    expect(workersOf([])).toBeUndefined()
    expect(
      workersOf([runOf({ kind: 'closed', connections: 1, durationS: 1 }, [Number.NaN])]),
    ).toBeUndefined()
  })
})

describe('requests that waited are served as those that did not', () => {
  /**
   * Whether one worker fits services of 100 ms of who waits for nobody, and of so many ms of the
   * others.
   */
  const fits = (ms: (place: number, burst: number) => number, size = 2, count = 50) => {
    const found = identifyWorkers([{ run: busy(bursts(count, size, ms)), disturbed: [] }], [])
    return found?.workers === 1 && found.overheadMs === 0
  }

  test('within 2 % of the mean of those that did not', () => {
    const waited = (waitedMs: number) => fits((place) => (place === 0 ? 100 : waitedMs))
    // 101.99 % are 1.97 % as a logarithm; 98.01 % are 2.01 % of it.
    expect([waited(101.99), waited(102.01), waited(98.03), waited(98.01)]).toEqual([
      true,
      false,
      true,
      false,
    ])
  })

  test('or within four standard errors', () => {
    // Both spread by 10 ms about their means: 4 sqrt((100 + d² / 4) (1 / 50 + 1 / 50)) is d at d =
    // 8.73.
    const waited = (d: number) =>
      fits((place, burst) => (burst % 2 === 0 ? 190 : 210) + (place === 0 ? 0 : d))
    expect([waited(8.6), waited(8.8), waited(-8.3), waited(-8.8)]).toEqual([
      true,
      false,
      true,
      false,
    ])
    // Of 50 and 150: 4 sqrt((100 + 3 d² / 16) (1 / 50 + 1 / 150)) is d at d = 6.83.
    const more = (d: number) =>
      fits((place, burst) => (burst % 2 === 0 ? 190 : 210) + (place === 0 ? 0 : d), 4)
    expect([more(6.6), more(6.9)]).toEqual([true, false])
  })

  test('in their logarithms too', () => {
    // One in five of those that waited takes a fifth, the others a fifth more: the same mean, and 4
    // % are short.
    const waited = (place: number, burst: number) =>
      place === 0 ? 100 : burst % 25 === 0 ? 4 : 104
    expect(fits(waited, 2, 50)).toBe(true)
    expect(fits(waited, 2, 1500)).toBe(false)
  })

  test('those that found many as those that found few', () => {
    const ms = [100, 97.9, 101.6, 100.5]
    // Those that waited take 100 on the mean: but the first two take 98.95, the others 101.05.
    expect(fits((place) => ms[place]!, 4)).toBe(false)
    expect(fits((place) => [100, 98.9, 101, 100.1][place]!, 4)).toBe(true)
    // Ordered by number: at ten and more, a text would come before two.
    expect(fits((place) => (place < 6 ? 99 : 101.5), 12, 40)).toBe(false)
  })

  test('and one in 25 of them at most, beyond chance, is not half as long as nearly all of the others', () => {
    // Of 25 that waited for nobody the second least is 12: short is what is under 6. Of 100 others
    // four may be, and three times the root of four more.
    const alone = [10, 12, 20, ...Array.from({ length: 22 }, (_, i) => (i % 2 === 0 ? 20 : 40))]
    const others = (short: number, ms: number) =>
      fits(
        (place, burst) =>
          place === 0 ? alone[burst]! : 4 * burst + place <= short ? ms : burst % 2 === 0 ? 20 : 40,
        5,
        25,
      )
    expect([others(10, 5.9), others(11, 5.9)]).toEqual([true, false])
    expect([others(11, 6), others(11, 6.1), others(20, 8)]).toEqual([true, true, true])
  })
})

describe('closed loops', () => {
  const open = [busy(bursts(50, 2, () => 100))]
  const loopOf = (ms: number, count = 50) => busy(bursts(count, 2, () => ms))
  const loopsSeen = (loops: readonly LoadRun[], windows = open) =>
    identifyWorkers(
      windows.map((run) => ({ run, disturbed: [] })),
      loops,
    )?.loops.map(({ tookMs }) => Math.round(tookMs[0]!))

  test('that were served alike count, in the order of time', () => {
    expect(loopsSeen([loopOf(101), loopOf(99)])).toEqual([101, 99])
    expect(loopsSeen([])).toEqual([])
  })

  test('from the last one back to the first that was not', () => {
    expect(loopsSeen([loopOf(100), loopOf(110), loopOf(101)])).toEqual([101])
    expect(loopsSeen([loopOf(100), loopOf(110)])).toBeUndefined()
  })

  test('are compared with the open windows and the loops after them together', () => {
    // 103.2 is 3 % more than the windows’ 100, and 1.5 % more than the mean of all after it.
    expect(loopsSeen([loopOf(103.2), loopOf(101.9, 1000)])).toEqual([103, 102])
    expect(loopsSeen([loopOf(103.2), loopOf(100, 1000)])).toEqual([100])
    // The windows alone would take it, the loop after it does not; nor would the loop alone take
    // it.
    expect(loopsSeen([loopOf(98.1), loopOf(101.5, 1000)])).toEqual([102])
  })

  test('of which the earlier half was served otherwise by three standard errors together lose it', () => {
    const spread = (around: number) =>
      busy(bursts(50, 2, (_, burst) => around + (burst % 2 === 0 ? -30 : 30)))
    const windows = [spread(200)]
    const seen = (...around: number[]) => loopsSeen(around.map(spread), windows)
    // A hundred beside 300 of the windows and the loops after it: four errors are 13.9. Two hundred
    // beside them: three are 8.2.
    expect(seen(211.9, 211.9, 200, 200)).toEqual([170, 170])
    expect(seen(208.5, 208.5, 200, 200)).toEqual([170, 170])
    expect(seen(207.7, 207.7, 200, 200)).toEqual([178, 178, 170, 170])
    // Of three, the first alone is the earlier half.
    expect(seen(212.5, 200, 200)).toEqual([170, 170])
    expect(seen(209, 200, 200)).toEqual([179, 170, 170])
  })

  test('without an answer say nothing', () => {
    const silent = runOf({ kind: 'closed', connections: 1, durationS: 1 }, [Number.NaN])
    expect(loopsSeen([loopOf(101), silent])).toEqual([101, Number.NaN])
  })
})

describe('one worker that serves out of turn', () => {
  /** Steps of one request each, of so many who were there, of whom the one at this place left. */
  const stepsOf = (
    each: readonly { present: number; tookMs: number; rank: number; departed?: number }[],
  ): ServiceLog => ({
    present: each.map(({ present }) => present),
    tookMs: each.map(({ tookMs }) => tookMs),
    departed: each.map(({ departed = 1 }) => departed),
    rank: each.map(({ rank }) => rank),
    endedMs: each.map((_, i) => 100 * i),
    spreadMs: each.map(() => 0),
  })
  /**
   * As many alone as in company, whose steps take so long; of those in company so many left before
   * an older one.
   */
  const served = (unloadedMs: number, coalescingMs: number, overtaking = 20, departed = 1) =>
    stepsOf(
      Array.from({ length: 80 }, (_, i) =>
        i % 2 === 0
          ? { present: 1, tookMs: unloadedMs * (1 + 0.1 * ((i / 2) % 3)), rank: 0 }
          : {
              present: 2 + (i % 3),
              tookMs: coalescingMs * (1 + 0.1 * (((i - 1) / 2) % 3)),
              rank: i < 2 * overtaking ? 1 : 0,
              departed,
            },
      ),
    )

  test('is one whose steps take as long alone as in company, and overtake', () => {
    expect(isSingleServerOutOfOrder(served(10, 10))).toBe(true)
    // Cores that are shared answer faster one after the other the more were there; a batch is no
    // request.
    expect(isSingleServerOutOfOrder(served(10, 5))).toBe(false)
    expect(isSingleServerOutOfOrder(served(10, 10, 20, 2))).toBe(false)
    expect(isSingleServerOutOfOrder(served(10, 10, 0))).toBe(false)
    expect(
      isSingleServerOutOfOrder(
        stepsOf(Array.from({ length: 30 }, () => ({ present: 2, tookMs: 10, rank: 1 }))),
      ),
    ).toBe(false)
  })
})

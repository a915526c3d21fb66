/**
 * How a measurement begins, window by window, and what ends it there; whole measurements are in
 * evidence.test.ts and virtual-capacity.test.ts.
 */
import { describe, expect, test } from 'vitest'
import type { Load } from '../model/load.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Slo } from '../model/slo.ts'
import { runOf, scriptedGenerator } from '../testing/scripted-generator.ts'
import { targetAt } from '../testing/servers.ts'
import { type CapacityOptions, measureCapacity } from './measure.ts'

const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
const refused = (load: Load) =>
  runOf(load, [Number.NaN, Number.NaN], { errorKinds: { refused: 2 } })
/** So many answers of so many ms; `failing` of them fail with 503. */
const answers = (load: Load, n: number, ms = 5, failing = 0, more: Partial<LoadRun> = {}) =>
  runOf(
    load,
    Array.from({ length: n }, (_, i) => (i < failing ? Number.NaN : ms)),
    {
      sentMs: new Float64Array(n),
      errorKinds: failing > 0 ? { 'status 503': failing } : {},
      ...more,
    },
  )

async function measured(
  answer: (load: Load, window: number) => LoadRun,
  options: Partial<CapacityOptions> = {},
) {
  const generator = scriptedGenerator(answer)
  const signal = new AbortController().signal
  const phases: string[] = []
  const target = targetAt('http://127.0.0.1:1')
  const found = await measureCapacity({
    target,
    slo,
    signal,
    effort: 'quick',
    generator,
    onStep: (_, phase) => phases.push(phase),
    ...options,
  })
  return { found, asked: generator.asked, phases }
}
const connectionsOf = (load: Load) => (load.kind === 'closed' ? load.connections : Number.NaN)

describe('a warm-up', () => {
  /** So many requests in each window of 0.3 s; the idle server is then too slow, which ends it. */
  const warmed = async (requests: number, options: Partial<CapacityOptions> = {}) =>
    (
      await measured((load) => answers(load, requests, connectionsOf(load) === 1 ? 80 : 5), options)
    ).asked.filter((load) => connectionsOf(load) > 1)

  test('continues with more connections for 512 requests, or sixteen seconds', async () => {
    expect((await warmed(255)).map(connectionsOf)).toEqual([2, 2, 8])
    expect((await warmed(256)).map(connectionsOf)).toEqual([2, 2])
    // 520 requests; 16.2 s.
    expect([(await warmed(26)).length, (await warmed(2)).length]).toEqual([20, 54])
    expect(new Set((await warmed(2)).map(({ durationS }) => durationS))).toEqual(new Set([0.3]))
  })

  test('of a streaming server counts no requests', async () => {
    const target = { ...targetAt('http://127.0.0.1:1'), transport: 'sse' } as const
    expect((await warmed(255, { target })).map(connectionsOf)).toEqual([2, 2])
  })

  test('does not depend on the expected capacity', async () => {
    expect(await warmed(255, { expectedRps: 100 })).toEqual(await warmed(255))
  })

  test('takes twenty windows at most', async () => {
    const faster = (load: Load, window: number) =>
      answers(load, 500, connectionsOf(load) === 1 ? 80 : 1000 * 0.9 ** window)
    const two = ({ asked }: { asked: readonly Load[] }) =>
      asked.filter((load) => connectionsOf(load) === 2)
    expect(two(await measured(faster))).toHaveLength(20)
  })

  test('is reported, and no part of the load curve', async () => {
    const { found, phases } = await measured((load) =>
      answers(load, 500, connectionsOf(load) === 1 ? 80 : 5),
    )
    expect(phases).toEqual(['warm-up', 'warm-up', 'unloaded', 'unloaded'])
    expect(found.points).toHaveLength(2)
    const longer = await measured((load) => answers(load, 255, connectionsOf(load) === 1 ? 80 : 5))
    expect(longer.phases).toEqual(['warm-up', 'warm-up', 'warm-up', 'unloaded', 'unloaded'])
    expect(longer.found.points).toHaveLength(2)
    expect([found.requests, found.seconds]).toEqual([
      2000,
      expect.closeTo(0.3 + 0.3 + 0.25 + 0.5, 9),
    ])
  })
})

describe('an unloaded latency over the limit', () => {
  test('is unattainable after a second measurement', async () => {
    const { found, asked } = await measured((load, window) =>
      answers(load, 500, connectionsOf(load) > 1 ? 5 : window === 2 ? 90 : 80),
    )
    expect(asked.slice(2).map(({ durationS }) => durationS)).toEqual([0.25, 0.5])
    expect(found).toMatchObject({
      outcome: 'slo-unattainable',
      capacityRps: 0,
      capacityCi90Rps: [0, 0],
      bounds: 'both',
      saturationRps: 0,
    })
    // The better of the two counts.
    expect(found.unloaded).toMatchObject({ p99Ms: 80, requests: 500 })
    expect(found.detail).toBe('one request at a time already takes 80 ms at p99, over 50 ms')
  })

  test('is disturbed where other work used the cores for a quarter of the time', async () => {
    const waited = async (server: number) => {
      const slow = (load: Load) => answers(load, 500, connectionsOf(load) > 1 ? 5 : 80)
      return (await measured((load) => ({ ...slow(load), machineWait: { server } }))).found
    }
    expect(await waited(0.3)).toMatchObject({
      outcome: 'host-interference',
      capacityRps: 0,
      bounds: 'none',
    })
    expect((await waited(0.3)).detail).toMatch(
      /^one request at a time violates the SLO, but other work on this machine disturbed/,
    )
    expect(await waited(0.2)).toMatchObject({ outcome: 'slo-unattainable', bounds: 'both' })
  })

  test('is unattainable by its median', async () => {
    const half = (load: Load) => runOf(load, [80, 80, 5], { sentMs: new Float64Array(3) })
    const { found } = await measured((load) =>
      connectionsOf(load) > 1 ? answers(load, 500) : half(load),
    )
    expect(found.outcome).toBe('slo-unattainable')
  })

  test('is unattainable by its percentile', async () => {
    const tail = (load: Load) =>
      runOf(
        load,
        Array.from({ length: 500 }, (_, i) => (i % 5 === 0 ? 80 : 5)),
        { sentMs: new Float64Array(500) },
      )
    const { found } = await measured((load) =>
      connectionsOf(load) > 1 ? answers(load, 500) : tail(load),
    )
    expect(found).toMatchObject({
      outcome: 'slo-unattainable',
      detail: 'one request at a time already takes 80 ms at p99, over 50 ms',
    })
  })
})

describe('a server that refuses a closed loop', () => {
  const failing = (load: Load) => answers(load, 300, 5, 30)

  test('is loaded gently: a fifth of the answered rate, halved for up to three tries', async () => {
    const { found, asked } = await measured(failing, { seed: 9 })
    // 270 in 0.25 s, as the closed loop of the warm-up had in 0.3: 900 a second.
    expect(asked.map(({ kind }) => kind)).toEqual([
      'closed',
      'closed',
      'closed',
      'open',
      'open',
      'open',
    ])
    expect(asked[3]).toEqual({
      kind: 'open',
      rateRps: expect.closeTo(180, 9),
      durationS: 0.5,
      seed: 9,
      arrivals: { kind: 'poisson' },
    })
    expect(asked.slice(4)).toEqual(
      [90, 45].map((rateRps) => expect.objectContaining({ rateRps: expect.closeTo(rateRps, 9) })),
    )
    expect(found).toMatchObject({
      outcome: 'errors',
      capacityRps: 0,
      detail: '30 of 300 requests failed (status 503 × 30)',
    })
    const slowly = await measured((load) => answers(load, 30, 5, 3))
    expect(slowly.asked.at(-3)).toMatchObject({
      rateRps: expect.closeTo(18, 9),
      durationS: expect.closeTo(20 / 18, 9),
    })
    const hardly = await measured((load) => answers(load, 3, 5, 3))
    expect(hardly.asked.slice(-3)).toMatchObject(Array(3).fill({ rateRps: 1, durationS: 6 }))
  })

  test('ends as errors if it answers no gentle load either', async () => {
    const { found } = await measured((load) =>
      load.kind === 'open' ? answers(load, 0) : failing(load),
    )
    expect(found).toMatchObject({ outcome: 'errors', detail: 'no request was answered' })
  })
})

describe('a dead server', () => {
  test.each<[string, (load: Load, window: number) => LoadRun]>([
    ['at once', refused],
    ['while it warms up', (load, window) => (window < 3 ? answers(load, 100) : refused(load))],
    ['asked gently', (load) => (load.kind === 'open' ? refused(load) : answers(load, 300, 5, 30))],
  ])('%s ends it, and nothing is known of it', async (_, answer) => {
    const { found } = await measured(answer)
    expect(found).toMatchObject({ outcome: 'server-died', capacityRps: 0, bounds: 'none' })
    expect(found.detail).toBe('nothing listens any more: 2 of 2 requests failed (refused × 2)')
    expect(found.unloaded.requests).toBe(0)
  })
})

describe('the search', () => {
  /**
   * So fast as the closed loops say; no window of open load could be held, so that nothing is
   * learnt of them, and each is short work.
   */
  const searched = async (
    unloadedMs: (unloaded: number) => number = () => 5,
    options: Partial<CapacityOptions> = {},
  ) => {
    let idle = 0
    const played = await measured(
      (load) =>
        load.kind === 'open'
          ? answers(load, 20, 5, 0, { generatorCores: 0.97 })
          : answers(load, 300, connectionsOf(load) === 1 ? unloadedMs(idle++) : 5),
      options,
    )
    return {
      ...played,
      open: played.asked.flatMap((load) => (load.kind === 'open' ? [load] : [])),
      idle,
    }
  }
  const gotSlower =
    'the server became slower during the measurement: one request at a time took 5.00 ms before and 20.0 ms after; the capacity mixes both'

  test('follows one unloaded measurement, with seeded arrivals', async () => {
    const { found, open, phases } = await searched()
    expect(found.outcome).toBe('generator-limit')
    expect(phases.slice(0, 4)).toEqual(['warm-up', 'warm-up', 'unloaded', 'saturation'])
    expect(open[0]).toMatchObject({ seed: 1, arrivals: { kind: 'sweep' } })
    expect((await searched(undefined, { seed: 70 })).open[0]).toMatchObject({ seed: 70 })
    expect(found.unloaded).toMatchObject({ requests: 300, p50Ms: 5 })
  })

  test('follows an unloaded latency of exactly the limit', async () => {
    expect((await searched(() => 50)).found.outcome).toBe('generator-limit')
    /** So many of 300 are over: p99 is the fourth from the top, and its low end lower. */
    const over = async (n: number) => {
      const { found } = await measured((load) =>
        load.kind === 'open'
          ? answers(load, 20, 5, 0, { generatorCores: 0.97 })
          : runOf(
              load,
              Array.from({ length: 300 }, (_, i) => (connectionsOf(load) === 1 && i < n ? 80 : 5)),
              { sentMs: new Float64Array(300) },
            ),
      )
      return found.outcome
    }
    expect([await over(5), await over(60)]).toEqual(['generator-limit', 'slo-unattainable'])
  })

  test('is followed by a recheck of the unloaded latency, which reports a change', async () => {
    const standard = { effort: 'standard' } as const
    const same = await searched(undefined, standard)
    expect(same.found.caveats.join()).not.toMatch(/while it was measured/)
    const slower = await searched((idle) => (idle === 0 ? 5 : 20), standard)
    expect(slower.found.caveats).toContain(gotSlower)
    expect(slower.found.points.filter(({ load }) => connectionsOf(load) === 1)).toHaveLength(1)
    // The settling before it looks at most twenty times.
    expect(slower.asked.filter((load) => connectionsOf(load) === 1)).toHaveLength(1 + 20 + 1)
    const quick = await searched((idle) => (idle === 0 ? 5 : 20))
    expect([quick.found.caveats.join(), quick.idle]).toEqual([
      expect.not.stringMatching(/while it was/),
      1,
    ])
  })

  test.each<[string, Partial<CapacityOptions>, (load: Load) => LoadRun | undefined]>([
    ['dies', {}, (load) => (connectionsOf(load) > 2 ? refused(load) : undefined)],
    ['cannot be better', { capacityToBeatRps: 1e6 }, () => undefined],
  ])('is followed by none at a server that %s', async (_, options, answer) => {
    const { found, asked } = await measured((load) => answer(load) ?? answers(load, 300), {
      effort: 'standard',
      ...options,
    })
    expect(['server-died', 'pruned']).toContain(found.outcome)
    expect(asked.filter((load) => load.kind === 'closed' && load.durationS === 0.5)).toHaveLength(1)
  })

  test('of a server that refuses closed loops uses their answered rate, and no further loop', async () => {
    for (const [gently, reachedRps] of [
      // 250 answers in 0.8 s, and then more than that in a second.
      [300, 312.5],
      [900, 900],
    ] as const) {
      const { asked } = await measured(
        (load) => {
          if (load.kind === 'closed') return answers(load, 300, 5, 50)
          return answers(load, gently, 5, 0, {
            generatorCores: load.arrivals.kind === 'sweep' ? 0.97 : 0,
          })
        },
        { effort: 'standard' },
      )
      const sweep = asked.find((load) => load.kind === 'open' && load.arrivals.kind === 'sweep')
      const before = asked.slice(0, asked.indexOf(sweep!)).map(({ kind }) => kind)
      expect(before.at(-1)).toBe('open')
      expect(sweep).toMatchObject({ arrivals: { fromRps: expect.closeTo(0.4 * reachedRps, 0) } })
      // Nor at the end, to see whether it changed.
      expect(asked.slice(asked.indexOf(sweep!)).map(({ kind }) => kind)).not.toContain('closed')
    }
  })

  test('loads gently a server that refuses one request at a time', async () => {
    const { asked, found } = await measured((load) =>
      load.kind === 'open'
        ? answers(load, 300, 5, 30)
        : answers(load, 300, 5, connectionsOf(load) === 1 ? 30 : 0),
    )
    expect(asked.filter(({ kind }) => kind === 'open')).toHaveLength(3)
    expect(found.outcome).toBe('errors')
  })

  test('loads gently a server that refuses only in the warm-up', async () => {
    const { asked } = await measured((load) =>
      load.kind === 'open'
        ? answers(load, 300, 5, 30)
        : answers(load, 300, 5, connectionsOf(load) === 2 ? 30 : 0),
    )
    expect(asked.filter(({ kind }) => kind === 'open')).toHaveLength(3)
  })
})

describe('a warm-up by count', () => {
  const rounds = async (answered: (round: number) => number) => {
    let round = 0
    const { asked } = await measured((load) =>
      connectionsOf(load) === 8
        ? runOf(load, new Array<number>(answered(round++)).fill(5))
        : answers(load, 60, connectionsOf(load) === 1 ? 80 : 5),
    )
    return asked.filter((load) => connectionsOf(load) === 8).length
  }

  test('continues while its windows grow, until they are level', async () => {
    // 560 requests after four windows.
    expect(await rounds(() => 110)).toBe(4)
    const growing = (round: number) => 80 + 20 * Math.min(round, 11)
    // The last third of the last windows must gain less than a tenth of what they gain.
    expect(await rounds(growing)).toBe(21)
  })
})

describe('caveats', () => {
  const caveatsOf = async (more: Partial<LoadRun>, url = 'http://127.0.0.1:1') =>
    (
      await measured((load) => answers(load, 500, connectionsOf(load) === 1 ? 80 : 5, 0, more), {
        target: targetAt(url),
      })
    ).found.caveats

  test('report a generator on the same machine, from 0.02 cores on', async () => {
    for (const url of ['http://127.0.0.1:1', 'http://localhost:1', 'http://[::1]:1'])
      expect((await caveatsOf({ generatorCores: 0.5 }, url))[0]).toMatch(
        /^the load generator shared this machine's \d+ cores with the server and used up to 0.50 of one$/,
      )
    expect(await caveatsOf({ generatorCores: 0.5 }, 'http://example.com:1')).toEqual([])
    expect(await caveatsOf({ generatorCores: 0.02 })).toEqual([])
  })

  test.each([
    [38, false],
    [41, true],
    [47, false],
  ])('is the pattern of delayed acknowledgements, at %d ms unloaded: %s', async (ms, isNamed) => {
    const { found } = await measured(
      (load) => answers(load, 500, connectionsOf(load) === 1 ? ms : 5),
      { target: targetAt('http://127.0.0.1:1') },
    )
    expect(found.caveats.some((text) => text.includes('TCP_NODELAY'))).toBe(isNamed)
  })

  test('report closed connections, from 5 % of the requests on', async () => {
    const closing = (closed: number) =>
      caveatsOf({ connections: { opened: 2, closed, retried: 0 } })
    expect(await closing(25)).toEqual([])
    expect(await closing(26)).toEqual([
      'the server closed 104 connections in 2000 requests, and reconnecting is part of the latency: enable keep-alive (gunicorn: gthread workers)',
    ])
  })

  test('report loads that the generator could not sustain', async () => {
    expect((await caveatsOf({ generatorCores: 0.95 }, 'http://example.com:1')).join()).toMatch(
      /could not sustain some of the load points/,
    )
    const once = await measured(
      (load, window) =>
        answers(load, 500, connectionsOf(load) === 1 ? 80 : 5, 0, {
          generatorCores: window === 2 ? 0.95 : 0,
        }),
      {
        target: targetAt('http://example.com:1'),
      },
    )
    expect(once.found.caveats.join()).toMatch(/could not sustain some of the load points/)
  })
})

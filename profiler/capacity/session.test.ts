import { describe, expect, test } from 'vitest'
import type { Load } from '../model/load.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Slo } from '../model/slo.ts'
import type { Target } from '../model/target.ts'
import { QueueServer } from '../testing/queue-server.ts'
import { runOf, scriptedGenerator } from '../testing/scripted-generator.ts'
import { targetAt } from '../testing/servers.ts'
import { describeErrors, Session } from './session.ts'

const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
const failed = (n: number, of: number, kind: string) => ({
  latencyMs: Float64Array.from({ length: of }, (_, i) => (i < n ? Number.NaN : 5)),
  errorKinds: { [kind]: n },
})

function sessionWith(
  answer: (load: Load, window: number) => LoadRun,
  target: Target = targetAt('http://127.0.0.1:1'),
) {
  const generator = scriptedGenerator(answer)
  const steps: string[] = []
  const session = new Session(target, slo, generator, new AbortController().signal, (_, phase) =>
    steps.push(phase),
  )
  return { session, steps, asked: generator.asked }
}
const played = (load: Load, more: Partial<LoadRun> = {}, ms = 5) =>
  runOf(load, Array<number>(10).fill(ms), more)

describe('a session', () => {
  test('sums time, requests and connections, keeps load points, and reports each step', async () => {
    const { session, steps } = sessionWith((load, window) =>
      played(load, {
        elapsedS: 2,
        generatorCores: window === 0 ? 0.4 : 0.2,
        connections: { opened: 4, closed: 3, retried: 0 },
      }),
    )
    await session.playClosed(2, 1, 'warm-up', false)
    await session.playClosed(1, 1, 'unloaded')
    const { run, point } = await session.playOpen(100, 1, 7, 'search')
    expect(run.load).toEqual({
      kind: 'open',
      rateRps: 100,
      durationS: 1,
      seed: 7,
      arrivals: { kind: 'poisson' },
    })
    expect(session.points.map(({ load }) => load.kind)).toEqual(['closed', 'open'])
    expect(session.points[1]).toBe(point)
    expect(session).toMatchObject({
      totalS: 6,
      requests: 30,
      generatorCores: 0.4,
      closedConnections: 9,
    })
    expect(steps).toEqual(['warm-up', 'unloaded', 'search'])
  })

  test.each<[string, Partial<Slo>, number]>([
    ['ten seconds', {}, 10_000],
    [
      'four times the longest limit',
      {
        limitMs: 500,
        limits: [
          { metric: 'ttft', limitMs: 500 },
          { metric: 'e2e', limitMs: 8000 },
        ],
      },
      32_000,
    ],
  ])(
    'streams that nothing comes of are given up after %s; other answers have their timeout',
    async (_, limits, silentMs) => {
      const targets: Target[] = []
      const generator = scriptedGenerator((load) => played(load))
      const play: typeof generator.play = (target, ...rest) => {
        targets.push(target)
        return generator.play(target, ...rest)
      }
      const http = targetAt('http://127.0.0.1:1')
      for (const target of [{ ...http, transport: 'sse' } as const, http])
        await new Session(
          target,
          { ...slo, ...limits },
          { ...generator, play },
          new AbortController().signal,
          () => {},
        ).playClosed(1, 1, 'unloaded')
      expect(targets).toEqual([{ ...http, transport: 'sse', silentMs }, http])
    },
  )

  test('collects unloaded latencies from open windows only', async () => {
    const { session } = sessionWith((load) =>
      played(load, { sentMs: Float64Array.from({ length: 10 }, (_, i) => 100 * i) }),
    )
    await session.playClosed(1, 1, 'search', false)
    expect(session.unloadedMs).toEqual([])
    await session.playOpen(100, 1, 7, 'search')
    expect(session.unloadedMs.length).toBeGreaterThan(0)
  })

  test('has a budget that can restart and exclude time', async () => {
    const { session } = sessionWith((load) => played(load, { elapsedS: 3 }))
    await session.playClosed(1, 1, 'warm-up')
    expect(session.spentS).toBe(3)
    session.startBudget()
    await session.playClosed(1, 1, 'unloaded')
    await session.playClosed(1, 1, 'unloaded')
    expect(session.spentS).toBe(6)
    session.excludeFromBudget(2)
    expect([session.spentS, session.totalS]).toEqual([4, 9])
    expect(session.closedConnections).toBe(0)
  })

  test('opens connections for real servers, and for virtual ones only in a burst', async () => {
    const real = sessionWith((load) => played(load))
    await real.session.connect({ connections: 12, durationS: 0.2, isBurst: false })
    expect(real.asked).toEqual([{ kind: 'closed', connections: 12, durationS: 0.2, forOpen: true }])
    expect(real.session.points).toEqual([])
    const virtual = sessionWith((load) => played(load), {
      kind: 'virtual',
      server: new QueueServer({ seed: 1, servers: 1, maxBatch: 1, serviceMs: () => 5 }),
    })
    await virtual.session.connect({ connections: 12, durationS: 0.2, isBurst: false })
    expect(virtual.asked).toEqual([])
    await virtual.session.connect({ connections: 90, durationS: 0.05, isBurst: true })
    expect(virtual.asked).toEqual([
      { kind: 'closed', connections: 90, durationS: 0.05, forOpen: true },
    ])
  })
})

describe('a server counts as dead', () => {
  const diedAfter = async (first: Partial<LoadRun>, second: Partial<LoadRun> = {}) => {
    const { session, asked } = sessionWith((load, window) =>
      played(load, window === 0 ? first : second),
    )
    const { point } = await session.playClosed(4, 1, 'search')
    const died = await session.hasDied(point)
    // What it is asked once more is one request at a time, and no part of the curve.
    expect(
      asked
        .slice(1)
        .every(
          (load) => load.kind === 'closed' && load.connections === 1 && load.durationS === 0.05,
        ),
    ).toBe(true)
    expect(session.points).toEqual([point])
    return { died, asked: asked.length - 1 }
  }

  test('if every request failed, most of them refused', async () => {
    expect(await diedAfter(failed(10, 10, 'refused'))).toEqual({ died: true, asked: 0 })
    expect(
      await diedAfter({ ...failed(10, 10, 'refused'), errorKinds: { refused: 6, timeout: 4 } }),
    ).toEqual({ died: true, asked: 0 })
    expect(
      await diedAfter({ ...failed(10, 10, 'timeout'), errorKinds: { refused: 5, timeout: 5 } }),
    ).toEqual({ died: false, asked: 1 })
    expect(await diedAfter(failed(10, 10, 'status 503'))).toEqual({ died: false, asked: 0 })
    expect(await diedAfter({ latencyMs: new Float64Array(0) })).toEqual({ died: false, asked: 0 })
  })

  test.each(['refused', 'reset', 'closed by server'])(
    'where some were broken (%s) and it answers no more',
    async (kind) => {
      expect(await diedAfter(failed(1, 10, kind), failed(10, 10, 'refused'))).toEqual({
        died: true,
        asked: 1,
      })
      expect(await diedAfter(failed(1, 10, kind))).toEqual({ died: false, asked: 1 })
    },
  )

  test('not after other failures', async () => {
    expect(await diedAfter(failed(1, 10, 'timeout'), failed(10, 10, 'refused'))).toEqual({
      died: false,
      asked: 0,
    })
    expect(await diedAfter({}, failed(10, 10, 'refused'))).toEqual({ died: false, asked: 0 })
  })
})

describe('after an overload', () => {
  const settled = async (unloadedMs: number, ms: (window: number) => number) => {
    const { session, asked } = sessionWith((load, window) =>
      played(load, {}, window === 0 ? unloadedMs : ms(window)),
    )
    const { point } = await session.playClosed(1, 1, 'unloaded')
    await session.settle(point)
    expect(session.points).toEqual([point])
    expect(asked.every((load) => load.kind === 'closed' && load.connections === 1)).toBe(true)
    return asked.slice(1).map(({ durationS }) => durationS)
  }

  test('it waits until the server is as fast as when unloaded: half as slow again and 2 ms', async () => {
    expect(await settled(100, (window) => [300, 152.1, 151.9, 5][window - 1]!)).toEqual([
      0.15, 0.15, 0.15,
    ])
    expect(await settled(1, (window) => [3.6, 3.4, 1][window - 1]!)).toEqual([0.02, 0.02])
  })

  test('waits for twenty loads at most', async () => {
    expect(await settled(10, () => 500)).toHaveLength(20)
  })

  test('stops waiting once the server hangs for ten seconds', async () => {
    const timedOut = (load: Load, s: number) =>
      played(load, { ...failed(1, 1, 'timeout'), elapsedS: s })
    const triesOf = async (answer: (load: Load, window: number) => LoadRun) => {
      const { session, asked } = sessionWith((load, window) =>
        window === 0 ? played(load) : answer(load, window),
      )
      const { point } = await session.playClosed(1, 1, 'unloaded')
      await session.settle(point)
      return [asked.length - 1, session.unresponsive?.errorKinds, await session.hasDied(point)]
    }
    expect(await triesOf((load) => timedOut(load, 2))).toEqual([5, { timeout: 1 }, true])
    expect(await triesOf((load) => timedOut(load, 30))).toEqual([2, { timeout: 1 }, true])
    // One that answers in between, however late, works off what was heaped up; and refusals are
    // answers.
    expect(
      await triesOf((load, window) =>
        window % 3 === 0 ? played(load, {}, 900) : timedOut(load, 4),
      ),
    ).toEqual([20, undefined, false])
    expect(
      await triesOf((load) => played(load, { ...failed(1, 1, 'status 503'), elapsedS: 2 })),
    ).toEqual([20, undefined, false])
  })
})

test.each<[string, Target, boolean]>([
  [
    'of streams time out together: it hangs',
    { ...targetAt('http://127.0.0.1:1'), transport: 'sse' },
    true,
  ],
  [
    'of others time out one by one: it may only be overloaded',
    targetAt('http://127.0.0.1:1'),
    false,
  ],
])('ten seconds of a loaded server without an answer %s', async (_, target, unresponsive) => {
  const { session } = sessionWith(
    (load, window) =>
      played(load, window === 1 ? {} : { ...failed(10, 10, 'timeout'), elapsedS: 6 }),
    target,
  )
  const died = []
  for (let window = 0; window < 4; window++)
    died.push(await session.hasDied((await session.playOpen(10, 1, window, 'search')).point))
  expect(died).toEqual([false, false, false, unresponsive])
  if (unresponsive)
    expect(session.describeDeath(session.points[0]!)).toBe(
      'nothing is answered any more: 10 of 10 requests failed (timeout × 10)',
    )
})

test('errors are listed by frequency', async () => {
  const { session } = sessionWith((load) =>
    played(load, {
      ...failed(5, 10, 'reset'),
      errorKinds: { timeout: 1, 'status 503': 3, reset: 1 },
    }),
  )
  const { point } = await session.playClosed(1, 1, 'unloaded')
  expect(describeErrors(point)).toBe(
    '5 of 10 requests failed (status 503 × 3, timeout × 1, reset × 1)',
  )
})

import { beforeAll, describe, expect, test } from 'vitest'
import { trueCapacities } from '../bench/truth.bench.ts'
import { VirtualLoadGenerator } from '../load/virtual-generator.ts'
import type { Load } from '../model/load.ts'
import type { LoadGenerator } from '../model/load-generator.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Measurement } from '../model/measurement.ts'
import type { Slo } from '../model/slo.ts'
import type { Target } from '../model/target.ts'
import type { VirtualServer } from '../model/virtual-server.ts'
import type { Uniform } from '../seeded-random.ts'
import { DisciplineServer } from '../testing/discipline-server.ts'
import { QueueServer, type QueueServerOptions } from '../testing/queue-server.ts'
import { virtualCases } from '../testing/virtual-servers.ts'
import { confirmCapacity } from './confirmation/confirm.ts'
import { type CapacityOptions, measureCapacity } from './measure.ts'

const { signal } = new AbortController()
const truths = trueCapacities()
const caseOf = (name: string) => virtualCases.find((c) => c.name === name)!
const measure = (server: VirtualServer, slo: Slo, options: Partial<CapacityOptions> = {}) =>
  measureCapacity({
    target: { kind: 'virtual', server },
    slo,
    signal,
    seed: 11,
    effort: 'quick',
    ...options,
  })

describe('capacity of servers whose true one is known', () => {
  test.each(['GPU batch 32, 30 ms stalls', 'CPU batch 8'])('%s, standard effort', async (name) => {
    const { server, slo } = caseOf(name)
    const found = await Promise.all(
      [1, 2, 3].map((seed) => measure(server(seed), slo, { seed, effort: 'standard' })),
    )
    const errors = found
      .map((m) => Math.abs(m.capacityRps / truths[name]! - 1))
      .sort((a, b) => a - b)
    expect(errors[1]).toBeLessThan(0.08)
    expect(
      found.filter(
        (m) => m.capacityCi90Rps[0] <= truths[name]! && truths[name]! <= m.capacityCi90Rps[1],
      ).length,
    ).toBeGreaterThanOrEqual(2)
    expect(found.every((m) => m.seconds < 32)).toBe(true)
  })

  test('the same seed gives the same measurement', async () => {
    const { server, slo } = caseOf('CPU batch 8')
    expect(await measure(server(1), slo)).toEqual(await measure(server(1), slo))
  })

  test('a server whose full batches take longer than a window of a second has them in its figure: closed loops fill them', async () => {
    const server = () =>
      new QueueServer({
        seed: 1,
        servers: 1,
        maxBatch: 64,
        serviceMs: (batch) => 8.8 + 2.9 * batch,
      })
    // By six runs of 100,000 arrivals at each of seven rates.
    const truth = 324.3
    const found = await Promise.all(
      [1, 2, 3].map((seed) =>
        measure(
          server(),
          { percentile: 0.99, limitMs: 570, maxErrorRate: 0.001 },
          { seed: 1000 * seed },
        ),
      ),
    )
    expect(
      found.filter(({ capacityCi90Rps: [low, high] }) => low <= truth && truth <= high).length,
    ).toBeGreaterThanOrEqual(2)
    expect(
      found.map(({ capacityRps }) => Math.abs(capacityRps / truth - 1)).sort((a, b) => a - b)[1],
    ).toBeLessThan(0.03)
  })

  test('where no closed loop left anyone behind, its largest batch is the largest known, though each was seen once or twice', async () => {
    const server = () =>
      new QueueServer({ seed: 1, servers: 1, maxBatch: 128, serviceMs: (batch) => 10 + 5 * batch })
    // By six runs of 60 s at each rate of a bisection.
    const truth = 178.6
    const found = await Promise.all(
      [1, 2, 3, 4, 5].map((seed) =>
        measure(
          server(),
          { percentile: 0.99, limitMs: 400, maxErrorRate: 0.001 },
          { seed: 1000 * seed },
        ),
      ),
    )
    expect(
      found.filter(({ capacityCi90Rps: [low, high] }) => low <= truth && truth <= high).length,
    ).toBeGreaterThanOrEqual(4)
    expect(
      found.map(({ capacityRps }) => Math.abs(capacityRps / truth - 1)).sort((a, b) => a - b)[2],
    ).toBeLessThan(0.025)
  })

  test('an outage that only closed loops met is in the interval: batches of as many are alike, however many more waited', async () => {
    const { server, slo, name } = caseOf('batch 16, 60 ms stalls by the clock')
    const found = await measure(server(7070), slo, { seed: 1_010_000 })
    expect(found.capacityRps).toBeGreaterThan(truths[name]!)
    expect(found.capacityCi90Rps[0]).toBeLessThan(truths[name]!)
  })

  test('a cache that is nearly full: the last misses are in the interval, and are not the capacity', async () => {
    const cached = (seed: number) => {
      const known = new Set<number>()
      const serviceMs: QueueServerOptions['serviceMs'] = (_, uniform) => {
        const before = known.size
        return known.add(Math.floor(uniform() * 150)).size > before ? 45 : 9
      }
      return new QueueServer({ seed, servers: 1, maxBatch: 1, serviceMs })
    }
    // 9 ms once all inputs are known: by 400,000 arrivals at each of five rates.
    const truth = 73.8
    const limits: Slo = { percentile: 0.99, limitMs: 60, maxErrorRate: 0.001 }
    const found = await Promise.all(
      [1, 2, 3, 4, 5, 6, 7].map((seed) => measure(cached(7 * seed), limits, { seed: 1000 * seed })),
    )
    expect(
      found.filter(({ capacityCi90Rps: [low, high] }) => low <= truth && truth <= high).length,
    ).toBeGreaterThanOrEqual(5)
    expect(
      found.map(({ capacityRps }) => Math.abs(capacityRps / truth - 1)).sort((a, b) => a - b)[3],
    ).toBeLessThan(0.04)
  })

  test('a worker that takes the shortest first is no shared core: its interval holds, wide as it is, and no figure converges far below it', async () => {
    const workMs = (uniform: Uniform) => (uniform() < 0.1 ? 17 : 3.7)
    const takes = (waiting: readonly { workMs: number }[]) =>
      Math.max(
        0,
        waiting.findIndex((each) => each.workMs < 17),
      )
    // By six runs of 100,000 arrivals at each of seven rates.
    const truth = 110.4
    const limits: Slo = { percentile: 0.99, limitMs: 44, maxErrorRate: 0.001 }
    const server = (seed: number) => new DisciplineServer({ seed, servers: 1, workMs, takes })
    const found = await Promise.all(
      [1, 2, 4, 5, 6, 7, 8].map((seed) => measure(server(7 * seed), limits, { seed: 1000 * seed })),
    )
    expect(
      found.filter(({ capacityCi90Rps: [low, high] }) => low <= truth && truth <= high).length,
    ).toBeGreaterThanOrEqual(5)
  })

  test('one pause in a closed loop gives no server up and moves no bound by itself', async () => {
    const pauseAtMs = 2500
    let paused = false
    const serviceMs = (_batch: number, _uniform: Uniform, atMs: number) => {
      const pauses = !paused && atMs >= pauseAtMs
      paused ||= pauses
      return pauses ? 254 : 4
    }
    const server = new QueueServer({ seed: 1, servers: 1, maxBatch: 1, serviceMs })
    // 4 ms in 60, by long simulation.
    const truth = 213
    const limits: Slo = { percentile: 0.99, limitMs: 60, maxErrorRate: 0.001 }
    const found = await measure(server, limits, { seed: 5000, capacityToBeatRps: 190 })
    expect(found.outcome).not.toBe('pruned')
    expect(found.capacityCi90Rps[0]).toBeLessThan(truth)
    expect(found.capacityCi90Rps[1]).toBeGreaterThan(truth)
  })

  test('a server that gets faster is waited for', async () => {
    const { server, slo } = caseOf('warm-up drift')
    const phases: string[] = []
    const { capacityRps } = await measure(server(1), slo, {
      onStep: (_, phase) => phases.push(phase),
    })
    expect(phases.filter((phase) => phase === 'warm-up').length).toBeGreaterThan(4)
    expect(capacityRps).toBeGreaterThan(0.75 * truths['warm-up drift']!)
  })
})

describe('what is believed of the capacity beforehand', () => {
  const { server, slo } = caseOf('CPU batch 8')
  const truth = truths['CPU batch 8']!
  const expecting = (part: number, options: Partial<CapacityOptions> = {}) =>
    measure(server(1), slo, { expectedRps: part * truth, ...options })
  let plain: Measurement
  beforeAll(async () => {
    plain = await measure(server(1), slo)
  })

  test.each([0.9, 1.1])('costs nothing where it is %d of it', async (part) => {
    const expected = await expecting(part)
    expect(expected.seconds).toBeLessThanOrEqual(plain.seconds)
    expect(Math.abs(expected.capacityRps / plain.capacityRps - 1)).toBeLessThan(0.08)
    expect(expected.outcome).toBe('converged')
  })

  test.each([0.1, 8])(
    'does not change the figure where it is wrong, %d of it, and hardly the time',
    async (part) => {
      const expected = await expecting(part)
      expect(Math.abs(expected.capacityRps / plain.capacityRps - 1)).toBeLessThan(0.08)
      expect(expected.seconds).toBeLessThan(plain.seconds + 2)
    },
  )

  test('a trial that was expected to lose, and loses, says so no later', async () => {
    const beat = { capacityToBeatRps: 1.3 * truth }
    const [expected, plain] = [await expecting(1, beat), await measure(server(1), slo, beat)]
    expect([expected.outcome, plain.outcome]).toEqual(['pruned', 'pruned'])
    expect(open(expected).length).toBeLessThanOrEqual(open(plain).length)
  })

  test('one that was expected to win takes two', async () => {
    const expected = await expecting(1.15, {
      capacityToBeatRps: 1.1 * truth,
      effort: 'standard',
    })
    expect(open(expected).length).toBeGreaterThan(0)
  })
})
/** Steady windows: a sweep is no point of the curve. */
const open = ({ points }: { points: readonly { load: Load }[] }) =>
  points.filter(({ load }) => load.kind === 'open')

describe('racing', () => {
  const { server, slo } = caseOf('CPU batch 8')
  test('a server that cannot beat the best so far is cut short, with an upper bound', async () => {
    const whole = await measure(server(1), slo, { effort: 'standard' })
    const cut = await measure(server(1), slo, { effort: 'standard', capacityToBeatRps: 400 })
    expect(cut.outcome).toBe('pruned')
    expect(cut.capacityRps).toBeGreaterThan(0.9 * truths['CPU batch 8']!)
    expect(cut.capacityRps).toBeLessThan(400)
    expect(cut.seconds).toBeLessThan(0.7 * whole.seconds)
  })

  test('a cold server that pauses on its way up is not given up for it', async () => {
    let served = 0
    const cold = new QueueServer({
      seed: 1,
      servers: 1,
      maxBatch: 1,
      serviceMs: () => (served++ < 100 ? 20 : 5),
    })
    const found = await measure(
      cold,
      { percentile: 0.99, limitMs: 100, maxErrorRate: 0.001 },
      { capacityToBeatRps: 150 },
    )
    expect(found.outcome).not.toBe('pruned')
    expect(found.capacityRps).toBeGreaterThan(150)
  })

  test('one that can is measured to the end', async () => {
    expect((await measure(server(1), slo, { capacityToBeatRps: 40 })).outcome).not.toBe('pruned')
  })
})

test('an idle latency over the limit is unattainable', async () => {
  const server = new QueueServer({ seed: 1, servers: 1, maxBatch: 1, serviceMs: () => 70 })
  expect(
    await measure(server, { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }),
  ).toMatchObject({
    outcome: 'slo-unattainable',
    capacityRps: 0,
  })
})

test('a server that refuses before it gets slow is bounded by its errors', async () => {
  const server = new QueueServer({
    seed: 1,
    servers: 1,
    maxBatch: 1,
    queueLimit: 3,
    serviceMs: () => 10,
  })
  const found = await measure(
    server,
    { percentile: 0.99, limitMs: 500, maxErrorRate: 0.001 },
    { effort: 'standard' },
  )
  // M/D/1 with three places: one in a thousand is refused at about 30 a second.
  expect(found.detail).toMatch(/requests fail from|requests are refused once the queue is full/)
  expect(found.capacityRps).toBeGreaterThan(24)
  expect(found.capacityRps).toBeLessThan(37)
})

describe('a server that slows down while it is measured', () => {
  const slo: Slo = { percentile: 0.99, limitMs: 60, maxErrorRate: 0.001 }
  /** In the middle of a window, when all loops were as fast as ever. */
  const slowsAt = (fromMs: number, slower: number, options: Partial<QueueServerOptions>) =>
    new QueueServer({
      servers: 1,
      maxBatch: 1,
      seed: 3,
      ...options,
      serviceMs: (batch, uniform, atMs, waiting) =>
        options.serviceMs!(batch, uniform, atMs, waiting) * (atMs < fromMs ? 1 : slower),
    })

  test.each([
    ['for good, one by one', 5400, 7 / 3, { serviceMs: () => 3 }, 97, 110],
    [
      'for good, in batches',
      6000,
      1.5,
      { serviceMs: (n: number) => 6 + 0.6 * n, maxBatch: 16 },
      560,
      660,
    ],
  ])(
    '%s, has the capacity that it has since, and is not converged',
    async (_, fromMs, slower, options, from, to) => {
      const found = await measure(slowsAt(fromMs, slower, options), slo)
      expect(found).toMatchObject({
        outcome: 'non-stationary',
        bounds: 'both',
        speedRatio: expect.closeTo(1 / slower, 1),
      })
      expect(found.detail).toMatch(
        /^slowed down during the measurement: service took [\d.]+ times as long/,
      )
      expect(found.capacityRps).toBeGreaterThan(from)
      expect(found.capacityRps).toBeLessThan(to)
      expect(found.capacityCi90Rps[1]).toBeLessThan(1.1 * to)
    },
  )

  test('all the time, is never converged', async () => {
    const found = await measure(
      new QueueServer({
        seed: 1,
        servers: 1,
        maxBatch: 1,
        serviceMs: (_batch, uniform, atMs) =>
          (3 + 0.8 * Math.max(0, atMs / 1000 - 4)) * (0.9 + 0.2 * uniform()),
      }),
      slo,
      { seed: 1 },
    )
    expect(found.outcome).toBe('non-stationary')
  })
})

test('a server that changes speed while it is measured is said to', async () => {
  const server = new QueueServer({
    seed: 1,
    servers: 1,
    maxBatch: 1,
    serviceMs: (_, __, atMs) => (atMs < 14_000 ? 10 : 25),
  })
  const found = await measure(
    server,
    { percentile: 0.99, limitMs: 200, maxErrorRate: 0.001 },
    { effort: 'standard' },
  )
  expect(found.caveats.join()).toMatch(
    /one request at a time took 10\.0 ms before the load and 25\.0 ms after it, .*: the server changed/,
  )
})

describe('confirmation', () => {
  const { server, slo, name } = caseOf('CPU batch 8')
  const confirm = (share: number) =>
    confirmCapacity({
      target: { kind: 'virtual', server: server(5) },
      slo,
      rateRps: share * truths[name]!,
      signal,
    })

  test('a rate well below the capacity holds, and is proven', async () => {
    expect(await confirm(0.8)).toMatchObject({ met: true, proven: true, outcome: 'converged' })
  })

  test('a rate above it does not, and lower ones are tried', async () => {
    const found = await confirm(1.12)
    expect(found.met).toBe(false)
    expect(found.points.length).toBeGreaterThan(2)
    expect(found.capacityRps).toBeLessThan(1.08 * truths[name]!)
    expect(found.capacityRps).toBeGreaterThan(0)
  })

  test('windows that prove together what the first does not count as one', async () => {
    const found = await confirm(0.8)
    const windows = found.points.filter(
      ({ load }) => load.kind === 'open' && load.rateRps === found.rateRps,
    )
    expect(windows).toEqual([found.point])
    expect(found.proven).toBe(true)
    expect(found.confidence).toBeGreaterThan(0.95)
    expect(found.point.requests / (found.rateRps * found.point.seconds)).toBeCloseTo(1, 2)
    expect(found.point.seconds).toBeLessThan(61)
  })

  test('a server that is slow until it has been under load is confirmed at the rate it then serves', async () => {
    let served = 0
    const cold = new QueueServer({
      seed: 1,
      servers: 1,
      maxBatch: 1,
      serviceMs: () => (served++ < 300 ? 20 : 5),
    })
    const found = await confirmCapacity({
      target: { kind: 'virtual', server: cold },
      slo,
      rateRps: 150,
      signal,
    })
    expect(found).toMatchObject({ met: true, capacityRps: 150 })
    expect(found.points.filter(({ load }) => load.kind === 'open')).toHaveLength(1)
  })

  const sending = (change: (run: LoadRun) => LoadRun) => {
    const virtual = new VirtualLoadGenerator()
    const server: Target = {
      kind: 'virtual',
      server: new QueueServer({ seed: 1, servers: 1, maxBatch: 1, serviceMs: () => 5 }),
    }
    const play = async (_: Target, load: Load) => change(await virtual.play(server, load, signal))
    const generator: LoadGenerator = {
      name: 'changed',
      play,
      run: virtual.run.bind(virtual),
      close: async () => {},
    }
    const target: Target = {
      kind: 'http',
      url: 'http://127.0.0.1:1',
      path: '/',
      headers: {},
      bodies: [],
      timeoutMs: 1000,
    }
    return confirmCapacity({ target, slo, rateRps: 100, signal, generator })
  }

  test('sends that were late, and yet answered within the SLO, confirm it', async () => {
    const late = await sending((run) => ({
      ...run,
      latenessP99Ms: run.load.kind === 'open' ? 30 : 0,
    }))
    expect(late.points.some((point) => point.generatorSaturated)).toBe(true)
    expect(late).toMatchObject({ met: true, capacityRps: 100 })
  })

  test('sends that were left out do not', async () => {
    const left = await sending((run) =>
      run.load.kind === 'open' ? { ...run, planned: 1.2 * run.planned } : run,
    )
    expect(left).toMatchObject({ met: false, capacityRps: 0, outcome: 'generator-limit' })
  })

  test('an effective sample is smaller than the sample when the queue makes clusters', async () => {
    const found = await confirm(0.95)
    expect(found.nEff).toBeLessThan(found.point.requests / 2)
  })
})

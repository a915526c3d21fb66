import { describe, expect, test } from 'vitest'
import { VirtualLoadGenerator } from '../../load/virtual-generator.ts'
import type { Load } from '../../model/load.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { VirtualServer } from '../../model/virtual-server.ts'
import { createUniform } from '../../seeded-random.ts'
import { DisciplineServer } from '../../testing/discipline-server.ts'
import { bucket } from '../../testing/held-out-servers.ts'
import { runOf } from '../../testing/scripted-generator.ts'
import { measureCapacity } from '../measure.ts'
import { estimateBucketCapacity, findBucketRate, fitTokenBucket } from './token-bucket.ts'

const { signal } = new AbortController()
const limited = (perSecond: number, most: number) =>
  new DisciplineServer({
    seed: 1,
    servers: 4,
    workMs: () => 5,
    takes: () => 0,
    admits: bucket(perSecond, most),
  })
const play = (server: VirtualServer, load: Load): Promise<LoadRun> =>
  new VirtualLoadGenerator().play({ kind: 'virtual', server }, load, signal)
const open = (rateRps: number, durationS: number): Load => ({
  kind: 'open',
  rateRps,
  durationS,
  arrivals: { kind: 'poisson' },
  seed: 3,
})

test.each([
  [40, 10],
  [25, 40],
  [300, 60],
])('a limit of %i a second and %i more is told by what was let in', async (perSecond, most) => {
  for (const load of [
    open(3 * perSecond, 3),
    { kind: 'closed', connections: 8, durationS: 2 } as const,
  ]) {
    const found = fitTokenBucket([await play(limited(perSecond, most), load)])!
    expect(Math.abs(found.perSecond / perSecond - 1)).toBeLessThan(0.05)
    expect(Math.abs(found.burst - most)).toBeLessThan(2 + 0.05 * most)
  }
})

describe('scripted refusals', () => {
  /**
   * Sent each 2 ms: the first thirteen are let in, of the others each fifth, until `n` were sent.
   */
  const refusing = (n: number, more: Partial<LoadRun> = {}) =>
    runOf(
      { kind: 'open', rateRps: 500, durationS: n / 500, arrivals: { kind: 'constant' }, seed: 1 },
      Array.from({ length: n }, (_, i) => (i < 13 || i % 5 === 0 ? 4 : Number.NaN)),
      more,
    )

  test('admissions between refusals give the refill rate, earlier ones the burst', () => {
    // Refused from 26 ms to 198 ms; let in at 30, 40 ... 190 ms.
    const perSecond = (17 / 172) * 1000
    expect(fitTokenBucket([refusing(100)])).toEqual({
      perSecond: expect.closeTo(perSecond, 9),
      burst: expect.closeTo(13 - 0.026 * perSecond, 9),
      admitted: 17,
    })
    const [short, long] = [refusing(100), refusing(200)]
    // Refused from 26 ms to 398 ms; 37 let in.
    const both = fitTokenBucket([short, long])!
    expect([both.admitted, both.perSecond]).toEqual([
      17 + 37,
      expect.closeTo((1000 * 54) / (172 + 372), 9),
    ])
  })

  test('do not depend on the order of the requests', () => {
    const { sentMs, latencyMs, ...rest } = refusing(100)
    const turned = {
      ...rest,
      sentMs: sentMs.slice().reverse(),
      latencyMs: latencyMs.slice().reverse(),
    }
    expect(
      fitTokenBucket([{ ...turned, sentMs: turned.sentMs, latencyMs: turned.latencyMs }])
        ?.perSecond,
    ).toBe(fitTokenBucket([refusing(100)])!.perSecond)
  })

  test('after a cut do not count', () => {
    const cut = refusing(100, { cutMs: 100 })
    // Refused from 26 ms to 98 ms; let in at 30, 40 ... 90 ms: seven are too few.
    expect(fitTokenBucket([cut])).toBeUndefined()
    // Refused up to 108 ms: what was sent at 112 ms was cut.
    expect(fitTokenBucket([refusing(100, { cutMs: 112 })])!.admitted).toBe(8)
  })

  test('below five fit no bucket', () => {
    const failing = (refused: readonly number[]) =>
      runOf(
        { kind: 'open', rateRps: 500, durationS: 0.12, arrivals: { kind: 'constant' }, seed: 1 },
        Array.from({ length: 60 }, (_, i) => (refused.includes(i) ? Number.NaN : 4)),
      )
    expect(fitTokenBucket([failing([40, 44, 48, 52])])).toBeUndefined()
    expect(fitTokenBucket([failing([40, 44, 48, 52, 56])])?.admitted).toBe(12)
  })
})

test('an admission at the first refusal counts neither as refill nor as burst', () => {
  const run = runOf(
    { kind: 'open', rateRps: 500, durationS: 0.2, arrivals: { kind: 'constant' }, seed: 1 },
    Array.from({ length: 101 }, (_, i) => (i < 14 || i % 5 === 1 ? 4 : Number.NaN)),
    // The fourteenth comes with the first that is refused.
    { sentMs: Float64Array.from({ length: 101 }, (_, i) => 2 * (i < 14 ? i : i - 1)) },
  )
  const alone = fitTokenBucket([run])!
  // Refused from 26 ms to 198 ms; let in at 30, 40 ... 190 ms.
  expect(alone.admitted).toBe(17)
  expect(alone.burst).toBeCloseTo(13 - 0.026 * alone.perSecond, 9)
})

test('a run with far fewer refusals than implied contradicts the bucket', () => {
  const load: Load = {
    kind: 'open',
    rateRps: 500,
    durationS: 0.2,
    arrivals: { kind: 'constant' },
    seed: 1,
  }
  const refusing = runOf(
    load,
    Array.from({ length: 100 }, (_, i) => (i < 13 || i % 5 === 0 ? 4 : Number.NaN)),
  )
  // All at once, and all answered: a full bucket holds ten.
  const together = (n: number) => runOf(load, Array(n).fill(4), { sentMs: new Float64Array(n) })
  const limit = fitTokenBucket([refusing])!
  expect(Math.floor(limit.burst)).toBe(10)
  // Fourteen are fewer than three and three roots of fourteen, fifteen are not.
  expect(fitTokenBucket([refusing, together(24)])).toEqual(limit)
  expect(fitTokenBucket([refusing, together(25)])).toBeUndefined()
  // Fifteen again, of which one was refused.
  expect(
    fitTokenBucket([
      refusing,
      runOf(load, [Number.NaN, ...Array(24).fill(4)], { sentMs: new Float64Array(25) }),
    ]),
  ).toEqual(limit)
})

test('the burst is estimated from runs before the first refusal', async () => {
  const server = limited(60, 300)
  const loops: LoadRun[] = []
  for (let i = 0; i < 3; i++)
    loops.push(await play(server, { kind: 'closed', connections: 2, durationS: 0.8 }))
  expect(loops.map(({ latencyMs }) => latencyMs.some(Number.isNaN))).toEqual([false, true, true])
  const found = fitTokenBucket(loops)!
  expect(Math.abs(found.perSecond / 60 - 1)).toBeLessThan(0.05)
  // 320 in 0.8 s, in which 48 flowed in: without, the 28 that the second one got.
  expect(Math.abs(found.burst - 272)).toBeLessThan(3)
})

describe('the search for the highest rate', () => {
  test('starts at a thousandth of the limit', () => {
    expect(findBucketRate({ perSecond: 40, burst: 1 }, 0)).toBe(0.04)
  })

  test('bisects sixteen times up to the tolerated share', () => {
    expect(findBucketRate({ perSecond: 40, burst: 1e6 }, 0)).toBeCloseTo(
      40 - (40 - 0.04) / 2 ** 16,
      9,
    )
    // All may fail: a hundred times the limit.
    expect(findBucketRate({ perSecond: 40, burst: 1e6 }, 1)).toBeCloseTo(
      4000 - (4000 - 0.04) / 2 ** 16,
      6,
    )
  })
})

test('the interval narrows with the admitted requests, and allows two requests of the burst', () => {
  const limit = { perSecond: 40, burst: 10, admitted: 64 }
  const { rateRps, ci90Rps } = estimateBucketCapacity(limit, 0.01)
  expect(rateRps).toBe(findBucketRate(limit, 0.01))
  // Eight tenths of one in the root of 64.
  expect(ci90Rps).toEqual([
    findBucketRate({ perSecond: 36, burst: 8 }, 0.01),
    findBucketRate({ perSecond: 44, burst: 12 }, 0.01),
  ])
  // No bucket holds less than one.
  expect(estimateBucketCapacity({ perSecond: 40, burst: 2, admitted: 64 }, 0.01).ci90Rps[0]).toBe(
    findBucketRate({ perSecond: 36, burst: 1 }, 0.01),
  )
})

test('a server without refusals has no bucket', async () => {
  expect(fitTokenBucket([await play(limited(100, 50), open(40, 3))])).toBeUndefined()
})

test('random failures are no rate limit', async () => {
  const uniform = createUniform(4)
  const failing = (share: number) => (ms: number) => (uniform() < share ? Number.NaN : ms)
  const run = async (rateRps: number, share: number) => {
    const played = await play(limited(1e6, 1e6), open(rateRps, 2))
    return { ...played, latencyMs: played.latencyMs.map(failing(share)) }
  }
  expect(fitTokenBucket([await run(300, 0.05), await run(250, 0)])).toBeUndefined()
})

test('the refused share agrees with a long simulation', async () => {
  const rateRps = findBucketRate({ perSecond: 40, burst: 10 }, 0.01)
  const { latencyMs } = await play(limited(40, 10), open(rateRps, 3000))
  expect(Math.abs(latencyMs.filter(Number.isNaN).length / latencyMs.length - 0.01)).toBeLessThan(
    0.003,
  )
  // Of one place, a request is refused when the one before it came less than 1 / limit earlier: 1 -
  // exp(-rate / limit), as far as that one was let in.
  expect(
    Math.abs(findBucketRate({ perSecond: 40, burst: 1 }, 0.01) / (-40 * Math.log(1 - 0.01)) - 1),
  ).toBeLessThan(0.1)
  expect(findBucketRate({ perSecond: 40, burst: 1e6 }, 0.01)).toBeCloseTo(40 / 0.99, 0)
})

test('a window served from a full bucket is no capacity', async () => {
  for (const seed of [1, 2, 3]) {
    const found = await measureCapacity({
      target: { kind: 'virtual', server: limited(40, 30) },
      slo: { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 },
      signal,
      seed: 100 * seed,
      effort: 'quick',
    })
    const truth = findBucketRate({ perSecond: 40, burst: 30 }, 0.001)
    expect(found.bounds).toBe('both')
    expect(Math.abs(found.capacityRps / truth - 1)).toBeLessThan(0.06)
    expect(found.capacityCi90Rps[0]).toBeLessThan(truth)
    expect(found.capacityCi90Rps[1]).toBeGreaterThan(truth)
  }
})

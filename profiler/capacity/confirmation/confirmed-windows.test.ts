/**
 * Which windows a confirmation plays, and what it makes of them; servers with a queue are in
 * confirm.test.ts.
 */
import { describe, expect, test } from 'vitest'
import type { Load } from '../../model/load.ts'
import {
  close,
  confirmed,
  type Open,
  open,
  slo,
  slow,
  upTo,
} from '../../testing/scripted-confirmation.ts'
import { runOf, scriptedGenerator } from '../../testing/scripted-generator.ts'
import { targetAt } from '../../testing/servers.ts'
import { confirmCapacity } from './confirm.ts'

const infinite = Number.POSITIVE_INFINITY
/** So many of each 250 requests take a little longer than the limit, evenly spread. */
const over = (of250: number) => (i: number) =>
  Math.floor(((i + 1) * of250) / 250) > Math.floor((i * of250) / 250) ? 62 : 5

describe('a confirmation', () => {
  test('warms up, measures the unloaded latency, warms up at the rate, and plays windows with their own seeds', async () => {
    const of = { percentile: 0.75, limitMs: 60, maxErrorRate: 0.01 }
    const { all } = await confirmed((load) => open(load), { slo: of, seed: 5 })
    const window = { kind: 'open', rateRps: 100, arrivals: { kind: 'poisson' } }
    expect(all.slice(0, 4)).toEqual([
      { kind: 'closed', connections: 2, durationS: 1 / 3 },
      // A hundred requests of 5 ms.
      { kind: 'closed', connections: 1, durationS: expect.closeTo(0.5, 1) },
      ...[9005, 9006].map((seed) => ({
        ...window,
        durationS: expect.closeTo(1 / 3, 9),
        seed,
        cut: { overMs: 60, requests: expect.closeTo(0.3 * 33.333333 + 20, 5) },
      })),
    ])
    // 1.5 times a quarter of the 1000 in 10 s, and five. Fifteen seeds for each window to choose
    //   from; 250 of 250 prove it, but no proof takes less than a third of the time.
    const windows = all.slice(4) as Open[]
    expect(windows).toHaveLength(2)
    for (const [i, load] of windows.entries()) {
      expect(load).toEqual({
        ...window,
        durationS: 2.5,
        seed: expect.any(Number),
        cut: { overMs: 60, requests: 380 },
      })
      expect(Math.floor((load.seed - 5) / 15)).toBe(i)
    }
    const short = await confirmed((load) => open(load), {
      seconds: 6,
      rateRps: 500,
      arrivals: { kind: 'gamma', cv: 2 },
    })
    // Where three and more are there at once, shares of the rate before all of it.
    expect(short.all.map(({ durationS }) => durationS)).toEqual([
      expect.closeTo(0.2, 9),
      expect.closeTo(0.5, 1),
      0.2,
      0.2,
      0.2,
      0.2,
      0.2,
      1,
      1,
    ])
    expect(short.all.slice(2, 7).map((load) => (load as Open).rateRps)).toEqual([
      125, 250, 375, 500, 500,
    ])
    expect(short.asked[0]!.arrivals).toEqual({ kind: 'gamma', cv: 2 })
  })

  test('ends once proven at 95 %, after a third of its time at the earliest', async () => {
    const { found, each } = await confirmed((load) => open(load))
    // None of 500 over: bets have won 73, and 8 of 250.
    expect(each).toEqual([100, 100])
    expect(found).toMatchObject({
      outcome: 'converged',
      met: true,
      proven: true,
      nEff: 500,
      rateRps: 100,
      saturationRps: 100,
    })
    expect(found).toMatchObject({
      capacityRps: 100,
      capacityCi90Rps: [100, infinite],
      bounds: 'lower',
      caveats: [],
    })
    expect(found.confidence).toBeGreaterThan(0.95)
    expect(found.confidence).toBeLessThan(0.99)
    expect(found.detail).toBeUndefined()
    expect(found.points.map(({ load }) => load.kind)).toEqual(['closed', 'open'])
    const fast = await confirmed((load) => open(load), { rateRps: 3000 })
    expect(fast.asked.map(({ durationS }) => durationS)).toEqual([10 / 6, 10 / 6])
  })

  test('plays windows half as long after that time', async () => {
    const { asked } = await confirmed(
      (load, window) => open(load, window < 2 ? (i) => (i % 125 === 60 ? 100 : 5) : undefined),
      {
        rateRps: 400,
        seconds: 30,
      },
    )
    expect(asked.map(({ durationS }) => durationS).slice(0, 4)).toEqual([5, 5, 2.5, 2.5])
  })

  test('without a proof decides by the observed percentile when the time is up', async () => {
    const held = await confirmed((load, window) => open(load, over(window < 2 ? 2 : 1)))
    expect(held.each).toEqual([100, 100, 100, 100])
    expect(held.found).toMatchObject({
      met: true,
      proven: false,
      capacityRps: 100,
      capacityCi90Rps: [95, infinite],
    })
    expect(held.found.confidence).toBeLessThan(0.95)
    expect(held.found.caveats).toEqual([
      'the SLO was met, but 1000 effective requests do not prove p99 at 95 %; a longer confirmation may',
    ])
    // Eleven of a thousand.
    const missed = await confirmed((load, window) => open(load, over(window < 3 ? 3 : 2)), {
      minRps: 100,
    })
    expect(missed.each).toEqual([100, 100, 100, 100])
    expect(missed.found).toMatchObject({
      met: false,
      outcome: 'budget',
      capacityRps: 0,
      capacityCi90Rps: [0, 100],
    })
  })

  test('takes up to twice its time where that may bring a proof', async () => {
    const { found, each } = await confirmed((load) => open(load, over(1)))
    expect(each.length).toBeGreaterThan(4)
    expect(each.length).toBeLessThanOrEqual(8)
    expect(found).toMatchObject({ met: true, proven: true, capacityCi90Rps: [100, infinite] })
    expect(found.confidence).toBeGreaterThan(0.95)
    expect(found.confidence).toBeLessThan(0.99)
  })

  test('concatenates its windows to one point, with failures and lateness', async () => {
    const failing = (kinds: Record<string, number>, ms: number) => (load: Open) => {
      const failures = Object.values(kinds).reduce((sum, n) => sum + n, 0)
      return open(load, (i) => (i % 150 === 75 && i < 150 * failures ? Number.NaN : ms), {
        errorKinds: kinds,
        latenessP99Ms: ms / 5,
      })
    }
    const [first, second] = [failing({ timeout: 1 }, 5), failing({ timeout: 1, reset: 1 }, 5.4)]
    const { found } = await confirmed(
      (load, window) => (window === 0 ? first(load) : second(load)),
      { rateRps: 40, seconds: 12.5 },
    )
    expect(found.point).toMatchObject({
      requests: 500,
      errors: 3,
      seconds: 12.5,
      offeredRps: 40,
      latenessP99Ms: 5.4 / 5,
      p50Ms: 5,
      p90Ms: 5.4,
    })
    expect(found.point.errorKinds).toEqual({ timeout: 2, reset: 1 })
    expect(found.points.at(-1)).toEqual(found.point)
    expect(found.point.load).toMatchObject({ rateRps: 40, durationS: 12.5 })
  })

  test('concatenates streams in the order of sending', async () => {
    const streamed = (load: Open, ms: number) => {
      const n = Math.round(load.rateRps * load.durationS)
      const part = (value: number) => new Float64Array(n).fill(value)
      const stream = {
        latenciesMs: { ttft: part(ms), tpot: part(ms / 10), e2e: part(2 * ms) },
        tokens: part(3),
        gapsMs: Float64Array.of(ms, ms),
      }
      return open(load, () => 2 * ms, { stream })
    }
    const { found } = await confirmed((load, window) => streamed(load, window === 0 ? 5 : 20), {
      seconds: 5,
    })
    const { ttft, tpot, e2e, interToken, outputTokensPerSecond } = found.point.stream!
    expect([ttft, tpot, e2e].map(({ requests, p50Ms, maxMs }) => [requests, p50Ms, maxMs])).toEqual(
      [
        [500, 5, 20],
        [500, 0.5, 2],
        [500, 10, 40],
      ],
    )
    expect([interToken.requests, outputTokensPerSecond]).toEqual([4, 1500 / 5])
  })

  test('plays traces and bursts in one window', async () => {
    const { asked } = await confirmed((load) => open(load), {
      arrivals: { kind: 'on-off', onS: 2, offS: 3 },
    })
    expect(asked.map(({ durationS }) => durationS)).toEqual([10])
  })

  test('takes 30 s at a rate by default', async () => {
    const { all } = await confirmed((load) => open(load), { seconds: undefined })
    expect(all.map(({ durationS }) => durationS)).toEqual([
      1 / 3,
      expect.closeTo(0.5, 1),
      1,
      1,
      5,
      5,
    ])
  })

  test('with few requests decides by the observed percentile', async () => {
    expect((await confirmed((load) => open(load), { rateRps: 10 })).each).toEqual([10])
    expect((await confirmed((load) => open(load), { rateRps: 0.5 })).found).toMatchObject({
      met: true,
      proven: false,
      capacityRps: 0.5,
    })
  })
})

describe('after a violation', () => {
  test('lower rates are tried until one meets the SLO, then two between it and the lowest violated one', async () => {
    const { found, rates } = await confirmed(upTo(50))
    const [between, again] = [Math.sqrt(45 * 65), Math.sqrt(45 * Math.sqrt(45 * 65))]
    close(rates, [100, 95, 90, 82, 65, 45, between, again])
    expect(found).toMatchObject({ outcome: 'converged', met: false, bounds: 'both', proven: true })
    expect(found.capacityRps).toBeCloseTo(again, 9)
    expect(found.capacityCi90Rps).toEqual([expect.closeTo(again, 9), expect.closeTo(between, 9)])
    expect(found.point.offeredRps).toBeCloseTo(again, 0)
    // A point for each rate.
    close(
      found.points.slice(1).map(({ load }) => (load as Open).rateRps),
      rates,
    )
  })

  test('no rate below the useful one is tried', async () => {
    const { rates, found } = await confirmed(upTo(50), { minRps: 90 })
    close(rates, [100, 95, 90])
    expect(found).toMatchObject({
      outcome: 'budget',
      met: false,
      capacityRps: 0,
      bounds: 'upper',
    })
    expect(found.detail).toBe('the SLO was violated at 90 req/s; lower rates were not tried')
    close((await confirmed(upTo(50), { minRps: 100 })).rates, [100])
    close((await confirmed(upTo(50), { minRps: 120 })).rates, [100])
  })

  test('no rate is tried between close ones', async () => {
    close((await confirmed(upTo(93))).rates, [100, 95, 90])
    const { found, rates } = await confirmed(upTo(70))
    // 82 is a quarter beyond 65, 73 an eighth.
    close(rates, [100, 95, 90, 82, 65, Math.sqrt(65 * 82)])
    expect(found.capacityCi90Rps[1]).toBeCloseTo(Math.sqrt(65 * 82), 9)
  })

  test('of every rate, the lowest rate is the upper bound', async () => {
    const { found, rates } = await confirmed(upTo(0))
    close(rates, [100, 95, 90, 82, 65, 45, 25, 10])
    expect(found).toMatchObject({
      outcome: 'budget',
      capacityRps: 0,
      met: false,
      proven: false,
      nEff: 0,
      bounds: 'upper',
      caveats: [],
    })
    expect(found.confidence).toBeUndefined()
    expect(found.capacityCi90Rps).toEqual([0, expect.closeTo(10, 9)])
    expect(found.detail).toBe('the SLO was violated at 10 req/s; lower rates were not tried')
  })

  test('rates 10 % above the observed throughput are skipped, from the second violation on', async () => {
    /**
     * Answers come so many ms apart, whatever is sent; the window is seen to its end, or up to a
     * cut.
     */
    const serving = (everyMs: number, load: Open, cutMs?: number) => {
      const gapMs = 1000 / load.rateRps
      return open(load, (i) => 5 + i * Math.max(0, everyMs - gapMs) + (i % 20 === 10 ? 100 : 0), {
        cutMs,
      })
    }
    // 20 a second: 22 and less.
    close(
      (await confirmed((load) => (load.rateRps > 20 ? serving(50, load) : open(load)))).rates.slice(
        0,
        3,
      ),
      [100, 90, 10],
    )
    // 60 a second: 66 and less. Up to a cut at 2 s as well.
    for (const cutMs of [undefined, 2000])
      close(
        (
          await confirmed((load) =>
            load.rateRps > 60 ? serving(1000 / 60, load, cutMs) : open(load),
          )
        ).rates.slice(0, 4),
        [100, 90, 65, 45],
      )
    // From its first answer on: sent from 1.25 s on, 60 a second answered.
    const sentMs = Float64Array.from({ length: 250 }, (_, i) => 1250 + 5 * i)
    const late = (load: Open) => open(load, (i) => 5 + i * (1000 / 60 - 5), { sentMs })
    close(
      (await confirmed((load) => (load.rateRps > 60 ? late(load) : open(load)))).rates.slice(0, 3),
      [100, 90, 65],
    )
    // At 90 a second 65 answers are 64 distances, of 2.78 s: 25 a second is within a tenth of that;
    // 64 answers are not enough.
    const until = (answers: number) => (load: Open) => {
      const gapMs = 1000 / load.rateRps
      return open(load, (i) => 1 + i * ((1000 * load.durationS - gapMs) / (answers - 1) - gapMs))
    }
    close(
      (await confirmed((load) => (load.rateRps > 60 ? until(65)(load) : open(load)))).rates.slice(
        0,
        3,
      ),
      [100, 90, 25],
    )
    close(
      (await confirmed((load) => (load.rateRps > 60 ? until(64)(load) : open(load)))).rates.slice(
        0,
        3,
      ),
      [100, 90, 10],
    )
    // Fewer than 20 answers tell no rate: 19 in the second window, 20 in it.
    close(
      (
        await confirmed((load) => (load.rateRps > 60 ? serving(147, load) : open(load)))
      ).rates.slice(0, 3),
      [100, 90, 76.5],
    )
    close(
      (
        await confirmed((load) => (load.rateRps > 60 ? serving(145, load) : open(load)))
      ).rates.slice(0, 3),
      [100, 90, 10],
    )
  })

  test('the first violation lowers the rate by 10 % at most', async () => {
    // Beyond 92 a second what server and generator share gives way: 20 a second are answered. At 90
    // all is well.
    const collapsing = (load: Open) =>
      load.rateRps > 92 ? open(load, (i) => 5 + 40 * i) : open(load)
    const { found, rates } = await confirmed(collapsing)
    close(rates, [100, 90])
    expect(found).toMatchObject({ outcome: 'converged', capacityRps: 90 })
  })

  test('no rate just below a violated one is tried', async () => {
    const { rates } = await confirmed(
      (load) => open(load, load.rateRps > 81 ? (i) => (i % 40 === 10 ? 80 : 5) : undefined),
      {
        minProvenRps: 84,
      },
    )
    // 82 would be next, which is 97.6 % of the third.
    close(rates.slice(2, 4), [84, 0.97 * 84])
  })

  test('the next rate falls with the excess over the limit', async () => {
    const taking = (ms: number) => (load: Open) =>
      open(load, load.rateRps === 100 ? (i) => (i % 40 === 10 ? ms : 5) : undefined)
    const second = async (ms: number, minProvenRps: number) =>
      (await confirmed(taking(ms), { minProvenRps })).rates.slice(1, 2)
    // Of the 55 ms that the limit leaves, 44 are aimed at. Where 75 are waited, u / (1 - u) is to
    // go from 0.85 / 0.15 to 44 / 75 of that.
    const busy = ((0.85 / 0.15) * 44) / 75
    close(await second(80, 80), [(100 * (busy / (1 + busy))) / 0.85])
    close(await second(62, 80), [93])
    // No lower than this at once, nor than what is worth a proof.
    close(await second(500, 70), [85])
    close(await second(500, 91), [91])
    // Failures tell no wait.
    close(await second(Number.NaN, 80), [93])
  })

  test('failed requests are reported', async () => {
    const { found } = await confirmed((load) =>
      open(load, (i) => (i % 10 === 0 ? Number.NaN : 5), { errorKinds: { 'status 500': 1 } }),
    )
    expect(found).toMatchObject({
      outcome: 'budget',
      detail: '10 of 100 requests failed (status 500 × 1)',
    })
  })

  test('a cut window is followed by time to settle', async () => {
    const closedAfter = async (cutMs: number | undefined) => {
      const { all } = await confirmed((load) =>
        load.rateRps > 96 ? open(load, slow, { cutMs }) : open(load),
      )
      const first = all.findIndex((load) => load.durationS === 2.5)
      return all[first + 1]!
    }
    expect(await closedAfter(2000)).toMatchObject({
      kind: 'closed',
      connections: 1,
      durationS: 0.02,
    })
    expect(await closedAfter(undefined)).toMatchObject({ kind: 'open' })
  })

  test('a window is cut once the violation is certain', async () => {
    const { asked } = await confirmed((load) => open(load, over(2)), { minRps: 100 })
    // 1.5 times the ten that may be over in 10 s and five, less those seen.
    expect(asked.map(({ cut }) => cut!.requests)).toEqual([21, 19, 17, 15])
  })
})

describe('a rate that meets the SLO without proof, where a lower one is useful', () => {
  /**
   * At 100 a second as many over the limit as prove nothing in twice the time, at lower rates none.
   */
  const unprovenAt = (share: number) => (load: Open) =>
    open(load, load.rateRps === 100 ? over(share) : undefined)

  test.each([2, 3])(
    'gives way to a little lower one that is proven: %d of 250 over the limit',
    async (share) => {
      const { found, each } = await confirmed(unprovenAt(share), { minProvenRps: 80 })
      close(each, [100, 100, 93, 93])
      expect(found).toMatchObject({
        capacityRps: expect.closeTo(93, 9),
        proven: true,
        outcome: 'converged',
      })
    },
  )

  test('is kept for its whole time where the lower one would be too low', async () => {
    const { found, each } = await confirmed(unprovenAt(2), { minProvenRps: 94 })
    expect(each).toEqual([100, 100, 100, 100])
    expect(found).toMatchObject({ met: true, capacityRps: 100, proven: false })
    expect((await confirmed(unprovenAt(2))).found).toMatchObject({
      met: true,
      capacityRps: 100,
      proven: false,
    })
  })

  test('is given up at once where a violation is likely', async () => {
    const missing = (load: Open) =>
      open(load, load.rateRps === 100 ? (i) => (i % 40 === 10 ? 62 : 5) : undefined)
    close((await confirmed(missing, { minProvenRps: 80 })).each, [100, 93, 93])
    // Where nothing lower is worth it, it is looked at until it is certain.
    expect((await confirmed(missing, { minRps: 100 })).each.length).toBeGreaterThan(1)
  })

  test('is not repeated once a lower one is proven', async () => {
    const ms = (rateRps: number) => (rateRps > 96 ? slow : rateRps > 85 ? over(2) : undefined)
    const { found, rates } = await confirmed((load) => open(load, ms(load.rateRps)), {
      minProvenRps: 70,
    })
    close(rates, [100, 95, 0.93 * 95, 0.93 ** 2 * 95])
    expect(found).toMatchObject({ capacityRps: expect.closeTo(0.93 ** 2 * 95, 9), proven: true })
  })

  test('is lowered step by step, and the last rate gets its whole time', async () => {
    const { found, rates } = await confirmed((load) => open(load, over(2)), { minProvenRps: 80 })
    close(rates, [100, 93, 86.49, 80.4357])
    expect(found).toMatchObject({
      capacityRps: expect.closeTo(80.4357, 9),
      proven: false,
      bounds: 'lower',
    })
  })

  test('contributes its evidence to the lower one, which is proven sooner', async () => {
    const holding = (load: Open) => open(load, load.rateRps === 400 ? over(2) : undefined)
    const { found, each } = await confirmed(holding, { minProvenRps: 300, rateRps: 400 })
    close(each, [400, 400, 372])
    expect(found).toMatchObject({ capacityRps: expect.closeTo(372, 9), proven: true })
    // Alone it would have to be looked at for a third of its time.
    expect((await confirmed(holding, { rateRps: 372 })).each).toHaveLength(2)
  })

  test('contributes nothing while an outage is set aside', async () => {
    const stalled = (i: number) => (i >= 280 && i < 360 ? 205 - 2.5 * (i - 280) : 5)
    const holding = (load: Open, window: number) =>
      open(load, window === 0 ? stalled : load.rateRps === 400 ? over(2) : undefined)
    const { each } = await confirmed(holding, { minProvenRps: 300, rateRps: 400 })
    close(each, [400, 400, 400, 372, 372])
  })

  test('is discarded where a lower one violates the SLO', async () => {
    const { found, rates } = await confirmed(
      (load) => open(load, load.rateRps === 100 ? over(2) : load.rateRps > 90 ? slow : undefined),
      {
        minProvenRps: 80,
      },
    )
    close(rates, [100, 93, 90])
    expect(found).toMatchObject({ capacityRps: 90, proven: true })
    expect(found.capacityCi90Rps[1]).toBeCloseTo(93, 9)
  })
})

test('a dead server ends the confirmation, before or during the windows', async () => {
  const gone = (load: Load) => runOf(load, [Number.NaN, Number.NaN], { errorKinds: { refused: 2 } })
  const { found } = await confirmed((load, window) =>
    window === 0 ? open(load, slow) : gone(load),
  )
  expect(found).toMatchObject({
    outcome: 'server-died',
    capacityRps: 0,
    bounds: 'none',
    met: false,
    detail: expect.stringMatching(/refused/),
  })
  const generator = scriptedGenerator(gone)
  const signal = new AbortController().signal
  const never = await confirmCapacity({
    target: targetAt('http://127.0.0.1:1'),
    slo,
    rateRps: 100,
    signal,
    generator,
  })
  expect(never).toMatchObject({ outcome: 'server-died', capacityCi90Rps: [0, infinite] })
  expect(generator.asked).toEqual([
    { kind: 'closed', connections: 2, durationS: 1 / 3 },
    { kind: 'closed', connections: 1, durationS: 1 },
  ])
})

/** Which windows a confirmation plays, and what it makes of them; servers with a queue are in confirm.test.ts. */
import { describe, expect, test } from 'vitest'
import { runOf, scriptedGenerator } from '../testing/scripted-generator.ts'
import { targetAt } from '../testing/servers.ts'
import type { Load, LoadRun, Slo } from '../types.ts'
import { type ConfirmOptions, confirmCapacity } from './confirm.ts'

const infinite = Number.POSITIVE_INFINITY
const slo: Slo = { percentile: 0.99, limitMs: 60, maxErrorRate: 0.01 }
type Open = Extract<Load, { kind: 'open' }>
/** A window of open load whose requests take so long each, 5 ms unless said. */
const open = (load: Open, ms: (i: number) => number = () => 5, more: Partial<LoadRun> = {}): LoadRun =>
  runOf(
    load,
    Array.from({ length: Math.round(load.rateRps * load.durationS) }, (_, i) => ms(i)),
    more,
  )
/** One in twenty takes 100 ms. */
const slow = (i: number) => (i % 20 === 10 ? 100 : 5)
/** Who is sent from the 300th on waits for 200 ms at 100 a second. */
const pausing = (i: number) => (i >= 300 && i < 320 ? 205 - 10 * (i - 300) : 5)

/** Confirms 100 a second, in windows of 10 s; `answer` is asked for windows that confirm, counted from 0. */
async function confirmed(answer: (load: Open, window: number) => LoadRun, options: Partial<ConfirmOptions> = {}) {
  let windows = 0
  const { rateRps = 100, seconds = 10 } = options
  const generator = scriptedGenerator((load) => {
    if (load.kind === 'closed') return runOf(load, [5, 5, 5])
    return load.durationS === seconds ? answer(load, windows++) : open(load)
  })
  const target = targetAt('http://127.0.0.1:1')
  const found = await confirmCapacity({ target, slo, rateRps, seconds, signal: new AbortController().signal, generator, ...options })
  const asked = generator.asked.filter((load): load is Open => load.kind === 'open' && load.durationS === seconds)
  return { found, all: generator.asked, asked, rates: asked.map((load) => load.rateRps) }
}
const upTo = (capacityRps: number) => (load: Open) => open(load, load.rateRps <= capacityRps ? undefined : slow)
const close = (found: readonly number[], wanted: readonly number[]) => {
  expect(found).toHaveLength(wanted.length)
  for (const [i, rate] of wanted.entries()) expect(found[i]! / rate).toBeCloseTo(1, 9)
}

describe('a confirmation', () => {
  test('warms up, looks at one request at a time, warms up at its rate, and plays its window', async () => {
    const of = { percentile: 0.75, limitMs: 60, maxErrorRate: 0.01 }
    const { all } = await confirmed((load) => open(load), { rateRps: 99.9, slo: of, seed: 5 })
    const window = { kind: 'open', rateRps: 99.9, arrivals: { kind: 'poisson' } }
    expect(all).toEqual([
      { kind: 'closed', connections: 2, durationS: 1 },
      { kind: 'closed', connections: 1, durationS: 1 },
      ...[2005, 2006].map((seed) => ({
        ...window,
        durationS: expect.closeTo(1 / 3, 9),
        seed,
        cut: { overMs: 60, requests: expect.closeTo(0.3 * 33.3 + 20, 9) },
      })),
      // 1.5 times a quarter of 999, and five.
      { ...window, durationS: 10, seed: 5, cut: { overMs: 60, requests: 380 } },
    ])
    const short = await confirmed((load) => open(load), { seconds: 6, arrivals: { kind: 'gamma', cv: 2 } })
    expect(short.all.map(({ durationS }) => durationS)).toEqual([0.6, 0.6, 0.2, 0.2, 6])
    expect(short.asked[0]!.arrivals).toEqual({ kind: 'gamma', cv: 2 })
  })

  test('that held and proves it stands at its rate, and bounds it below', async () => {
    const { found, rates } = await confirmed((load) => open(load))
    expect(rates).toEqual([100])
    expect(found).toMatchObject({ outcome: 'converged', held: true, proven: true, nEff: 1000, rateRps: 100, saturationRps: 100 })
    expect(found).toMatchObject({ capacityRps: 100, capacityCi90Rps: [100, infinite], known: 'bound below', caveats: [] })
    expect(found.detail).toBeUndefined()
    expect(found.points.map(({ load }) => load.kind)).toEqual(['closed', 'open'])
  })

  test('goes on with another window where one proves nothing and two could, joined to one', async () => {
    const failing = (kinds: Record<string, number>, ms: number) => (load: Open) => {
      const failures = Object.values(kinds).reduce((sum, n) => sum + n, 0)
      return open(load, (i) => (i % 150 === 75 && i < 150 * failures ? Number.NaN : ms), { errorKinds: kinds, latenessP99Ms: ms / 5 })
    }
    const [first, second] = [failing({ timeout: 1 }, 5), failing({ timeout: 1, reset: 1 }, 10)]
    // One over of 400 needs 473; two of 800 need 628.
    const { found, asked } = await confirmed((load, window) => (window === 0 ? first(load) : second(load)), { rateRps: 40, seed: 3 })
    expect(asked.map(({ seed }) => seed)).toEqual([3, 1003])
    expect(found.point).toMatchObject({ requests: 800, errors: 3, seconds: 20, offeredRps: 40, latenessP99Ms: 2, p50Ms: 5, p90Ms: 10 })
    expect(found.point.errorKinds).toEqual({ timeout: 2, reset: 1 })
    expect(found).toMatchObject({ proven: true, capacityRps: 40, capacityCi90Rps: [40, infinite] })
  })

  test('joins streams, in the order they were sent', async () => {
    const streamed = (load: Open, ms: number) => {
      const part = (value: number) => new Float64Array(250).fill(value)
      const stream = { ttftMs: part(ms), tpotMs: part(ms / 10), e2eMs: part(2 * ms), tokens: part(3), gapsMs: Float64Array.of(ms, ms) }
      return open(load, () => 2 * ms, { stream })
    }
    const { found } = await confirmed((load, window) => streamed(load, window === 0 ? 5 : 20), { rateRps: 25 })
    const { ttft, tpot, e2e, interToken, outputTokensPerSecond } = found.point.stream!
    expect([ttft, tpot, e2e].map(({ requests, p50Ms, maxMs }) => [requests, p50Ms, maxMs])).toEqual([
      [500, 5, 20],
      [500, 0.5, 2],
      [500, 10, 40],
    ])
    expect([interToken.requests, outputTokensPerSecond]).toEqual([4, 1500 / 20])
  })

  test('leaves it at one window where it is told to, or where two would prove nothing', async () => {
    const one = await confirmed((load) => open(load), { rateRps: 25, extend: false })
    expect(one.rates).toEqual([25])
    expect(one.found).toMatchObject({ held: true, proven: false, capacityRps: 25, capacityCi90Rps: [0.95 * 25, infinite] })
    expect(one.found.caveats).toEqual([
      'the confirmation held, but its 250 effective requests do not prove p99 at 95 % by themselves; a longer one may',
    ])
    expect((await confirmed((load) => open(load), { rateRps: 10 })).rates).toEqual([10])
    expect((await confirmed((load) => open(load), { rateRps: 0.5 })).found).toMatchObject({ held: true, capacityRps: 0.5 })
  })
})

describe('where the SLO does not hold', () => {
  test('lower rates are tried until one does, and two between that and the lowest that did not', async () => {
    const { found, rates, asked } = await confirmed(upTo(50))
    const [between, again] = [Math.sqrt(45 * 65), Math.sqrt(45 * Math.sqrt(45 * 65))]
    close(rates, [100, 95, 90, 82, 65, 45, between, again])
    expect(asked.map(({ seed }) => seed)).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
    expect(found).toMatchObject({ outcome: 'converged', held: false, known: 'held' })
    expect(found.capacityRps).toBeCloseTo(again, 9)
    // Of 493 requests none was over: proven.
    expect(found.capacityCi90Rps).toEqual([expect.closeTo(again, 9), expect.closeTo(between, 9)])
    expect(found.point.offeredRps).toBeCloseTo(49.3, 1)
  })

  test('none between where they lie close', async () => {
    close((await confirmed(upTo(93))).rates, [100, 95, 90])
    const { found, rates } = await confirmed(upTo(70))
    // 82 is a quarter beyond 65, 73 an eighth.
    close(rates, [100, 95, 90, 82, 65, Math.sqrt(65 * 82)])
    expect(found.capacityCi90Rps[1]).toBeCloseTo(Math.sqrt(65 * 82), 9)
  })

  test('at any rate, the lowest is the bound', async () => {
    const { found, rates } = await confirmed(upTo(0))
    close(rates, [100, 95, 90, 82, 65, 45, 25, 10])
    expect(found).toMatchObject({ outcome: 'budget', capacityRps: 0, held: false, proven: false, known: 'bound above', caveats: [] })
    expect(found.capacityCi90Rps).toEqual([0, expect.closeTo(10, 9)])
    expect(found.detail).toBe('the SLO did not hold at 10.0 requests per second either')
  })

  test('rates a tenth beyond what the server was seen to serve are passed over', async () => {
    /** Answers come so many ms apart, whatever is sent; the window is seen to its end, or up to a cut. */
    const serving = (everyMs: number, load: Open, cutMs?: number) => {
      const gapMs = 1000 / load.rateRps
      return open(load, (i) => 5 + i * Math.max(0, everyMs - gapMs) + (i % 20 === 10 ? 100 : 0), { cutMs })
    }
    // 20 a second: 22 and less.
    close((await confirmed((load) => (load.rateRps > 20 ? serving(50, load) : open(load)))).rates.slice(0, 2), [100, 10])
    // 60 a second: 66 and less. Up to a cut at 5 s as well.
    for (const cutMs of [undefined, 5000])
      close(
        (await confirmed((load) => (load.rateRps > 60 ? serving(1000 / 60, load, cutMs) : open(load)))).rates.slice(0, 3),
        [100, 65, 45],
      )
    // Fewer than 20 answers tell no rate: 19 in ten seconds, 21 in ten.
    close((await confirmed((load) => (load.rateRps > 96 ? serving(530, load) : open(load)))).rates.slice(0, 2), [100, 95])
    close((await confirmed((load) => (load.rateRps > 96 ? serving(480, load) : open(load)))).rates.slice(0, 2), [100, 10])
  })

  test('requests that failed are told', async () => {
    const { found } = await confirmed((load) => open(load, (i) => (i % 10 === 0 ? Number.NaN : 5), { errorKinds: { 'status 500': 1 } }))
    expect(found).toMatchObject({ outcome: 'budget', detail: '10 of 100 requests failed (status 500 × 1)' })
  })

  test('the server is given time to settle after a window that was cut', async () => {
    const closedAfter = async (cutMs: number | undefined) => {
      const { all } = await confirmed((load) => (load.rateRps > 96 ? open(load, slow, { cutMs }) : open(load)))
      const first = all.findIndex((load) => load.durationS === 10)
      return all[first + 1]!
    }
    expect(await closedAfter(9000)).toMatchObject({ kind: 'closed', connections: 1, durationS: 0.02 })
    expect(await closedAfter(undefined)).toMatchObject({ kind: 'open' })
  })
})

describe('a window that something else may have spoilt', () => {
  test.each<[string, Partial<LoadRun>]>([
    ['the generator', { latenessP99Ms: 4 }],
    ['the machine', { machineWait: { server: 0.5 } }],
  ])('by %s is played once more', async (_, spoilt) => {
    const { found, rates } = await confirmed((load, window) => (window === 0 ? open(load, slow, spoilt) : open(load)))
    expect(rates).toEqual([100, 100])
    expect(found).toMatchObject({
      held: true,
      capacityRps: 100,
      caveats: expect.not.arrayContaining([expect.stringMatching(/nothing was/)]),
    })
    expect((await confirmed((load) => open(load, undefined, spoilt))).rates).toEqual([100])
  })

  test('each time says nothing of the server', async () => {
    const late = await confirmed((load) => open(load, slow, { latenessP99Ms: 4 }))
    close(
      late.rates,
      [100, 95, 90, 82, 65, 45, 25, 10].flatMap((rate) => [rate, rate]),
    )
    expect(late.found).toMatchObject({ outcome: 'generator-limit', known: 'nothing', capacityCi90Rps: [0, infinite] })
    expect(late.found.detail).toMatch(/^the load generator could not hold the rate/)
    const busy = await confirmed((load) => open(load, slow, { machineWait: { server: 0.5 } }))
    expect(busy.found).toMatchObject({ outcome: 'disturbed', known: 'nothing', capacityCi90Rps: [0, infinite] })
    expect(busy.found.detail).toMatch(/^this machine kept the server or the load generator waiting/)
  })

  test('by one pause is played once more, and the pause told if that one holds', async () => {
    const { found, rates } = await confirmed((load, window) => (window === 0 ? open(load, pausing) : open(load)))
    expect(rates).toEqual([100, 100])
    expect(found.caveats).toEqual([
      'nothing was answered for 205 ms of a first window at 100.0 requests per second; the window in its place held',
    ])
    const twice = (i: number) => pausing(i >= 600 ? i - 300 : i)
    expect((await confirmed((load, window) => (window === 0 ? open(load, twice) : open(load)))).rates[1]).toBe(95)
    const never = await confirmed((load) => (load.rateRps > 96 ? open(load, pausing) : open(load)))
    close(never.rates, [100, 100, 95])
    expect(never.found.caveats).toEqual([])
    const cut = await confirmed((load, window) => (window === 0 ? open(load, pausing, { cutMs: 9999 }) : open(load)))
    expect(cut.all.slice(-2)).toMatchObject([{ kind: 'closed', durationS: 0.02 }, { kind: 'open' }])
  })

  test('with sends left out did not hold', async () => {
    const { rates } = await confirmed((load, window) => open(load, undefined, window === 0 ? { planned: 1011 } : {}))
    expect(rates[1]).toBe(100)
    expect((await confirmed((load, window) => open(load, undefined, window === 0 ? { planned: 1010 } : {}))).rates).toEqual([100])
  })
})

test('a server that is gone ends it, before or while it is confirmed', async () => {
  const gone = (load: Load) => runOf(load, [Number.NaN, Number.NaN], { errorKinds: { refused: 2 } })
  const { found } = await confirmed((load, window) => (window === 0 ? open(load, slow) : gone(load)))
  expect(found).toMatchObject({
    outcome: 'server-died',
    capacityRps: 0,
    known: 'nothing',
    held: false,
    detail: expect.stringMatching(/refused/),
  })
  const generator = scriptedGenerator(gone)
  const signal = new AbortController().signal
  const never = await confirmCapacity({ target: targetAt('http://127.0.0.1:1'), slo, rateRps: 100, signal, generator })
  expect(never).toMatchObject({ outcome: 'server-died', capacityCi90Rps: [0, infinite] })
  expect(generator.asked).toEqual([
    { kind: 'closed', connections: 2, durationS: 1 },
    { kind: 'closed', connections: 1, durationS: 1 },
  ])
})

/**
 * What windows at one rate add up to, looked at after each; which windows a confirmation plays is
 * in confirmed-windows.test.ts.
 */
import { describe, expect, test } from 'vitest'
import { summariseRun } from '../../load/load-point.ts'
import type { Load } from '../../model/load.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { Slo } from '../../model/slo.ts'
import { runOf } from '../../testing/scripted-generator.ts'
import type { PlayedLoad } from '../session.ts'
import { RateEvidence } from './rate-evidence.ts'

const p99: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.01 }
/** A window of 2.5 s at 100 a second. */
const window = (ms: (i: number) => number, more: Partial<LoadRun> = {}, slo = p99): PlayedLoad => {
  const load = {
    kind: 'open',
    rateRps: 100,
    durationS: 2.5,
    arrivals: { kind: 'poisson' },
    seed: 1,
  } as const
  const run = runOf(
    load,
    Array.from({ length: 250 }, (_, i) => ms(i)),
    more,
  )
  return { run, point: summariseRun(run, slo) }
}
const fast = () => 5
const slow = (i: number) => (i % 20 === 10 ? 100 : 5)
const pausing = (i: number) => (i >= 70 && i < 90 ? 205 - 10 * (i - 70) : 5)
const after = (windows: readonly PlayedLoad[], slo = p99) => {
  const computeEvidence = new RateEvidence({ rateRps: 100, slo, seconds: 10 })
  for (const played of windows) computeEvidence.add(played)
  return computeEvidence
}

describe('without a window that counts', () => {
  test('nothing is decided or proven', () => {
    const computeEvidence = after([])
    expect([
      computeEvidence.decision,
      computeEvidence.played,
      computeEvidence.isProven,
      computeEvidence.confidence,
      computeEvidence.nEff,
    ]).toEqual([undefined, undefined, false, 0, 0])
  })

  test('the last invalid window, or the one set aside, is shown', () => {
    const [first, last] = [window(slow, { latenessP99Ms: 60 }), window(slow, { latenessP99Ms: 55 })]
    expect(after([first, last]).played).toBe(last)
    const outageWindow = window(pausing)
    expect(after([outageWindow]).played).toBe(outageWindow)
    expect(after([outageWindow]).nEff).toBe(0)
    // Once one counts, it is that.
    expect(after([first, outageWindow, window(fast)]).played!.point.requests).toBe(250)
  })
})

describe('invalid windows', () => {
  const invalid = window(slow, { machineWait: { server: 0.5 } })
  // Longer than it takes: nothing is proven.
  const after = (windows: readonly PlayedLoad[]) => {
    const computeEvidence = new RateEvidence({ rateRps: 100, slo: p99, seconds: 60 })
    for (const played of windows) computeEvidence.add(played)
    return computeEvidence.decision
  }

  test('end a rate after three in a row, not in bursts between valid ones', () => {
    expect(after([invalid, invalid])).toBeUndefined()
    expect(after([invalid, invalid, invalid])).toBe('invalid')
    expect(after([invalid, invalid, window(fast), invalid, invalid])).toBeUndefined()
  })

  test('end a rate after six in total', () => {
    const now = [
      invalid,
      window(fast),
      invalid,
      window(fast),
      invalid,
      window(fast),
      invalid,
      window(fast),
      invalid,
      window(fast),
    ]
    expect(after(now)).toBeUndefined()
    expect(after([...now, invalid])).toBe('invalid')
  })
})

test('a cut window violates the rate, also where it counts only once a second outage came', () => {
  const p75: Slo = { percentile: 0.75, limitMs: 50, maxErrorRate: 0.01 }
  const longOutage = (i: number) => (i >= 70 && i < 140 ? 745 - 10 * (i - 70) : 5)
  const whole = window(longOutage, {}, p75)
  const run = {
    ...whole.run,
    sentMs: whole.run.sentMs.slice(0, 90),
    latencyMs: whole.run.latencyMs.slice(0, 90).map((ms, i) => Math.min(ms, 900 - 10 * i)),
    planned: 90,
    seconds: 0.9,
    cutMs: 900,
  }
  const cut = { run, point: summariseRun(run, p75) }
  expect(after([cut], p75).decision).toBeUndefined()
  expect(after([cut, whole], p75).decision).toBe('violated')
})

describe('the dispersion', () => {
  const p75: Slo = { percentile: 0.75, limitMs: 50, maxErrorRate: 0.01 }
  const spread = (i: number) => i % 10 === 5
  /** The second slowest tenth, all in a row. */
  const inARow = (i: number) => i >= 100 && i < 128 && !spread(i)

  test('is estimated from the slowest tenth at most', () => {
    const computeEvidence = after(
      [window((i) => (spread(i) ? 45 : inARow(i) ? 40 : 5 + (i % 7)), {}, p75)],
      p75,
    )
    expect(computeEvidence.nEff).toBe(250)
    const slowest = after(
      [window((i) => (inARow(i) ? 45 : spread(i) ? 40 : 5 + (i % 7)), {}, p75)],
      p75,
    )
    expect(slowest.nEff).toBeLessThan(60)
  })

  test('weakens the evidence of clustered violations', () => {
    const scattered = after([window((i) => (i % 125 === 60 ? 100 : 5)), window(fast)])
    const together = after([window((i) => (i === 60 || i === 61 ? 100 : 5)), window(fast)])
    expect(together.nEff).toBeLessThan(scattered.nEff)
    expect(together.confidence).toBeLessThan(scattered.confidence)
  })
})

describe('a higher rate that met the SLO without proof', () => {
  const at = (rateRps: number, windows: readonly PlayedLoad[], higher?: RateEvidence) => {
    const computeEvidence = new RateEvidence({
      rateRps,
      slo: p99,
      seconds: 10,
      minProvenRps: 0.9 * rateRps,
      higher,
    })
    for (const played of windows) computeEvidence.add(played)
    return computeEvidence
  }
  const odds = ({ confidence }: RateEvidence) => 1 / (1 - confidence)
  const two = [window(fast), window(fast)]

  test('passes half of its capital and its time to a lower one', () => {
    const higher = at(110, [window((i) => (i >= 100 && i < 108 ? 40 : 5))])
    expect(odds(higher)).toBeGreaterThan(1.2)
    const [alone, after] = [at(100, [window(fast)]), at(100, [window(fast)], higher)]
    expect(odds(after) / odds(alone)).toBeCloseTo((1 + odds(higher)) / 2, 6)
    expect(after.nEff).toBeCloseTo(alone.nEff + higher.nEff, 6)
    expect([alone.canEnd, after.canEnd]).toEqual([false, true])
  })

  test('proves nothing about a lower one that was not tried, or that violates the SLO', () => {
    const higher = at(110, two)
    expect(higher.isProven).toBe(true)
    expect([at(100, [], higher).isProven, at(100, [], higher).confidence]).toEqual([false, 0])
    expect(at(100, [window(slow), window(slow), window(slow), window(slow)], higher).decision).toBe(
      'violated',
    )
  })

  test('costs a lower one half of its capital at most', () => {
    const higher = at(110, [window((i) => (i % 50 === 25 ? 100 : 5))])
    const lower = at(100, two, higher)
    expect(odds(lower)).toBeGreaterThan(0.5 * odds(at(100, two)))
    expect(odds(lower)).toBeLessThan(0.6 * odds(at(100, two)))
  })
})

describe('a window in which a queue can grow', () => {
  const asked = { slo: p99, seconds: 30, fillWindowS: 40 }
  const wants = (rateRps: number) => new RateEvidence({ ...asked, rateRps }).needsFillWindow

  test('is required where too few requests come for a proof', () => {
    expect([1, 5, 15].map(wants)).toEqual([true, true, true])
    expect([22, 100, 1000].map(wants)).toEqual([false, false, false])
    expect(new RateEvidence({ ...asked, rateRps: 5, fillWindowS: undefined }).needsFillWindow).toBe(
      false,
    )
  })

  test('is required once violations are too clustered for a proof', () => {
    const computeEvidence = new RateEvidence({ ...asked, rateRps: 100 })
    for (let i = 0; i < 16; i++)
      computeEvidence.add(window((request) => (i < 8 ? 40 + i + request / 250 : 5)))
    expect(computeEvidence).toMatchObject({
      isProven: false,
      needsFillWindow: true,
      decision: undefined,
    })
    const long: Load = {
      kind: 'open',
      rateRps: 100,
      durationS: 40,
      arrivals: { kind: 'poisson' },
      seed: 2,
    }
    computeEvidence.add(window(fast, { load: long }))
    expect(computeEvidence).toMatchObject({
      isProven: false,
      needsFillWindow: false,
      decision: 'met',
    })
  })
})

test('windows with too many failures, or cut ones, are violated at once', () => {
  expect(
    after([window((i) => (i % 10 === 5 ? Number.NaN : 5), { errorKinds: { reset: 25 } })]).decision,
  ).toBe('violated')
  expect(after([window(fast, { cutMs: 2000 })]).decision).toBe('violated')
})

test('the number of violations that cuts a window grows with time and rate, less those observed', () => {
  const p75: Slo = { percentile: 0.75, limitMs: 50, maxErrorRate: 0.01 }
  // One and a half times the quarter that may be over, and five.
  expect(new RateEvidence({ rateRps: 100, slo: p75, seconds: 10 }).maxFurtherViolations).toBe(380)
  expect(new RateEvidence({ rateRps: 200, slo: p75, seconds: 20 }).maxFurtherViolations).toBe(1505)
  // Twelve of these were.
  expect(after([window(slow, {}, p75)], p75).maxFurtherViolations).toBe(368)
  // Five more at least: fewer are chance.
  expect(after([window(slow), window(slow)]).maxFurtherViolations).toBe(5)
})

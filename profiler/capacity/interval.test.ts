import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { computeClosedLoopShare, describeClosedLoopShare } from './closed-loop-share.ts'
import {
  adjustPosterior,
  boundBelow,
  boundByBucket,
  boundByConfirmation,
  boundByFailures,
  boundByRefusals,
  boundByViolation,
  boundByWindows,
  boundPruned,
  raiseToSaturation,
  type SearchFacts,
  widenForInterpolation,
} from './interval.ts'
import type { CapacityPosterior } from './queue-model/posterior.ts'

const infinite = Number.POSITIVE_INFINITY
const posterior = (
  capacityRps: number,
  capacityCi90Rps: [number, number],
  more: Partial<CapacityPosterior> = {},
): CapacityPosterior => ({
  capacityRps,
  capacityCi90Rps,
  computeProbabilityBelow: () => 0.5,
  refusesWhenFull: false,
  hasOutages: false,
  saturationRps: 100,
  saturationError: 0.5,
  ...more,
})
const neutral: SearchFacts = {
  observedRps: Number.POSITIVE_INFINITY,
  fastestLoop: { rps: 100, requests: 100 },
  quotaWaitShare: 0,
  isMisfit: false,
}
const adjusted = (estimate: CapacityPosterior, facts: Partial<SearchFacts>) =>
  adjustPosterior([estimate], { ...neutral, ...facts })

describe('observed throughput', () => {
  test('an estimate near it stays as it is, and no rule is listed', () => {
    const found = adjusted(posterior(1000, [900, 1100]), { observedRps: 1050 })
    expect(found).toMatchObject({ capacityRps: 1000, capacityCi90Rps: [900, 1100] })
    expect(found.adjustments).toBeUndefined()
    expect(found.isCapped).toBeUndefined()
  })

  test('an estimate far beyond it is capped: the median near it, the interval around both', () => {
    const found = adjusted(posterior(6834, [1981, 14880]), { observedRps: 1772 })
    expect(found.capacityRps).toBeCloseTo(2037.8, 1)
    expect(found.capacityCi90Rps[0]).toBe(1772)
    expect(found.capacityCi90Rps[1]).toBeCloseTo(2658, 0)
    expect(found.isCapped).toBe(true)
  })

  test('it is the lower end of an interval that lies beyond it', () => {
    const found = adjusted(posterior(9000, [8000, 9900]), { observedRps: 1000 })
    expect(found.capacityRps).toBeCloseTo(1150, 6)
    expect(found.capacityCi90Rps[0]).toBe(1000)
    expect(found.capacityCi90Rps[1]).toBeCloseTo(1500, 6)
  })
})

describe('closed loops', () => {
  const slower = posterior(90, [80, 95])
  const loops = { rps: 125, requests: 100 }

  test('the lower end falls by the lost share, with a caveat', () => {
    expect(adjusted(slower, { fastestLoop: loops }).capacityCi90Rps).toEqual([64, 95])
    expect(describeClosedLoopShare(computeClosedLoopShare(slower, loops)!)).toContain(
      'reached 80 % of the throughput of closed loops',
    )
  })

  test('small, insignificant or refusing differences change nothing', () => {
    expect(adjusted(slower, { fastestLoop: { ...loops, rps: 110 } }).capacityCi90Rps).toEqual([
      80, 95,
    ])
    expect(computeClosedLoopShare({ ...slower, refusesWhenFull: true }, loops)).toBeUndefined()
    // 3.94 standard errors of 0.5 / √62 are a quarter.
    expect([
      computeClosedLoopShare(slower, { ...loops, requests: 61 }),
      computeClosedLoopShare(slower, { ...loops, requests: 63 }),
    ]).toEqual([undefined, 0.8])
  })
})

test('the interval covers the estimates for every possible system capacity', () => {
  const found = adjustPosterior(
    [posterior(90, [80, 95]), posterior(70, [60, 75]), posterior(99, [85, 110])],
    neutral,
  )
  expect(found).toMatchObject({ capacityRps: 90, capacityCi90Rps: [60, 110] })
  expect(found.adjustments?.map(({ rule }) => rule)).toEqual(['system capacity'])
})

test('a server that waits for CPU quota has a wider interval', () => {
  const found = adjusted(posterior(90, [80, 100]), { quotaWaitShare: 0.2 })
  expect(found.capacityCi90Rps).toEqual([80 * 0.95, 100 * 1.05])
})

test('a server that no discipline describes has a wider interval', () => {
  const widen = (saturationRps: number) =>
    adjusted(posterior(90, [80, 100], { saturationRps }), { isMisfit: true })
  const found = widen(200)
  expect(found.capacityRps).toBe(90)
  expect(found.capacityCi90Rps[0]).toBeCloseTo(72, 9)
  expect(found.capacityCi90Rps[1]).toBeCloseTo(110, 9)
  // At most as far as the saturation.
  expect(widen(105).capacityCi90Rps[1]).toBe(105)
  expect(widen(95).capacityCi90Rps[1]).toBe(100)
})

test('rules are listed in the order in which they were applied', () => {
  const found = adjustPosterior([posterior(90, [80, 95]), posterior(50, [30, 55])], {
    observedRps: 60,
    fastestLoop: { rps: 125, requests: 100 },
    quotaWaitShare: 0.1,
    isMisfit: true,
  })
  const reported = boundByWindows(found, { metRps: 10, ciMetRps: 0 })
  expect(reported.adjustments?.map(({ rule }) => rule)).toEqual([
    'observed throughput',
    'closed loops',
    'system capacity',
    'CPU quota',
    'model misfit',
    'windows',
  ])
  expect(reported.adjustments?.at(-1)).toEqual({
    rule: 'windows',
    capacityRps: reported.capacityRps,
    capacityCi90Rps: reported.capacityCi90Rps,
  })
})

describe('windows', () => {
  const met = { metRps: 40, ciMetRps: 0 }

  test('the lower end is a rate that met the SLO, the upper end no lower than one that surely did', () => {
    expect(boundByWindows(posterior(150, [140, 160]), met)).toMatchObject({
      capacityRps: 150,
      capacityCi90Rps: [40, 160],
    })
    expect(
      boundByWindows(posterior(150, [140, 160]), { metRps: 170, ciMetRps: 170 }),
    ).toMatchObject({ capacityRps: 150, capacityCi90Rps: [140, 170] })
  })

  test('a model above rates that all violated the SLO yields to the mean of met and violated', () => {
    const model = posterior(150, [140, 160])
    expect(boundByWindows(model, { ...met, ciViolatedRps: 141 }).capacityRps).toBe(150)
    expect(boundByWindows(model, { ...met, ciViolatedRps: 90 })).toMatchObject({
      capacityRps: 60,
      capacityCi90Rps: [40, 160],
    })
    expect(boundByWindows(model, { metRps: 0, ciMetRps: 0, ciViolatedRps: 90 })).toMatchObject({
      capacityRps: 0,
      bounds: 'upper',
    })
  })

  test('a model far below a met rate yields to the mean of both, few requests only at twice the rate', () => {
    const credible = { metRps: 165, ciMetRps: 0, longWindowMetRps: 165 }
    expect(boundByWindows(posterior(5.3, [4, 6]), credible)).toMatchObject({
      capacityRps: expect.closeTo(29.6, 1),
      capacityCi90Rps: [4, expect.closeTo(189.75, 6)],
    })
    const brief = { metRps: 47, ciMetRps: 0, shortWindowMetRps: 47 }
    expect(boundByWindows(posterior(9, [3, 23]), brief).capacityCi90Rps).toEqual([
      3,
      expect.closeTo(54.05, 6),
    ])
    expect(boundByWindows(posterior(9, [3, 24]), brief).capacityCi90Rps).toEqual([3, 24])
    expect(boundByWindows(posterior(140, [130, 132.1]), credible)).toMatchObject({
      capacityRps: 140,
      capacityCi90Rps: [130, 132.1],
    })
  })
})

describe('bounds of searches that end without a usable estimate', () => {
  const estimate = posterior(100, [90, 110])
  const rates = { metRps: 80, ciMetRps: 120 }

  test.each([
    ['failing rate', boundByFailures(estimate, 70, 105, rates), [70, 120]],
    ['token bucket', boundByBucket(estimate, { rateRps: 95, ci90Rps: [85, 99] }, rates), [80, 99]],
    ['refusals', boundByRefusals(estimate, 60, rates), [60, 110]],
    ['no window met', boundByViolation(estimate, 50), [0, 50]],
    ['pruned', boundPruned(estimate, 115, 50, 200), [0, 115]],
    ['lower bound only', boundBelow(estimate, 80), [80, Number.POSITIVE_INFINITY]],
  ] as const)('%s', (rule, found, interval) => {
    expect(found.capacityCi90Rps).toEqual(interval)
    expect(found.adjustments?.at(-1)?.rule).toBe(rule)
  })

  test('a pruned server with outages is bounded by what its windows violated, at most by the rate to beat', () => {
    const outages = { ...estimate, hasOutages: true }
    expect(boundPruned(outages, 115, 150, 200).capacityCi90Rps).toEqual([0, 150])
    expect(boundPruned(outages, 115, 300, 200).capacityCi90Rps).toEqual([0, 200])
  })

  test('nothing is known without a rate that met the SLO', () => {
    expect(boundBelow(undefined, 0)).toMatchObject({ bounds: 'none' })
  })
})

test('whatever the facts, the interval contains the capacity, and rules never narrow it above a met rate', () => {
  const rates = fc.double({ min: 1, max: 1000, noNaN: true })
  const facts = fc.record({
    capacity: rates,
    low: fc.double({ min: 0.1, max: 1, noNaN: true }),
    high: fc.double({ min: 1, max: 3, noNaN: true }),
    observedRps: rates,
    loopRps: rates,
    quotaWaitShare: fc.double({ min: 0, max: 0.9, noNaN: true }),
    metRps: rates,
  })
  fc.assert(
    fc.property(facts, ({ capacity, low, high, loopRps, metRps, ...more }) => {
      const found = boundByWindows(
        adjusted(posterior(capacity, [low * capacity, high * capacity]), {
          ...more,
          fastestLoop: { rps: loopRps, requests: 100 },
        }),
        { metRps, ciMetRps: metRps },
      )
      const [lowRps, highRps] = found.capacityCi90Rps
      expect(lowRps).toBeLessThanOrEqual(found.capacityRps)
      expect(highRps).toBeGreaterThanOrEqual(found.capacityRps)
      expect(lowRps).toBeLessThanOrEqual(metRps)
      expect(highRps).toBeGreaterThanOrEqual(metRps)
    }),
  )
})

describe('bounds of confirmations', () => {
  test('a proven rate is the lower end, up to the lowest violated rate', () => {
    const proven = boundByConfirmation(100, 120, true)
    expect(proven.capacityCi90Rps).toEqual([100, 120])
    expect(proven.adjustments).toBeUndefined()
  })

  test('without a proof, the lower end is 5 % lower', () => {
    const unproven = boundByConfirmation(100, infinite, false)
    expect(unproven.capacityCi90Rps).toEqual([95, infinite])
    expect(unproven.adjustments?.map(({ rule }) => rule)).toEqual(['unproven'])
  })

  test('without a met rate, only the lowest violated rate is known', () => {
    expect(boundByConfirmation(0, 90, false)).toMatchObject({
      capacityRps: 0,
      capacityCi90Rps: [0, 90],
    })
  })
})

describe('intervals read off a load curve', () => {
  const searched = { capacityRps: 100, capacityCi90Rps: [80, 110] } as const

  test('are those of the search, 1.25 times as wide in ln rate, where the curve is narrower', () => {
    const [low, high] = widenForInterpolation(50, [45, 52], searched).capacityCi90Rps
    expect(low).toBeCloseTo(50 * 0.8 ** 1.25, 9)
    expect(high).toBeCloseTo(50 * 1.1 ** 1.25, 9)
  })

  test('are those of the curve, equally widened, where it is wider', () => {
    const widened = widenForInterpolation(50, [20, 90], searched)
    const [low, high] = widened.capacityCi90Rps
    expect(low).toBeCloseTo(50 * 0.4 ** 1.25, 9)
    expect(high).toBeCloseTo(50 * 1.8 ** 1.25, 9)
    expect(widened.adjustments?.map(({ rule }) => rule)).toEqual(['interpolation'])
  })

  test('reach the saturation at the end of the curve', () => {
    const raised = raiseToSaturation(widenForInterpolation(50, [45, 52], searched), 200)
    expect(raised.capacityCi90Rps[1]).toBe(200)
    expect(raised.adjustments?.map(({ rule }) => rule)).toEqual([
      'interpolation',
      'end of the load curve',
    ])
  })
})

test('no other module of this folder builds or edits the interval of a capacity', () => {
  const folder = fileURLToPath(new URL('.', import.meta.url))
  const modules = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !file.endsWith('.test.ts'),
  )
  const editing = modules.filter((file) =>
    /bounded(Between|Above)\(|capacityCi90Rps: \[(?!low, high\])/.test(
      readFileSync(join(folder, file), 'utf8'),
    ),
  )
  expect(editing.sort()).toEqual([
    // Builds intervals without bounds.
    'capacity-bounds.ts',
    'interval.ts',
    // Estimates the interval in the first place.
    'queue-model/posterior.ts',
    // Views a measurement whose capacity is unknown.
    'rederive/stream-points.ts',
  ])
})

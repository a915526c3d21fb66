import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  computeCapacityToBeatRps,
  computeCost,
  computeGainRatio,
  computeLogCost,
  computeMetricScale,
  computeModelledRate,
  computeRelativeExcess,
  countReplicas,
  createObjective,
  formatCost,
  formatVerdict,
  getDemand,
  getMetric,
  getModelledQuantity,
  getObjectiveUnit,
  getObjectiveWords,
  getPriceBound,
  getRequiredInput,
  isAbovePriceBound,
  isOrderUncertain,
  listKindsRequiring,
  modelsCapacityOrLatency,
  type Objective,
  type ObjectiveKind,
  objectiveKinds,
  toDisplayedCost,
} from './objective.ts'

const given = { demandRps: 500, headroom: 0.2, maxPricePerHour: 100, metric: 'depth' }
const positive = fc.double({ min: 0.01, max: 90, noNaN: true })
const rate = fc.double({ min: 1, max: 5000, noNaN: true })
/** One watt: energy is the capacity's inverse. */
const usage = { gpuWatts: 1 }
const usual = objectiveKinds.filter((kind) => getRequiredInput(kind) !== 'metric')
const writing = {
  money: (v: number) => `$${v}`,
  rate: (v: number) => `${v} req/s`,
  latency: (v: number) => `${v} ms`,
  energy: (v: number) => `${v} J`,
  plain: (v: number) => `${v}`,
}

describe.each(usual)('%s', (kind) => {
  const objective = createObjective(kind, given)

  test("the search's cost is the displayed cost", () => {
    fc.assert(
      fc.property(positive, rate, positive, (pricePerHour, capacityRps, unloadedMs) => {
        const costs = computeCost(objective, { pricePerHour, capacityRps, unloadedMs, usage })
        const shown = toDisplayedCost(objective, costs)
        expect(
          Math.abs(
            computeLogCost(
              objective,
              { pricePerHour },
              Math.log(capacityRps),
              Math.log(unloadedMs),
            ),
          ),
        ).toBeCloseTo(Math.abs(Math.log(shown)), 6)
        expect(
          Math.sign(
            computeLogCost(objective, { pricePerHour }, 3, 3) -
              computeLogCost(objective, { pricePerHour }, 3.1, 2.9),
          ),
        ).toBeGreaterThanOrEqual(0)
      }),
    )
  })

  test('the capacity to beat wins, and less does not', () => {
    fc.assert(
      fc.property(positive, rate, positive, (pricePerHour, capacityRps, other) => {
        const bestCost = computeCost(objective, {
          pricePerHour: other,
          capacityRps,
          unloadedMs: 5,
          usage,
        })
        const toBeat = computeCapacityToBeatRps(objective, { pricePerHour }, bestCost)
        if (toBeat === undefined) return
        const at = (rps: number) =>
          computeCost(objective, { pricePerHour, capacityRps: rps, unloadedMs: 5, usage })
        expect(at(toBeat * 1.001)).toBeLessThanOrEqual(
          bestCost * (bestCost > 0 ? 1 + 1e-9 : 1 - 1e-9),
        )
        expect(at(toBeat * 0.999)).toBeGreaterThan(bestCost)
      }),
    )
    expect(computeCapacityToBeatRps(objective, { pricePerHour: 1 }, undefined)).toBeUndefined()
    expect(
      computeCapacityToBeatRps(objective, { pricePerHour: 1 }, Number.POSITIVE_INFINITY),
    ).toBeUndefined()
  })

  test('the better of two is a gain, whichever way the objective points', () => {
    const [good, bad] = [
      { pricePerHour: 1, capacityRps: 900, unloadedMs: 5, usage },
      { pricePerHour: 2, capacityRps: 300, unloadedMs: 9, usage },
    ].map((figures) => computeCost(objective, figures))
    expect(good).toBeLessThan(bad!)
    expect(computeGainRatio(objective, good!, bad!)).toBeGreaterThan(1)
  })

  test('intervals leave the order uncertain only where capacities decide it', () => {
    const at = (capacityRps: number, spread: number) =>
      ({
        pricePerHour: 1,
        capacityRps,
        unloadedMs: 5,
        usage,
        capacityCi90Rps: [capacityRps - spread, capacityRps + spread],
      }) as const
    expect(isOrderUncertain(objective, at(500, 300), at(600, 300))).toBe(
      getModelledQuantity(objective) === 'rate',
    )
    expect(isOrderUncertain(objective, at(50, 1), at(6000, 1))).toBe(false)
  })

  test('has words', () => {
    const figures = { pricePerHour: 1, capacityRps: 900, unloadedMs: 5, usage }
    const costed = { ...figures, cost: computeCost(objective, figures) }
    for (const text of [
      formatCost(objective, costed, writing),
      formatVerdict(objective, costed, writing),
      ...Object.values(getObjectiveWords(kind)),
    ])
      expect(text).toMatch(/^(?!.*(NaN|undefined|Infinity)).+$/)
    expect(Object.keys(getObjectiveWords(kind)).sort()).toEqual([
      'adjective',
      'choice',
      'comparative',
      'figure',
      'gainAs',
      'superlative',
      'unit',
      'worse',
    ])
  })
})

describe('a metric of the server', () => {
  const [least, most] = (['min-metric', 'max-metric'] as const).map((kind) =>
    createObjective(kind, given),
  ) as [Objective, Objective]
  const at = (value: number | undefined, capacityRps = 100) => ({
    pricePerHour: 2,
    capacityRps,
    ...(value !== undefined && { metrics: { depth: value, other: 7 } }),
  })
  const any = fc.double({ min: -1e9, max: 1e9, noNaN: true })

  test('ranks any sign; unmeasured, or without a served rate, it is worse than any', () => {
    expect([3, 0, -3].map((value) => computeCost(least, at(value)))).toEqual([3, 0, -3])
    expect([3, 0, -3].map((value) => toDisplayedCost(most, computeCost(most, at(value))))).toEqual([
      3, 0, -3,
    ])
    for (const objective of [least, most])
      for (const figures of [
        at(undefined),
        at(Number.NaN),
        at(-5, 0),
        { ...at(1), metrics: { other: 7 } },
      ])
        expect(computeCost(objective, figures)).toBe(Number.POSITIVE_INFINITY)
    expect(
      computeCost(createObjective('min-metric', { ...given, metric: 'toString' }), at(3)),
    ).toBe(Number.POSITIVE_INFINITY)
  })

  test('the search models it without a logarithm: the order is that of the costs, for any sign and scale', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(least, most),
        any,
        any,
        fc.double({ min: 1e-6, max: 1e6, noNaN: true }),
        (objective, a, b, scale) => {
          const [costA, costB] = [a, b].map((value) => computeCost(objective, at(value)))
          const [badA, badB] = [a, b].map((value) =>
            computeLogCost(
              objective,
              { pricePerHour: 2 },
              Math.log(computeModelledRate(objective, at(value), scale)),
              Number.NaN,
            ),
          )
          expect(Number.isFinite(badA)).toBe(true)
          if (costA! < costB!) expect(badA!).toBeLessThanOrEqual(badB! + 1e-12)
        },
      ),
    )
    expect([
      computeModelledRate(least, at(0)),
      computeModelledRate(least, at(5, 0)),
      computeModelledRate(least, at(undefined)),
    ]).toEqual([1, 0, Number.NaN])
  })

  test('a tenth less is about a tenth better, far from zero, in whatever unit', () => {
    for (const unit of [1e-6, 1, 1e6]) {
      const scale = computeMetricScale(least, [at(0), at(2 * unit), at(50 * unit)])
      const [before, after] = [2, 1.8].map((value) =>
        Math.log(computeModelledRate(least, at(value * unit), scale)),
      )
      expect(after! - before!).toBeCloseTo(-Math.log(0.9), 2)
    }
  })

  test('its scale is that of the first value other than zero, and stays; zero has the same goodness at any scale', () => {
    expect(computeMetricScale(most, [])).toBe(1)
    expect(
      computeMetricScale(most, [
        at(0),
        at(Number.POSITIVE_INFINITY),
        at(undefined),
        at(-4),
        at(900),
      ]),
    ).toBeCloseTo(0.4, 12)
    expect(computeMetricScale(createObjective('max-rate', given), [at(4)])).toBe(1)
    expect(computeModelledRate(most, at(0), 0.4)).toBe(computeModelledRate(most, at(0), 7))
  })

  test('gain ratio and relative excess are undefined where they have no meaning', () => {
    expect([computeGainRatio(least, 2, 6), computeGainRatio(most, -6, -2)]).toEqual([3, 3])
    expect([
      computeGainRatio(least, 0, 6),
      computeGainRatio(least, -2, 6),
      computeGainRatio(most, 1, 2),
    ]).toEqual([undefined, undefined, undefined])
    expect([computeRelativeExcess(least, 3, 2), computeRelativeExcess(most, -2, -2)]).toEqual([
      undefined,
      0,
    ])
    expect(computeRelativeExcess(createObjective('price', given), 3, 2)).toBeCloseTo(0.5, 12)
    expect(computeRelativeExcess(createObjective('max-rate', given), -100, -200)).toBeCloseTo(
      0.5,
      12,
    )
  })

  test('texts have its name and value, and no money but the price', () => {
    const texts = (objective: Objective, value: number) => {
      const costed = { ...at(value), cost: computeCost(objective, at(value)) }
      return [
        formatCost(objective, costed, writing),
        formatVerdict(objective, costed, writing),
        getObjectiveUnit(objective),
      ]
    }
    expect(texts(least, -3)).toEqual(['depth -3', 'depth -3, $2 per hour', 'depth'])
    expect(texts(most, 0.5)).toEqual(['depth 0.5', 'depth 0.5, $2 per hour', 'depth'])
    for (const objective of [least, most])
      for (const text of Object.values(getObjectiveWords(objective.kind)))
        expect(text).not.toMatch(/\$|cheap|dear/)
  })

  test('no capacity decides, no interval leaves it open, and no device model predicts it', () => {
    expect(computeCapacityToBeatRps(least, { pricePerHour: 1 }, 5)).toBeUndefined()
    expect(
      isOrderUncertain(
        least,
        { ...at(3), capacityCi90Rps: [1, 1000] },
        { ...at(3), capacityCi90Rps: [1, 1000] },
      ),
    ).toBe(false)
    expect([
      modelsCapacityOrLatency(most),
      getMetric(most),
      getMetric(createObjective('price', given)),
    ]).toEqual([false, 'depth', undefined])
  })
})

test('a price above the bound costs infinitely much', () => {
  const bounded = createObjective('max-rate', { ...given, maxPricePerHour: 2 })
  expect([
    isAbovePriceBound(bounded, 2),
    isAbovePriceBound(bounded, 2.01),
    isAbovePriceBound(createObjective('price', given), 1e9),
  ]).toEqual([false, true, false])
  expect(computeLogCost(bounded, { pricePerHour: 2.01 }, 5, 2)).toBe(Number.POSITIVE_INFINITY)
})

test('an objective has the settings it requires, and no others', () => {
  expect(createObjective('price-for-demand', given)).toEqual({
    kind: 'price-for-demand',
    demandRps: 500,
    headroom: 0.2,
  })
  expect(createObjective('price', given)).toEqual({ kind: 'price' })
})

test('an unmeasured figure costs infinitely much', () => {
  expect(
    computeCost(createObjective('min-latency', given), { pricePerHour: 1, capacityRps: 5 }),
  ).toBe(Number.POSITIVE_INFINITY)
  expect(
    computeCost(createObjective('price-per-request', given), { pricePerHour: 1, capacityRps: 0 }),
  ).toBe(Number.POSITIVE_INFINITY)
})

test('energy sums the components that report power; undefined without any, infinite without a served rate', () => {
  const energy = createObjective('min-energy', given)
  const costs = (usage: object | undefined, capacityRps = 100) =>
    computeCost(energy, { pricePerHour: 1, capacityRps, usage })
  expect([costs({ cpuWatts: 50 }), costs({ gpuWatts: 50, cpuWatts: 50 })]).toEqual([0.5, 1])
  expect([costs(undefined), costs({ cpuCores: 2 }), costs({ gpuWatts: 50 }, 0)]).toEqual(
    Array(3).fill(Number.POSITIVE_INFINITY),
  )
  expect([
    computeModelledRate(energy, { capacityRps: 100 }),
    computeModelledRate(energy, { capacityRps: 0 }),
  ]).toEqual([Number.NaN, 0])
})

test('replicas are whole, enough, and not one too many by rounding', () => {
  const replicas = (demandRps: number, capacityRps: number, headroom = 0) =>
    countReplicas({ demandRps, headroom }, capacityRps)
  expect([
    replicas(300, 100),
    replicas(0.3, 0.1),
    replicas(301, 100),
    replicas(1, 100),
    replicas(80, 100, 0.2),
    replicas(81, 100, 0.2),
  ]).toEqual([3, 3, 4, 1, 1, 2])
  expect(replicas(100, 0)).toBe(Number.POSITIVE_INFINITY)
})

describe('in figures', () => {
  const of = (kind: ObjectiveKind) =>
    createObjective(kind, { demandRps: 500, headroom: 0.2, maxPricePerHour: 4 })
  const figures = {
    pricePerHour: 3.6,
    capacityRps: 200,
    unloadedMs: 12,
    usage: { gpuWatts: 60, cpuWatts: 40 },
  }
  const texts = (kind: ObjectiveKind, more: object = {}) => {
    const costed = { ...figures, ...more, cost: computeCost(of(kind), { ...figures, ...more }) }
    return [formatCost(of(kind), costed, writing), formatVerdict(of(kind), costed, writing)]
  }

  test.each([
    ['price', 3.6, ['$3.6/h', '$3.6 per hour']],
    ['price-per-request', 5, ['$5 per million requests', '$5 per million requests']],
    // 500 / (200 × 0.8) = 3.1.
    [
      'price-for-demand',
      14.4,
      ['$14.4/h for 4 replicas', '4 replicas for 500 req/s at $14.4 per hour'],
    ],
    ['max-rate', -200, ['200 req/s', '$3.6 per hour']],
    ['min-latency', 12, ['12 ms unloaded', '12 ms unloaded, $3.6 per hour']],
    ['min-energy', 0.5, ['0.5 J per request', '0.5 J per request, $3.6 per hour']],
  ] as const)('%s costs %d', (kind, costs, words) => {
    expect(computeCost(of(kind), figures)).toBeCloseTo(costs, 9)
    expect(texts(kind)).toEqual(words)
    const { learned } = { learned: kind === 'max-rate' ? -Math.log(200) : Math.log(costs) }
    const rate = computeModelledRate(of(kind), figures)
    expect(
      computeLogCost(of(kind), { pricePerHour: 3.6 }, Math.log(rate), Math.log(12)),
    ).toBeCloseTo(learned, 9)
    expect([
      toDisplayedCost(of(kind), costs),
      computeGainRatio(of(kind), costs, 2 * costs),
    ]).toEqual([Math.abs(costs), kind === 'max-rate' ? 0.5 : 2])
    expect([modelsCapacityOrLatency(of(kind)), rate]).toEqual(
      kind === 'min-energy' ? [false, 2] : [true, 200],
    )
  })

  test('one replica is one', () =>
    expect(texts('price-for-demand', { capacityRps: 625 })[0]).toBe('$3.6/h for 1 replica'))

  test('the capacity to beat', () => {
    const toBeat = (kind: ObjectiveKind, pricePerHour: number, best: number) =>
      computeCapacityToBeatRps(of(kind), { pricePerHour }, best)
    expect(toBeat('price', 1, 9)).toBeUndefined()
    expect(toBeat('min-latency', 1, 9)).toBeUndefined()
    expect(toBeat('price-per-request', 3.6, 10)).toBeCloseTo(100, 9)
    expect(toBeat('max-rate', 1, -150)).toBe(150)
    // Three replicas for 10, one for as much as it costs, none for more.
    expect(toBeat('price-for-demand', 3, 10)).toBeCloseTo(500 / (3 * 0.8), 9)
    expect(toBeat('price-for-demand', 10, 10)).toBeCloseTo(625, 9)
    expect(toBeat('price-for-demand', 10.01, 10)).toBeUndefined()
    expect(toBeat('price-for-demand', 0.1, 0.3)).toBeCloseTo(500 / (3 * 0.8), 9)
  })

  test('required settings, and the objectives that require them', () => {
    expect([listKindsRequiring('demand'), listKindsRequiring('price bound')]).toEqual([
      ['price-for-demand'],
      ['max-rate', 'min-latency'],
    ])
    expect(listKindsRequiring('metric')).toEqual(['min-metric', 'max-metric'])
    expect(listKindsRequiring('nothing').map(getRequiredInput)).toEqual([
      'nothing',
      'nothing',
      'nothing',
    ])
    expect(usual.map((kind) => getDemand(of(kind))?.demandRps)).toEqual([
      undefined,
      undefined,
      500,
      undefined,
      undefined,
      undefined,
    ])
    expect(usual.map((kind) => getPriceBound(of(kind)))).toEqual([
      undefined,
      undefined,
      undefined,
      4,
      4,
      undefined,
    ])
    expect(usual.map((kind) => isAbovePriceBound(of(kind), 4.01))).toEqual([
      false,
      false,
      false,
      true,
      true,
      false,
    ])
  })

  test('an order is uncertain while the better end of one interval touches the worse end of the other', () => {
    const at = (low: number, high: number) => ({
      ...figures,
      capacityCi90Rps: [low, high] as const,
    })
    const open = (a: readonly [number, number], b: readonly [number, number]) =>
      isOrderUncertain(of('price-per-request'), at(...a), at(...b))
    expect([
      open([80, 100], [100, 130]),
      open([80, 99], [100, 130]),
      open([100, 130], [80, 99]),
    ]).toEqual([true, false, true])
  })

  test('replica counts ignore rounding below a billionth, and are at least one', () => {
    const replicas = (demandRps: number, capacityRps: number) =>
      countReplicas({ demandRps, headroom: 0 }, capacityRps)
    expect([
      replicas(300 * (1 + 1e-12), 100),
      replicas(300 * (1 + 1e-8), 100),
      replicas(0, 100),
      replicas(5, -1),
    ]).toEqual([3, 4, 1, Infinity])
  })
})

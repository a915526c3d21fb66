import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  capacityToBeatRps,
  cost,
  costText,
  gainOver,
  isTooDear,
  learnsOf,
  logCost,
  objectiveKinds,
  objectiveOf,
  orderIsOpen,
  replicasFor,
  shownCost,
  verdictText,
  wordsOf,
} from './objective.ts'

const given = { demandRps: 500, headroom: 0.2, maxPricePerHour: 100 }
const positive = fc.double({ min: 0.01, max: 90, noNaN: true })
const rate = fc.double({ min: 1, max: 5000, noNaN: true })
const writing = { money: (v: number) => `$${v}`, rate: (v: number) => `${v} req/s`, latency: (v: number) => `${v} ms` }

describe.each(objectiveKinds)('%s', (kind) => {
  const objective = objectiveOf(kind, given)

  test('costs the search what it costs the reader', () => {
    fc.assert(
      fc.property(positive, rate, positive, (pricePerHour, capacityRps, idleMs) => {
        const costs = cost(objective, { pricePerHour, capacityRps, idleMs })
        const shown = shownCost(objective, costs)
        expect(Math.abs(logCost(objective, pricePerHour, Math.log(capacityRps), Math.log(idleMs)))).toBeCloseTo(
          Math.abs(Math.log(shown)),
          6,
        )
        expect(Math.sign(logCost(objective, pricePerHour, 3, 3) - logCost(objective, pricePerHour, 3.1, 2.9))).toBeGreaterThanOrEqual(0)
      }),
    )
  })

  test('what must be measured to win is what wins, and less does not', () => {
    fc.assert(
      fc.property(positive, rate, positive, (pricePerHour, capacityRps, other) => {
        const bestCost = cost(objective, { pricePerHour: other, capacityRps, idleMs: 5 })
        const toBeat = capacityToBeatRps(objective, pricePerHour, bestCost)
        if (toBeat === undefined) return
        const at = (rps: number) => cost(objective, { pricePerHour, capacityRps: rps, idleMs: 5 })
        expect(at(toBeat * 1.001)).toBeLessThanOrEqual(bestCost * (bestCost > 0 ? 1 + 1e-9 : 1 - 1e-9))
        expect(at(toBeat * 0.999)).toBeGreaterThan(bestCost)
      }),
    )
    expect(capacityToBeatRps(objective, 1, undefined)).toBeUndefined()
    expect(capacityToBeatRps(objective, 1, Number.POSITIVE_INFINITY)).toBeUndefined()
  })

  test('the better of two is a gain, whichever way the objective points', () => {
    const [good, bad] = [
      { pricePerHour: 1, capacityRps: 900, idleMs: 5 },
      { pricePerHour: 2, capacityRps: 300, idleMs: 9 },
    ].map((figures) => cost(objective, figures))
    expect(good).toBeLessThan(bad!)
    expect(gainOver(objective, good!, bad!)).toBeGreaterThan(1)
  })

  test('intervals leave the order open only where capacities decide it', () => {
    const at = (capacityRps: number, spread: number) =>
      ({ pricePerHour: 1, capacityRps, idleMs: 5, capacityCi90Rps: [capacityRps - spread, capacityRps + spread] }) as const
    expect(orderIsOpen(objective, at(500, 300), at(600, 300))).toBe(learnsOf(objective) === 'rate')
    expect(orderIsOpen(objective, at(50, 1), at(6000, 1))).toBe(false)
  })

  test('has words', () => {
    const figures = { pricePerHour: 1, capacityRps: 900, idleMs: 5 }
    const costed = { ...figures, cost: cost(objective, figures) }
    for (const text of [costText(objective, costed, writing), verdictText(objective, costed, writing), ...Object.values(wordsOf(kind))])
      expect(text).toMatch(/^(?!.*(NaN|undefined|Infinity)).+$/)
  })
})

test('a price over the bound costs more than anything', () => {
  const bounded = objectiveOf('max-rate', { ...given, maxPricePerHour: 2 })
  expect([isTooDear(bounded, 2), isTooDear(bounded, 2.01), isTooDear(objectiveOf('price', given), 1e9)]).toEqual([false, true, false])
  expect(logCost(bounded, 2.01, 5, 2)).toBe(Number.POSITIVE_INFINITY)
})

test('an objective keeps what it asks for, and nothing else', () => {
  expect(objectiveOf('price-for-demand', given)).toEqual({ kind: 'price-for-demand', demandRps: 500, headroom: 0.2 })
  expect(objectiveOf('price', given)).toEqual({ kind: 'price' })
})

test('what was not measured costs infinitely much', () => {
  expect(cost(objectiveOf('min-latency', given), { pricePerHour: 1, capacityRps: 5 })).toBe(Number.POSITIVE_INFINITY)
  expect(cost(objectiveOf('price-per-request', given), { pricePerHour: 1, capacityRps: 0 })).toBe(Number.POSITIVE_INFINITY)
})

test('replicas are whole, enough, and not one too many for a rounding error', () => {
  const replicas = (demandRps: number, capacityRps: number, headroom = 0) => replicasFor({ demandRps, headroom }, capacityRps)
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

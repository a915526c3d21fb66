import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { computeLogAcquisition } from './acquisition/expected-improvement.ts'
import { computeCapacityToBeatRps, computeCost, formatCost } from './objective.ts'
import {
  computeFleetPricePerHour,
  countAffordableReplicas,
  type ReplicaPrice,
} from './replica-price.ts'
import { createRng } from './rng.ts'

const bundle = fc.record({
  name: fc.constant('box'),
  replicas: fc.integer({ min: 1, max: 8 }),
  perHour: fc.double({ min: 0.1, max: 9, noNaN: true }),
})
const price = fc.oneof(
  fc
    .double({ min: 0.1, max: 9, noNaN: true })
    .map((pricePerHour): ReplicaPrice => ({ pricePerHour })),
  fc.array(bundle, { minLength: 1, maxLength: 4 }).map(
    (bundles): ReplicaPrice => ({
      pricePerHour: Math.min(...bundles.map(({ perHour, replicas }) => perHour / replicas)),
      bundles,
    }),
  ),
)

describe('replicas that are sold together', () => {
  test('cost the whole instances that hold them; the price buys as many again', () => {
    fc.assert(
      fc.property(price, fc.integer({ min: 1, max: 40 }), (of, n) => {
        const fleet = computeFleetPricePerHour(of, n)
        const each = of.bundles ?? [{ replicas: 1, perHour: of.pricePerHour }]
        expect(fleet).toBeCloseTo(
          Math.min(...each.map(({ replicas, perHour }) => Math.ceil(n / replicas) * perHour)),
          9,
        )
        const most = countAffordableReplicas(of, fleet)
        expect(most).toBeGreaterThanOrEqual(n)
        expect(computeFleetPricePerHour(of, most)).toBeLessThanOrEqual(fleet * (1 + 1e-9))
        expect(computeFleetPricePerHour(of, most + 1)).toBeGreaterThan(fleet)
      }),
    )
  })

  test('the capacity to beat for a demand wins, and less does not', () => {
    fc.assert(
      fc.property(price, price, fc.double({ min: 1, max: 500, noNaN: true }), (of, rival, rps) => {
        const objective = { kind: 'price-for-demand', demandRps: 500, headroom: 0.2 } as const
        const best = computeCost(objective, { ...rival, capacityRps: rps })
        const toBeat = computeCapacityToBeatRps(objective, of, best)
        const at = (capacityRps: number) => computeCost(objective, { ...of, capacityRps })
        if (toBeat === undefined) {
          expect(at(1e9)).toBeGreaterThan(best * (1 - 1e-8))
          return
        }
        expect(at(toBeat * 1.0001)).toBeLessThanOrEqual(best * (1 + 1e-9))
        expect(at(toBeat * 0.9999)).toBeGreaterThan(best * (1 - 1e-9))
      }),
    )
  })

  test('five replicas, four per instance, are two instances in the text', () => {
    const box = { pricePerHour: 0.25, bundles: [{ name: 'g4dn.xlarge', replicas: 4, perHour: 1 }] }
    const objective = { kind: 'price-for-demand', demandRps: 500, headroom: 0 } as const
    const figures = { ...box, capacityRps: 100 }
    expect(computeCost(objective, figures)).toBe(2)
    const plain = (v: number) => `${v}`
    const write = {
      money: (v: number) => `$${v}`,
      rate: plain,
      latency: plain,
      energy: plain,
      plain,
    }
    expect(formatCost(objective, { ...figures, cost: 2 }, write)).toBe(
      '$2/h for 5 replicas on 2 g4dn.xlarge',
    )
  })

  test('the expected improvement counts whole instances', () => {
    const objective = { kind: 'price-for-demand', demandRps: 1000, headroom: 0 } as const
    const problem = { space: { parameters: [], constraints: [] }, objective, pricePerHour: () => 1 }
    const box = { pricePerHour: 0.25, bundles: [{ name: 'box', replicas: 4, perHour: 1 }] }
    const [mean, sd, best] = [Math.log(100), 0.3, Math.log(3.5)]
    const beliefs = {
      rate: { mean: Float64Array.of(mean), variance: Float64Array.of(sd ** 2) },
      logServes: Float64Array.of(0),
    }
    const rng = createRng(3)
    const draws = 200_000
    let sum = 0
    for (let i = 0; i < draws; i++) {
      const rate = Math.exp(mean + sd * rng.normal())
      sum += Math.max(0, best - Math.log(Math.ceil(Math.ceil(1000 / rate) / 4)))
    }
    expect(Math.exp(computeLogAcquisition(problem, [box], beliefs, best)[0]!)).toBeCloseTo(
      sum / draws,
      2,
    )
    // Parts of instances would promise more.
    expect(
      Math.exp(computeLogAcquisition(problem, [{ pricePerHour: 0.25 }], beliefs, best)[0]!),
    ).toBeGreaterThan((1.1 * sum) / draws)
  })
})

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { interpolateLatency } from '../../profiler/capacity/rederive/load-curve.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { complete, measured, sampleInput } from '../samples.contract.ts'
import { computeParetoFront, computeQualityFronts } from './pareto-front.ts'
import type { RankingCriteria } from './ranked-candidate.ts'
import { rankCandidates } from './ranking.ts'
import type { Candidate } from './types.ts'

/** One core, batch `batchSize`, p99 of a queue; `dollars` an hour. */
const tried = (
  number: number,
  saturationRps: number,
  unloadedMs: number,
  dollars: number,
): FinishedTrial =>
  complete(number, { batchSize: number, dollars }, measured(saturationRps, unloadedMs))
const view: RankingCriteria = { ...sampleInput, pricePerHour: ({ dollars }) => Number(dollars) }
const frontOf = (trials: readonly FinishedTrial[], change: Partial<RankingCriteria> = {}) =>
  computeParetoFront(rankCandidates(trials, { ...view, ...change }), { ...view, ...change })

/** Quick and dear, slow and cheap: each wins under its limits. */
const quick = tried(1, 100, 2, 1)
const cheap = tried(2, 300, 20, 1)

describe('the front', () => {
  test('quick and dear under tight limits, slow and cheap under loose ones', () => {
    const front = frontOf([quick, cheap])
    const winners = front.map(({ trial }) => trial)
    expect(winners[0]).toBe(1)
    expect(winners.at(-1)).toBe(2)
    // Once the slow one wins it wins on.
    expect(winners.slice(winners.indexOf(2)).every((trial) => trial === 2)).toBe(true)
    // Where it does: 100 (1 - 2 / L) = 300 (1 - 20 / L) at L = 29 ms, or 93 req/s.
    const lastQuick = front.findLast(({ trial }) => trial === 1)!
    const firstCheap = front.find(({ trial }) => trial === 2)!
    expect(lastQuick.estimateRps).toBeLessThan(94)
    expect(firstCheap.estimateRps).toBeGreaterThan(92)
    expect(lastQuick.sloMsAtCapacity).toBeLessThan(firstCheap.sloMsAtCapacity)
  })

  test('its points are read off the load curve, its end is the candidate at the SLO itself', () => {
    const front = frontOf([quick, cheap])
    const last = rankCandidates([quick, cheap], view)[0]!.candidate
    expect(front.at(-1)).toEqual(last)
    for (const point of front.slice(0, -1))
      expect(point).toMatchObject({
        status: 'measured',
        sloMsFrom: 'model',
        feasible: true,
        derived: true,
      })
    // p99 of a queue: idle / (1 - rate / saturation).
    const [first] = front
    expect(first!.capacityRps).toBeCloseTo(100 * (1 - 2 / first!.sloMsAtCapacity), -1)
    expect(first!.cost).toBeCloseTo(1e6 / 3600 / first!.capacityRps, 9)
  })

  test('24 limits, evenly apart in ln from the least unloaded latency to the SLO, reached at the estimates', () => {
    const front = frontOf([quick])
    const [{ curve } = {}] = rankCandidates([quick], view)
    expect(front).toHaveLength(24)
    const step = Math.log(50 / 2) / 24
    for (const [i, { estimateRps, capacityRps, sloMsAtCapacity }] of front.slice(0, -1).entries()) {
      expect(Math.log(interpolateLatency(curve!, estimateRps!) / 2)).toBeCloseTo((i + 1) * step, 6)
      expect(interpolateLatency(curve!, capacityRps)).toBe(sloMsAtCapacity)
    }
  })

  test('what cannot serve is not on it, and nothing is where nothing can', () => {
    expect(frontOf([tried(3, 900, 60, 0.1), quick]).map(({ trial }) => trial)).not.toContain(3)
    expect(frontOf([tried(3, 900, 60, 0.1)])).toEqual([])
    expect(frontOf([])).toEqual([])
  })

  test('what was cut short is not known below its bound', () => {
    const cut = complete(
      3,
      { batchSize: 3, dollars: 0.01 },
      measured(300, 2, { outcome: 'pruned', capacityCi90Rps: [0, 300], bounds: 'upper' }),
    )
    expect(frontOf([quick, cut]).map(({ trial }) => trial)).not.toContain(3)
  })

  test('without a load curve below the SLO it is the best alone', () => {
    const imported = complete(
      3,
      { batchSize: 3, dollars: 1 },
      measured(300, 2, {
        points: [],
        unloaded: { requests: 0, meanMs: 0, p50Ms: 0, p90Ms: 0, p95Ms: 0, p99Ms: 0, maxMs: 0 },
      }),
    )
    expect(frontOf([imported]).map(({ trial }) => trial)).toEqual([3])
  })

  test('a configuration that is worse everywhere is nowhere on it', () => {
    expect(frontOf([quick, tried(3, 90, 2.5, 1)]).every(({ trial }) => trial === 1)).toBe(true)
  })

  test('equal ones: the first in rank', () => {
    expect(
      frontOf([tried(4, 100, 2, 1), tried(3, 100, 2, 1)]).every(({ trial }) => trial === 3),
    ).toBe(true)
  })

  test('law: both latency and throughput per dollar rise, and nothing at the SLO is beyond the last', () => {
    const trial = fc.tuple(
      fc.double({ min: 10, max: 900, noNaN: true }),
      fc.double({ min: 1, max: 45, noNaN: true }),
      fc.double({ min: 0.1, max: 9, noNaN: true }),
    )
    fc.assert(
      fc.property(fc.array(trial, { minLength: 1, maxLength: 6 }), (drawn) => {
        const all = rankCandidates(
          drawn.map(([saturation, idle, dollars], i) => tried(i + 1, saturation, idle, dollars)),
          view,
        )
        const front = computeParetoFront(all, view)
        const perDollar = (c: Candidate) => c.capacityRps / c.pricePerHour
        for (const [i, point] of front.entries()) {
          const { curve, candidate } = all.find((j) => j.candidate.trial === point.trial)!
          const discount = candidate.capacityRps / candidate.estimateRps!
          expect(point.capacityRps / point.estimateRps!).toBeCloseTo(discount, 9)
          // A window at the safe capacity itself tells more than the curve.
          if (point.sloMsFrom === 'model')
            expect(interpolateLatency(curve!, point.capacityRps)).toBeCloseTo(
              point.sloMsAtCapacity,
              6,
            )
          if (i === 0) continue
          expect(point.sloMsAtCapacity).toBeGreaterThan(front[i - 1]!.sloMsAtCapacity)
          expect(perDollar(point)).toBeGreaterThan(perDollar(front[i - 1]!))
        }
        const most = Math.max(...all.map(({ candidate }) => perDollar(candidate)))
        expect(perDollar(front.at(-1)!)).toBe(most)
      }),
      { numRuns: fc.readConfigureGlobal().numRuns ?? 30 },
    )
  })
})

describe('fronts by quality', () => {
  const quality = ({ batchSize }: { batchSize?: unknown }) =>
    [undefined, 0.8, 0.9, 0.9][Number(batchSize)]
  const trials = [cheap, { ...tried(1, 900, 2, 1) }, tried(3, 50, 5, 1), tried(4, 9000, 1, 1)]
  const given = { ...view, quality }
  const frontsOf = () => computeQualityFronts(rankCandidates(trials, given), given)

  test('one for each quality, best first, of those that are at least as good; what has none is left out', () => {
    expect(frontsOf()?.map(({ minQuality }) => minQuality)).toEqual([0.9, 0.8])
    const [best, all] = frontsOf()!.map(({ front }) => new Set(front.map(({ trial }) => trial)))
    expect(best).toEqual(new Set([2, 3]))
    expect(all).toEqual(new Set([1]))
  })

  test('none where there are not two qualities of what serves', () => {
    expect(
      computeQualityFronts(rankCandidates([cheap, tried(3, 50, 5, 1)], given), given),
    ).toBeUndefined()
    expect(
      computeQualityFronts(rankCandidates([cheap, tried(1, 900, 60, 1)], given), given),
    ).toBeUndefined()
    expect(computeQualityFronts(rankCandidates(trials, view), view)).toBeUndefined()
  })
})

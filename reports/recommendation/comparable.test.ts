import fc from 'fast-check'
import { expect, test } from 'vitest'
import { computeCost, createObjective, objectiveKinds } from '../../search/objective.ts'
import type { Configuration } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { toMarkdown } from '../document/markdown.ts'
import { renderReport } from '../report/report-blocks.ts'
import { price, sampleInput } from '../samples.contract.ts'
import { listCandidates } from './candidates.ts'
import { claimsOfMeasuring } from './claims.contract.ts'
import { again, disturbed, failed, outOfMemory, slow, tried } from './invented-trials.contract.ts'
import { recommend } from './recommend.ts'
import { describeRecommended, listVerdictLines } from './verdict-lines.ts'

/** What may have been measured of one configuration. */
interface History {
  readonly kind: (typeof kinds)[number]
  readonly estimateRps: number
  /** Lower end of the interval, and the rate of a second load test, as parts of the estimate. */
  readonly lowPart: number
  readonly secondPart: number
  /** What the search predicted, as a part of the estimate. */
  readonly predictedPart?: number
}
const kinds = [
  'measured once',
  'confirmed',
  'confirmed by few requests',
  'refuted',
  'bounded below',
  'pruned',
  'inconclusive',
  'second test disturbed',
  'too slow',
  'out of memory',
  'failed',
] as const

const history: fc.Arbitrary<History> = fc.record({
  kind: fc.constantFrom(...kinds),
  estimateRps: fc.double({ min: 20, max: 2000, noNaN: true }),
  lowPart: fc.double({ min: 0, max: 0.99, noNaN: true }),
  secondPart: fc.double({ min: 0.6, max: 1.1, noNaN: true }),
  predictedPart: fc.option(fc.double({ min: 0.3, max: 3, noNaN: true }), { nil: undefined }),
})

function trialsOf(
  { kind, estimateRps, lowPart, secondPart, predictedPart }: History,
  configuration: Configuration,
  number: number,
): FinishedTrial[] {
  const once = {
    ...tried(number, configuration, estimateRps, {
      capacityCi90Rps: [lowPart * estimateRps, 1.05 * estimateRps],
    }),
    ...(predictedPart !== undefined && {
      predicted: {
        rate: predictedPart * estimateRps,
        low: 0.8 * predictedPart * estimateRps,
        high: 1.25 * predictedPart * estimateRps,
      },
    }),
  } as FinishedTrial
  const second = (p99Ms: number, change = {}, proven = true) =>
    again(number + 1, configuration, [[secondPart * estimateRps, p99Ms]], proven, change)
  switch (kind) {
    case 'measured once':
      return [once]
    case 'confirmed':
      return [once, second(40)]
    case 'confirmed by few requests':
      return [once, second(40, {}, false)]
    case 'refuted':
      return [once, second(80)]
    case 'second test disturbed':
      return [once, second(80, disturbed)]
    case 'bounded below':
      return [
        tried(number, configuration, estimateRps, {
          outcome: 'generator-limit',
          capacityCi90Rps: [estimateRps, Number.POSITIVE_INFINITY],
          bounds: 'lower',
        }),
      ]
    case 'pruned':
      return [
        tried(number, configuration, estimateRps, {
          outcome: 'pruned',
          capacityCi90Rps: [0, estimateRps],
          bounds: 'upper',
        }),
      ]
    case 'inconclusive':
      return [tried(number, configuration, 0, disturbed)]
    case 'too slow':
      return [slow(number, configuration)]
    case 'out of memory':
      return [outOfMemory(number, configuration)]
    case 'failed':
      return [failed(number, configuration)]
  }
}

const allTrialsOf = (drawn: readonly History[]): FinishedTrial[] =>
  drawn.flatMap((one, i) =>
    trialsOf(
      one,
      {
        cpuCores: 1 + (i % 4),
        memoryMiB: 4096,
        gpu: 'T4',
        gpuMemoryPercent: 25 * (1 + (i % 3)),
        batchSize: 1 + i,
      },
      2 * i + 1,
    ),
  )

const objectives = objectiveKinds.flatMap((kind) =>
  [30, 700].map((demandRps) =>
    createObjective(kind, { demandRps, headroom: 0.2, maxPricePerHour: 0.2 }),
  ),
)

test('the recommended configuration is the cheapest at safe capacities, or cheaper ones say why not', () => {
  fc.assert(
    fc.property(
      fc.array(history, { minLength: 1, maxLength: 8 }),
      fc.constantFrom(...objectives),
      fc.constantFrom('measured', 'emulated', 'simulated'),
      (drawn, objective, provenance) => {
        const trials = allTrialsOf(drawn)
        const r = recommend({ ...sampleInput, trials, objective, provenance, pricePerHour: price })
        for (const c of listCandidates(r)) {
          if (c.feasible) expect(c.cost).toBe(computeCost(objective, c))
          if (c.estimateRps !== undefined) expect(c.capacityRps).toBeLessThan(c.estimateRps)
          if (c.status === 'measured' && c.capacityRps > 0) expect(c.estimateRps).toBeDefined()
        }
        const ranked = r.alternatives.filter(({ feasible }) => feasible).map((a) => a.cost)
        expect(ranked).toEqual([...ranked].sort((a, b) => a - b))
        if (!r.best) {
          expect(ranked).toEqual([])
          return
        }
        const cheaper = r.alternatives.filter((a) => a.feasible && a.cost < r.best!.cost)
        for (const { whyNot } of cheaper)
          expect(whyNot).toMatch(/statistically tied|failed its confirmation|^equal/)
        const note = describeRecommended(r)
        expect(/tied|failed confirmation/.test(note)).toBe(cheaper.length > 0)
        for (const line of Object.values(listVerdictLines(r)).flat())
          expect(line).not.toMatch(/NaN|undefined|Infinity|infinite/)
      },
    ),
    { numRuns: fc.readConfigureGlobal().numRuns ?? 30 },
  )
})

test('the report of a simulated run claims no load test', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(history, { minLength: 1, maxLength: 5 }), async (drawn) => {
      const input = { ...sampleInput, trials: allTrialsOf(drawn), provenance: 'simulated' } as const
      const recommendation = recommend(input)
      const about = { name: 'bert', specification: 'model: bert', environment: [] }
      const text = toMarkdown(await renderReport({ ...input, ...about, recommendation }))
      expect(text).not.toMatch(claimsOfMeasuring)
      if (recommendation.best) expect(text).toMatch(/Status: (simulated|refuted|bound) \(/)
    }),
    { numRuns: fc.readConfigureGlobal().numRuns ?? 30 },
  )
})

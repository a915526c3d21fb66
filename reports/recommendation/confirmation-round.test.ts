import { describe, expect, test } from 'vitest'
import { computeCost, createObjective, objectiveKinds } from '../../search/objective.ts'
import { sampleInput } from '../samples.contract.ts'
import { listCandidates } from './candidates.ts'
import { chooseConfirmationRate, chooseConfirmationRound } from './confirmation-round.ts'
import { A, again, B, C, outOfMemory, tried } from './invented-trials.contract.ts'
import { type RecommendInput, recommend } from './recommend.ts'
import { discountEstimate } from './safe-capacity.ts'

/** B costs twice as much as A, C four times. */
const given = (...trials: RecommendInput['trials']) =>
  recommend({
    ...sampleInput,
    pricePerHour: ({ gpuMemoryPercent }) => Number(gpuMemoryPercent),
    trials,
  })
const next = (...trials: RecommendInput['trials']) =>
  chooseConfirmationRound(given(...trials), () => false)
const confirmed = [tried(1, A, 100), again(2, A, [[90, 34]])]

describe('the next confirmation round', () => {
  test('is of the best itself while it was measured once, down to where the next costs as much', () => {
    expect(next(tried(1, A, 100), tried(2, B, 150))).toMatchObject({
      candidate: { trial: 1 },
      rateRps: 90,
      // B at 90 % of 150, for twice the price.
      minRps: expect.closeTo((0.9 * 150) / 2, 9),
    })
    const alone = {
      candidate: expect.objectContaining({ trial: 1 }),
      rateRps: 90,
      minProvenRps: expect.closeTo(0.8 * 90, 9),
    }
    expect(next(tried(1, A, 100))).toEqual(alone)
  })

  test('there is none once it was confirmed and nothing would be better at its own rate', () => {
    expect(next(...confirmed, tried(3, B, 199), outOfMemory(4, C))).toBeUndefined()
    expect(next(...confirmed, tried(3, B, 200))).toBeUndefined()
  })

  test('then is of rivals that would be better at the rate that they are measured at, best first', () => {
    expect(next(...confirmed, tried(3, B, 202), tried(4, C, 410))).toMatchObject({
      candidate: { trial: 4 },
      rateRps: 0.9 * 410,
    })
    expect(next(...confirmed, tried(3, B, 200.2))).toMatchObject({
      candidate: { trial: 3 },
      minRps: expect.closeTo(180, 9),
    })
  })

  test('is not worth it for what is within the tolerance of one that was confirmed, however many may be', () => {
    const within = (trial: RecommendInput['trials'][number]) =>
      chooseConfirmationRound(given(...confirmed, trial), () => false, 0.05)
    // Confirmed at 90 for the price of 1: at 90 % of 209 the rival is 4.3 % cheaper, at 90 % of 212
    // 5.7 %.
    expect(within(tried(3, B, 209))).toBeUndefined()
    expect(within(tried(3, B, 212))).toMatchObject({ candidate: { trial: 3 } })
    // Nothing is confirmed yet: whatever leads is measured.
    expect(
      chooseConfirmationRound(given(tried(1, A, 100), tried(3, B, 209)), () => false, 0.05),
    ).toMatchObject({
      candidate: { trial: 3 },
    })
  })

  test('is not of a rival that was measured again and held', () => {
    expect(next(...confirmed, tried(3, B, 205), again(4, B, [[185, 34]]))).toBeUndefined()
  })

  test('one that missed gives way to the next, and leads again at a lower rate where that one misses more', () => {
    const missed = [tried(1, A, 100), again(2, A, [[90, 65]])]
    expect(next(...missed, tried(3, B, 198))).toMatchObject({
      candidate: { trial: 3 },
      rateRps: 0.9 * 198,
    })
    const both = [...missed, tried(3, B, 198), again(4, B, [[0.9 * 198, 80]])]
    expect(next(...both)).toMatchObject({
      candidate: { trial: 1 },
      rateRps: 0.95 * 90,
      minRps: expect.closeTo((0.95 * 0.9 * 198) / 2, 9),
    })
    expect(chooseConfirmationRound(given(...both), ({ trial }) => trial === 1)).toMatchObject({
      candidate: { trial: 3 },
    })
    expect(chooseConfirmationRound(given(...both), () => true)).toBeUndefined()
  })

  test('there is none where nothing meets the SLO', () => {
    expect(next(outOfMemory(1, A))).toBeUndefined()
    expect(next()).toBeUndefined()
  })
})

describe('the safe capacity of an estimate', () => {
  test.each([
    [100, [98, 105], 90],
    [100, [64, 120], 80],
    [100, [0, 120], 90],
    [100, [0.25, 120], 5],
    [100, [100, 120], 90],
    [100, [110, 120], 90],
  ] as const)('of %d with an interval of %j is %d', (capacityRps, capacityCi90Rps, safeRps) => {
    expect(discountEstimate({ capacityRps, capacityCi90Rps })).toBeCloseTo(safeRps, 9)
  })

  test.each([
    // Three times as wide: a tenth of the weight. e^(4.6052 · 0.9 + 4.3820 · 0.1) = 97.79.
    ['lower and less certain', [80 * 0.7, 80 / 0.7], [100 * 0.888, 100 / 0.888], 97.79],
    ['lower and as certain', [80 * 0.9, 80 / 0.9], [90, 100 / 0.9], Math.sqrt(8000)],
    ['higher', [110, 130], [90, 110], 100],
    ['lower, of an estimate without a lower end', [70, 90], [0, 110], 100],
    ['lower, of one without an upper end', [70, 90], [100, Number.POSITIVE_INFINITY], 100],
  ] as const)(
    'is drawn towards the prediction where that is %s',
    (_, predictedRps, capacityCi90Rps, likelyRps) => {
      expect(discountEstimate({ capacityRps: 100, capacityCi90Rps, predictedRps })).toBeCloseTo(
        0.9 * likelyRps,
        1,
      )
    },
  )

  test('is not far below a window that met the SLO, nor above what is likely', () => {
    const of = (capacityCi90Rps: readonly [number, number], provenRps: number) =>
      discountEstimate({ capacityRps: 100, capacityCi90Rps, provenRps })
    expect(of([4, 120], 80)).toBeCloseTo(64, 9)
    expect(of([4, 120], 120)).toBe(90)
    expect(of([64, 120], 20)).toBeCloseTo(80, 9)
  })
})

test('with a demand a second measurement is at what each of as many replicas must serve', () => {
  const rate = (demandRps: number) =>
    chooseConfirmationRate(
      { capacityRps: 90, estimateRps: 100, status: 'measured' },
      { kind: 'price-for-demand', demandRps, headroom: 0.2 },
    )
  // Three replicas of 100 less a fifth: 240 in all. 236 take 98.3 of each, 210 no more than 90.
  expect(rate(236)).toBeCloseTo(236 / 2.4, 9)
  expect(rate(240)).toBeCloseTo(100, 9)
  expect(rate(210)).toBe(90)
  expect(rate(5)).toBe(90)
})

test('what was foretold of a trial is known of its candidate, under the SLO and by the figure that it was foretold of', () => {
  const predicted = { rate: 80, low: 70, high: 91, feasible: 1 }
  const trial = { ...tried(1, A, 100), predicted }
  expect(given(trial).best).toMatchObject({ predictedRps: [70, 91] })
  expect(next(trial)!.rateRps).toBeLessThan(0.9 * 100)
  expect(given(tried(1, A, 100)).best).not.toHaveProperty('predictedRps')
  const energy = recommend({
    ...sampleInput,
    objective: createObjective('min-energy', { demandRps: 0, headroom: 0, maxPricePerHour: 1e6 }),
    trials: [trial],
  })
  expect(listCandidates(energy)[0]).not.toHaveProperty('predictedRps')
})

test('a refuted configuration is not recommended before one that held, whatever its windows say', () => {
  const windows = [[98, 45]] as const
  const { best, conclusion } = given(
    tried(1, A, 100, { windows }),
    again(2, A, [[99, 65]]),
    tried(3, B, 150),
    again(4, B, [[140, 40]]),
  )
  expect(best).toMatchObject({ trial: 3, status: 'confirmed' })
  expect(conclusion).toBe('confirmed')
})

test('once the race is over, the best is confirmed: a rival is compared at the rate that the race would measure it at, not by what it seems', () => {
  // B seems 25 % cheaper, by an interval so wide that its round would be at 158, where it costs
  // more than A at 90.
  const wide = tried(3, B, 250, { capacityCi90Rps: [100, 400] })
  expect(next(...confirmed, wide)).toBeUndefined()
  expect(given(...confirmed, wide)).toMatchObject({ best: { trial: 1 }, conclusion: 'confirmed' })
  expect(given(...confirmed, wide).alternatives[0]).toMatchObject({
    trial: 3,
    whyNot: '14 % more expensive, statistically tied',
  })
  // One that would cost less there has its round, and is the best until then.
  const narrow = tried(3, B, 250)
  expect(next(...confirmed, narrow)).toMatchObject({ candidate: { trial: 3 } })
  expect(given(...confirmed, narrow)).toMatchObject({
    best: { trial: 3 },
    conclusion: 'unconfirmed',
  })
  // The rival is the cheapest of all at its own rate, whatever the order of the estimates.
  expect(given(...confirmed, wide, tried(4, C, 480))).toMatchObject({ best: { trial: 4 } })
})

test('every candidate once, best first; the nearest in its place', () => {
  const numbers = (...trials: RecommendInput['trials']) =>
    listCandidates(given(...trials)).map(({ trial }) => trial)
  expect(numbers(tried(1, A, 100), tried(2, B, 150), tried(3, C, 500))).toEqual([3, 1, 2])
  const slow = tried(3, C, 0, {
    outcome: 'slo-unattainable',
    capacityCi90Rps: [0, 0],
    windows: [],
    unloaded: { requests: 9, meanMs: 60, p50Ms: 60, p90Ms: 60, p95Ms: 60, p99Ms: 60, maxMs: 60 },
  })
  expect(numbers(outOfMemory(1, A), slow)).toEqual([3, 1])
  expect(numbers(outOfMemory(1, A), outOfMemory(2, B))).toEqual([1, 2])
  expect(numbers()).toEqual([])
})

test('what a candidate carries is all that its cost is made of, whatever the objective counts', () => {
  const faster = { windows: [[90, 5]] } as const
  const used = { ...tried(1, A, 100, faster), usage: { launchSeconds: 4, cpuCores: 1.5 } } as const
  for (const kind of objectiveKinds) {
    const objective = createObjective(kind, { demandRps: 300, headroom: 0.2, maxPricePerHour: 1e6 })
    const candidates = listCandidates(
      recommend({ ...sampleInput, objective, trials: [used, tried(2, B, 150)] }),
    )
    for (const candidate of candidates)
      expect(computeCost(objective, candidate)).toBe(candidate.cost)
    expect(candidates.find(({ trial }) => trial === 1)!.usage).toEqual(used.usage)
  }
})

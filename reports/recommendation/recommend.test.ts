import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createObjective, objectiveKinds } from '../../search/objective.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { complete, measured, sampleInput, sampleTrials, slo } from '../samples.contract.ts'
import { recommend } from './recommend.ts'

const given = (change: Partial<Parameters<typeof recommend>[0]>) =>
  recommend({ ...sampleInput, ...change })

describe('what is recommended', () => {
  test('the cheapest request, in one sentence with the gain over the baseline', () => {
    const r = recommend(sampleInput)
    expect(r.best?.trial).toBe(2)
    expect(r.verdict).toBe(
      'Best found, NOT confirmed: 2 cores, 0.25 T4, batch 8: 191 req/s at p99 36 ms (estimated), $0.12 per million requests, 83 % cheaper than the baseline',
    )
    expect(r.conclusion).toBe('unconfirmed')
    expect(r.gainOverDefault).toBeCloseTo(0.28 / 120 / (0.085 / 212), 6)
    expect(r.defaultCandidate?.trial).toBe(1)
  })

  test('the alternatives, best first, each with its reason, then those that cannot serve', () => {
    expect(recommend(sampleInput).alternatives.map((a) => [a.trial, a.whyNot])).toEqual([
      [3, '5.3 % more expensive, statistically tied'],
      [1, '5.8× the cost'],
      [4, 'violates the SLO at any rate: one request at a time takes 60 ms at p99 against 50 ms'],
      [5, 'out of memory: 4.6 GiB of 4.0 GiB'],
      [6, 'not measured: no free port'],
    ])
  })

  test('replicas for a demand, where whole replicas change the order', () => {
    const r = given({ objective: { kind: 'price-for-demand', demandRps: 155, headroom: 0 } })
    expect(r.best).toMatchObject({ trial: 3, replicas: 1, totalPricePerHour: 0.075 })
    expect(r.verdict).toContain('1 replica for 155 req/s at $0.075 per hour')
    const more = given({ objective: { kind: 'price-for-demand', demandRps: 1000, headroom: 0.2 } })
    expect(more.best).toMatchObject({ trial: 2, replicas: Math.ceil(1000 / (0.9 * 212 * 0.8)) })
  })

  test('the most rate within a price, and the least latency within a price', () => {
    const rate = given({ objective: { kind: 'max-rate', maxPricePerHour: 0.08 } })
    expect(rate.best?.trial).toBe(3)
    expect(rate.verdict).toContain('the baseline is over the price limit')
    expect(rate.alternatives.find((a) => a.trial === 2)?.whyNot).toBe(
      'costs $0.085 per hour, more than $0.080',
    )
    const trials = [
      ...sampleTrials,
      complete(7, { cpuCores: 8, gpuMemoryPercent: 25, batchSize: 1 }, measured(100, 4)),
    ]
    const latency = given({ trials, objective: { kind: 'min-latency', maxPricePerHour: 1 } })
    expect(latency.best?.trial).toBe(7)
    expect(latency.verdict).toMatch(/4.0 ms unloaded.*60 % lower latency than the baseline/)
  })

  test('what was never measured is not ranked, and says so', () => {
    const blind = complete(1, sampleTrials[0]!.configuration, {
      ...measured(200, 5),
      unloaded: { ...measured(200, 5).unloaded, p99Ms: Number.NaN },
    })
    const r = given({ trials: [blind], objective: { kind: 'min-latency', maxPricePerHour: 1 } })
    expect(r.best).toBeUndefined()
    expect(r.nearest?.reason).toBe(
      'what the objective ranks by (ms of unloaded latency) was not measured',
    )
  })

  test('another SLO re-ranks the same trials and says that it is derived', () => {
    const r = given({ slo: { ...slo, limitMs: 90 } })
    expect(r.best?.trial).toBe(2)
    expect(r.best?.derived).toBe(true)
    expect(r.caveats).toContainEqual(expect.stringContaining('another SLO'))
    const slow = r.alternatives.find((a) => a.trial === 4)
    expect(slow).toMatchObject({ feasible: true, derived: true })
    expect(Math.abs(Math.log((slow?.estimateRps ?? 0) / 300))).toBeLessThan(0.1)
  })
})

describe('a confirmed one and a better one that was measured once', () => {
  const [, confirmed] = sampleTrials
  const second = complete(
    7,
    confirmed!.configuration,
    { ...measured(265, 10), capacityRps: 200, capacityCi90Rps: [200, 200] },
    { purpose: 'confirmation' },
  )
  /** Of the same price. */
  const rival = (capacityRps: number) =>
    complete(8, { ...confirmed!.configuration, batchSize: 16 }, measured(capacityRps / 0.8, 10))
  const bestOf = (capacityRps: number, change: Partial<Parameters<typeof recommend>[0]> = {}) =>
    given({ trials: [confirmed!, second, rival(capacityRps)], ...change }).best?.trial

  test('a tenth better at the rate that it would be confirmed at is luck, more is not', () => {
    // At one price a tenth less cost is 200 / 0.9 req/s, which are 90 % of 247.
    expect([bestOf(224), bestOf(246), bestOf(248)]).toEqual([2, 2, 8])
  })

  test('also where the most is the best', () => {
    const objective = { kind: 'max-rate', maxPricePerHour: 1 } as const
    expect([
      bestOf(221, { objective }),
      bestOf(244, { objective }),
      bestOf(245, { objective }),
    ]).toEqual([2, 2, 8])
  })
})

describe('the conclusion', () => {
  const [, best] = sampleTrials
  const again = (capacityRps: number) =>
    complete(
      7,
      best!.configuration,
      { ...measured(265, 10), capacityRps, capacityCi90Rps: [capacityRps, capacityRps] },
      { purpose: 'confirmation' },
    )
  const over = measured(265, 10)
    .points.slice(3)
    .map((point) => ({ ...point, sloMs: 90 }))
  const none = {
    outcome: 'budget',
    capacityRps: 0,
    capacityCi90Rps: [0, 200],
    points: over,
  } as const
  const missed = complete(
    7,
    best!.configuration,
    { ...measured(265, 10), ...none },
    { purpose: 'confirmation' },
  )

  test.each<[string, Partial<Parameters<typeof recommend>[0]>, string]>([
    ['measured, and not again', { trials: [best!] }, 'unconfirmed'],
    ['measured once, as requested', { trials: [best!], confirm: false }, 'not asked'],
    [
      'measured again, though it was not asked',
      { trials: [best!, again(200)], confirm: false },
      'confirmed',
    ],
    [
      'refuted, though it was not asked',
      { trials: [best!, missed], confirm: false },
      'unconfirmed',
    ],
    ['confirmed', { trials: [best!, again(200)] }, 'confirmed'],
    [
      'simulated, whatever was confirmed',
      { trials: [best!, again(200)], provenance: 'simulated' },
      'simulated',
    ],
    ['none of those that were known', { trials: sampleTrials.slice(3, 5) }, 'none'],
    ['none, of one known and one not', { trials: sampleTrials.slice(4) }, 'none'],
    ['nothing known', { trials: sampleTrials.slice(5) }, 'unknown'],
  ])('%s', (_, change, conclusion) => {
    expect(given(change).conclusion).toBe(conclusion)
  })
})

describe('the nearest', () => {
  const slow = (number: number, unloadedMs: number) =>
    complete(number, { cpuCores: number, gpuMemoryPercent: 25 }, measured(900, unloadedMs))
  const dear = (number: number, cpuCores: number) =>
    complete(number, { cpuCores, gpuMemoryPercent: 25 }, measured(900, 10))
  const nearest = (...trials: FinishedTrial[]) =>
    given({ trials, objective: { kind: 'max-rate', maxPricePerHour: 0.07 } }).nearest?.trial

  test('of slow ones the fastest, of dear ones the least dear, dear before slow', () => {
    expect(nearest(slow(1, 70), slow(2, 60), slow(3, 65))).toBe(2)
    expect(nearest(dear(1, 9), dear(2, 7), dear(3, 8))).toBe(2)
    expect(nearest(slow(1, 51), dear(2, 300))).toBe(2)
  })

  test('none that could not serve at all, or answered nothing', () => {
    const silent = complete(
      1,
      { cpuCores: 1, gpuMemoryPercent: 25 },
      {
        ...measured(900, 60),
        outcome: 'errors',
        capacityRps: 0,
        unloaded: { ...measured(900, 60).unloaded, p99Ms: Number.NaN },
      },
    )
    expect(nearest(silent, sampleTrials[4]!)).toBeUndefined()
  })
})

describe('when nothing meets the SLO', () => {
  test('the nearest is named, with what keeps it back', () => {
    const r = given({ trials: sampleTrials.slice(3) })
    expect(r.best).toBeUndefined()
    expect(r.nearest?.trial).toBe(4)
    expect(r.verdict).toBe(
      'No configuration meets p99 <= 50 ms: the nearest, 2 cores, 1 T4, batch 32, takes 60 ms for one request at a time, 1.2× the limit',
    )
    expect(r.binding).toEqual({
      what: 'slo',
      evidence: 'one request at a time takes 60 ms at p99, over 50 ms',
    })
    expect(r.front).toEqual([])
  })

  test('nor anything could serve, nor anything was tried', () => {
    expect(given({ trials: sampleTrials.slice(4) }).verdict).toBe(
      'No configuration meets p99 <= 50 ms: none of those tried could serve',
    )
    expect(given({ trials: [] })).toMatchObject({
      verdict: 'Nothing has been measured yet',
      alternatives: [],
      front: [],
    })
  })
})

describe('what binds', () => {
  const only = (t: FinishedTrial, ...others: FinishedTrial[]) =>
    given({ trials: [t, ...others] }).binding
  const configuration = { cpuCores: 2, gpu: 'T4', gpuMemoryPercent: 25, batchSize: 8 }

  test('the GPU or the cores, by usage', () => {
    expect(recommend(sampleInput).binding).toEqual({
      what: 'gpu',
      evidence: 'GPU busy 93 % of the time, 2 cores 60 % busy',
    })
    expect(
      only(
        complete(1, configuration, measured(200, 5), {
          usage: { gpuUtilization: 0.4, cpuCores: 1.9 },
        }),
      ).what,
    ).toBe('cpu')
    const usage = {
      gpuUtilization: 0.3,
      busiestGpuUtilization: 0.97,
      cpuCores: 0.5,
      busiestCpuCores: 1,
    }
    expect(only(complete(1, configuration, measured(200, 5), { usage }))).toEqual({
      what: 'gpu',
      evidence: 'GPU busy 97 % of the time, 2 cores 50 % busy',
    })
  })

  test('memory, by a neighbour that ran out of it', () => {
    const binding = only(
      complete(1, configuration, measured(200, 5), { usage: { gpuUtilization: 0.6 } }),
      sampleTrials[4]!,
    )
    expect(binding).toEqual({
      what: 'memory',
      evidence: 'batchSize 64 (trial 5) is out of memory, GPU busy 60 % of the time',
    })
  })

  test('the SLO, by what saturation would allow', () => {
    const binding = only(complete(1, configuration, measured(200, 20)))
    expect(binding.what).toBe('slo')
    expect(binding.evidence).toBe('saturates at 200 req/s, meets the SLO up to 60 % of that')
  })

  test('the generator, or unknown', () => {
    expect(
      only(complete(1, configuration, measured(200, 5, { outcome: 'generator-limit' }))).what,
    ).toBe('generator')
    expect(only(complete(1, configuration, measured(200, 5)))).toEqual({
      what: 'unknown',
      evidence: 'usage was not measured',
    })
  })
})

describe('the confirmation', () => {
  const confirm = (capacityRps: number, sloMs: number): FinishedTrial => {
    const m = measured(265, 10)
    const points = [
      {
        ...m.points[0]!,
        offeredRps: capacityRps || 200,
        sloMs,
        sloCi95Ms: [sloMs - 2, sloMs + 2] as [number, number],
      },
    ]
    return complete(
      7,
      sampleTrials[1]!.configuration,
      { ...m, capacityRps, capacityCi90Rps: [capacityRps * 0.99, capacityRps], points },
      { purpose: 'confirmation' },
    )
  }

  test('that held replaces the capacity and stands in the verdict', () => {
    const r = given({ trials: [...sampleTrials, confirm(208, 43)] })
    expect(r.best).toMatchObject({ trial: 2, capacityRps: 208 })
    expect(r.confirmation).toMatchObject({
      met: true,
      rateRps: 208,
      sloMs: 43,
      sloCi95Ms: [41, 45],
    })
    expect(r.verdict).toMatch(
      /^2 cores, 0.25 T4, batch 8: 208 req\/s at p99 43 ms, \$0.11 per million requests, 84 % cheaper than the baseline$/,
    )
  })

  test('that lowers the capacity hands over to the next', () => {
    const r = given({ trials: [...sampleTrials, confirm(150, 48)] })
    expect(r.best?.trial).toBe(3)
    expect(r.alternatives[0]).toMatchObject({ trial: 2, capacityRps: 150 })
  })

  test('that held at no rate sets the capacity to what is known to hold, not to zero', () => {
    const rival = complete(3, sampleTrials[2]!.configuration, measured(240, 10))
    const r = given({
      trials: [...sampleTrials.filter((t) => t.number !== 3), rival, confirm(0, 70)],
    })
    expect(r.best?.trial).toBe(3)
    const refuted = r.alternatives.find((a) => a.trial === 2)
    expect(refuted).toMatchObject({
      status: 'refuted',
      feasible: true,
      capacityRps: 0.7 * 265,
      sloMsFrom: 'measured',
    })
    expect(refuted?.missed).toEqual({ rateRps: 200, sloMs: 70 })
    expect(refuted?.sloMsAtCapacity).toBeCloseTo(10 / 0.3, 6)
  })

  test('that held at no rate, where nothing below is known to hold, leaves no capacity, and says that it was not its idle latency', () => {
    const first = measured(265, 10)
    const narrow = { ...first, points: first.points.filter((p) => p.offeredRps > 200) }
    const trials = sampleTrials.map((t) =>
      t.number === 2 ? { ...t, measurement: narrow } : t,
    ) as FinishedTrial[]
    const refuted = given({ trials: [...trials, confirm(0, 70)] }).alternatives.find(
      (a) => a.trial === 2,
    )
    expect(refuted).toMatchObject({ status: 'refuted', feasible: false, capacityRps: 0 })
    expect(refuted?.reason).toBe(
      'its second load test violated the SLO at 200 req/s (p99 70 ms); lower rates were not tried',
    )
  })

  test('that could not serve makes the configuration infeasible', () => {
    const { measurement: _, ...rest } = confirm(1, 1) as Extract<
      FinishedTrial,
      { state: 'complete' }
    >
    const died: FinishedTrial = {
      ...rest,
      state: 'infeasible',
      reason: 'crashed',
      detail: 'exit code 1',
    }
    const r = given({ trials: [...sampleTrials, died] })
    expect(r.best?.trial).toBe(3)
    expect(r.alternatives.find((a) => a.trial === 2)?.reason).toBe(
      'served once, but not in its second load test: crashed: exit code 1',
    )
  })
})

describe('the Pareto front', () => {
  test('rises in latency and in throughput per dollar, and ends with the best at the SLO', () => {
    const trials = [
      ...sampleTrials,
      complete(7, { cpuCores: 2, gpuMemoryPercent: 25, batchSize: 1 }, measured(120, 3)),
    ]
    const { front, best } = given({ trials })
    expect(new Set(front.map((c) => c.trial)).size).toBeGreaterThan(1)
    for (let i = 1; i < front.length; i++) {
      expect(front[i]!.sloMsAtCapacity).toBeGreaterThanOrEqual(front[i - 1]!.sloMsAtCapacity)
      expect(front[i]!.capacityRps / front[i]!.pricePerHour).toBeGreaterThan(
        front[i - 1]!.capacityRps / front[i - 1]!.pricePerHour,
      )
    }
    expect(front.at(-1)).toEqual(best)
  })
})

test('confidence is what the stop rule believes, rounded down', () => {
  const r = given({ stop: { probabilityBetterExists: 0.0461, tolerance: 0.05 } })
  expect(r.confidence.statement).toContain(
    '95 % likely that no untried configuration is over 5 % cheaper',
  )
  expect(recommend(sampleInput).confidence.statement).toBe('not assessed')
})

test('caveats tell what is emulated, what is close, and what is missing', () => {
  expect(recommend(sampleInput).caveats).toEqual([
    'GPUs are emulated from published measurements, error 9 %',
    'statistically tied with the best: 1 cores, 0.25 T4, batch 8 (trial 3)',
    '1 configuration could not be measured',
  ])
})

test('a configuration tried twice counts once, by its last good trial', () => {
  const again = complete(8, sampleTrials[5]!.configuration, measured(400, 10))
  const r = given({ trials: [...sampleTrials, again] })
  expect(r.alternatives.some((a) => a.trial === 6)).toBe(false)
  expect([r.best, ...r.alternatives].map((c) => c?.trial)).toContain(8)
})

test('the best costs no more than any other feasible candidate, whatever the trials', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.tuple(
          fc.integer({ min: 1, max: 4 }),
          fc.integer({ min: 1, max: 32 }),
          fc.double({ min: 5, max: 900, noNaN: true }),
          fc.double({ min: 1, max: 80, noNaN: true }),
        ),
        {
          maxLength: 12,
        },
      ),
      fc.constantFrom(
        ...objectiveKinds.map((kind) =>
          createObjective(kind, { demandRps: 500, headroom: 0.3, maxPricePerHour: 0.2 }),
        ),
      ),
      (drawn, objective) => {
        const trials = drawn.map(([cpuCores, batchSize, saturation, idle], i) =>
          complete(
            i + 1,
            { cpuCores, batchSize, gpuMemoryPercent: 25 },
            measured(saturation, idle),
          ),
        )
        const r = given({ trials, objective })
        const feasible = r.alternatives.filter((a) => a.feasible)
        for (const a of feasible) expect(a.cost).toBeGreaterThanOrEqual(r.best!.cost)
        if (!r.best) expect(feasible).toEqual([])
        for (const a of r.alternatives) expect(a.whyNot).not.toBe('')
        expect(r.verdict).not.toMatch(/NaN|undefined|Infinity/)
      },
    ),
  )
})

test('a trial that the machine spoilt binds nothing', () => {
  const spoilt = complete(1, sampleTrials[0]!.configuration, {
    ...measured(200, 5),
    outcome: 'host-interference',
    capacityRps: 0,
    capacityCi90Rps: [0, Number.POSITIVE_INFINITY],
    bounds: 'none',
  })
  const r = given({ trials: [spoilt] })
  expect(r.nearest?.status).toBe('inconclusive')
  expect(r.binding.what).toBe('unknown')
})

test('what a confirmation says of itself is no caveat under another SLO', () => {
  const [, winner] = sampleTrials
  const said = 'the confirmation held, but proves nothing by itself'
  const second = complete(
    7,
    winner!.configuration,
    { ...measured(265, 10), caveats: [said] },
    { purpose: 'confirmation' },
  )
  const trials = [...sampleTrials, second]
  expect(given({ trials }).caveats.join()).toContain(said)
  expect(given({ trials, slo: { ...slo, limitMs: 30 } }).caveats.join()).not.toContain(said)
})

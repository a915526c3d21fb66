import { describe, expect, test } from 'vitest'
import { type RecordedTable, replay } from './replay-table.ts'
import { createRng } from './rng.ts'
import { createGpSampler } from './samplers/gp.ts'
import { configurationKey, enumerate } from './space.ts'
import { pastKnowledge } from './transfer.ts'
import type { Configuration, Observation, PastExperiment, Problem, SearchSpace } from './types.ts'

const space: SearchSpace = {
  parameters: [
    {
      name: 'cores',
      category: 'resource',
      kind: 'ordinal',
      values: [1, 2, 4, 8, 16],
      scale: 'log',
    },
    {
      name: 'batch',
      category: 'server',
      kind: 'ordinal',
      values: [1, 2, 4, 8, 16, 32, 64],
      scale: 'log',
    },
    { name: 'workers', category: 'server', kind: 'ordinal', values: [1, 2, 3, 4], scale: 'linear' },
  ],
  constraints: [],
}
const problem: Problem = {
  space,
  objective: { kind: 'price-per-request' },
  constraintLimit: 60,
  pricePerHour: (c) => 0.1 + 0.05 * Number(c.cores),
}

/**
 * A server whose latency has a fixed part, a part that grows with the batch, and contention between
 * workers.
 */
function server(fixedMs: number, perItemMs: number, contention: number) {
  return (configuration: Configuration): Observation => {
    const { cores, batch, workers } = configuration as Record<string, number>
    const ms = (fixedMs + (perItemMs * batch! * workers! ** contention) / cores! ** 0.8) * 1.5
    return {
      configuration,
      state: 'complete',
      rate: { value: (1000 * batch! * workers!) / ms / workers! ** contention, logSd: 0.02 },
      constraint: { value: ms, logSd: 0.02 },
    }
  }
}
const all = enumerate(space)
const table = (
  measure: (c: Configuration) => Observation,
  history?: PastExperiment[],
): RecordedTable => ({
  configurations: all,
  problem: { ...problem, ...(history ? { history } : {}) },
  measure,
})
const past = (
  name: string,
  measure: (c: Configuration) => Observation,
  every = 3,
): PastExperiment => ({
  name,
  space,
  observations: all.filter((_, i) => i % every === 0).map(measure),
})

/** Trials until the cheapest feasible configuration to within 5 %. */
function trials(on: RecordedTable, seed: number): number {
  const cost = (o: Observation) =>
    o.state === 'complete' && o.constraint!.value <= 60
      ? problem.pricePerHour(o.configuration) / o.rate!.value
      : Infinity
  const optimum = Math.min(...all.map((c) => cost(on.measure(c))))
  const hit = (seen: readonly Observation[]) => cost(seen.at(-1)!) <= 1.05 * optimum
  return replay(on, createGpSampler(), createRng(seed), {
    maxTrials: 30,
    stop: 'never',
    until: hit,
  }).observations.length
}
const mean = (values: number[]) => values.reduce((a, b) => a + b) / values.length
const seeds = [1, 2, 3, 4]

describe('pastKnowledge', () => {
  test('gives the measured values back at the configurations that were measured', () => {
    const measure = server(8, 2, 0.3)
    const knowledge = pastKnowledge([past('one', measure)], space)!
    const at = [all[0]!, all[3]!]
    const expected = at.map((c) => (measure(c) as { rate: { value: number } }).rate.value)
    expect(knowledge.columns(at).map(([v]) => Math.exp(v!))).toEqual(
      expected.map((v) => expect.closeTo(v, 6)),
    )
  })
  test('leaves out experiments that tuned other parameters or never measured the quantity', () => {
    const other: PastExperiment = {
      name: 'other',
      space: {
        parameters: [
          { name: 'gpus', category: 'resource', kind: 'int', min: 1, max: 4, scale: 'linear' },
        ],
        constraints: [],
      },
      observations: [],
    }
    expect(pastKnowledge([other], space)).toBeUndefined()
    expect(
      pastKnowledge([{ ...past('few', server(1, 1, 1)), observations: [] }], space),
    ).toBeUndefined()
  })
  test('predicts a space with more values than the past one had', () => {
    const small: SearchSpace = { parameters: space.parameters.slice(0, 2), constraints: [] }
    const knowledge = pastKnowledge(
      [
        {
          name: 'small',
          space: small,
          observations: enumerate(small).map((c) => server(8, 2, 0)({ ...c, workers: 1 })),
        },
      ],
      space,
    )!
    for (const row of knowledge.columns(all)) expect(row[0]).toSatisfy(Number.isFinite)
    expect(configurationKey(all[0]!)).toContain('workers')
  })
})

describe('how much a past experiment counts', () => {
  const line: SearchSpace = {
    parameters: [
      {
        name: 'n',
        category: 'server',
        kind: 'ordinal',
        values: [1, 2, 3, 4, 5, 6],
        scale: 'linear',
      },
    ],
    constraints: [],
  }
  const rated = (n: number, rate: number): Observation => ({
    configuration: { n },
    state: 'complete',
    rate: { value: rate },
  })
  const experiment = (name: string, rates: readonly number[]): PastExperiment => ({
    name,
    space: line,
    observations: rates.map((r, i) => rated(i + 1, r)),
  })
  const rising = experiment('rising', [1, 2, 3, 4, 5, 6])
  const falling = experiment('falling', [6, 5, 4, 3, 2, 1])
  /** Ranks 1 3 2 4 where the trials say 1 2 3 4: five pairs of six agree, one does not. */
  const mixed = experiment('mixed', [1, 3, 2, 4, 5, 6])
  const trials = (...targets: readonly number[]) =>
    targets.map((target, i) => ({ at: { n: i + 1 }, target }))
  const weights = (history: readonly PastExperiment[], ...targets: readonly number[]) =>
    pastKnowledge(history, line, trials(...targets))?.slopes.map(([mean]) => mean)

  test('is how well it ranks the trials, as a share of all', () => {
    expect(weights([rising, mixed], 1, 2, 3, 4)).toEqual(
      [1 / (1 + 4 / 6), 4 / 6 / (1 + 4 / 6)].map((w) => expect.closeTo(w, 12)),
    )
    expect(weights([mixed, rising], 1, 2, 3, 4)![1]).toBeCloseTo(0.6, 12)
  })
  test('is nothing where it ranks them no better than chance', () => {
    expect(weights([rising, falling], 1, 2, 3, 4)).toEqual([1])
    expect(weights([falling], 1, 2, 3)).toBeUndefined()
    // As many pairs for it as against it.
    expect(weights([experiment('even', [2, 1, 4, 3, 5, 6])], 2, 3, 4, 1)).toBeUndefined()
  })
  test('is not judged by fewer than three pairs, and equal trials are no pair', () => {
    expect(weights([rising, falling], 1, 2)).toEqual([0.5, 0.5])
    expect(weights([rising, falling])).toEqual([0.5, 0.5])
    // Three trials, of which two are equal: two pairs.
    expect(weights([falling], 1, 1, 2)).toEqual([1])
    expect(weights([falling], 1, 1, 2, 3)).toBeUndefined()
  })
  test('leaves half of itself open, shared among all, and says what else the model needs', () => {
    const { slopes, columns, ...rest } = pastKnowledge([rising, mixed], line, [])!
    for (const [, sd] of slopes) expect(sd).toBeCloseTo(0.5 / Math.SQRT2, 12)
    expect(rest).toEqual({ burden: 1, correction: 0.3, offsetSd: 1, signal: [-3, 1] })
    expect(columns([{ n: 2 }, { n: 3 }])).toEqual([
      [Math.log(2), Math.log(3)],
      [Math.log(3), Math.log(2)],
    ])
  })
  test('needs three rates; what failed, served nothing or was not measured is none', () => {
    const only = (...observations: Observation[]) =>
      pastKnowledge([{ name: 'few', space: line, observations }], line)
    const none: Observation[] = [
      { configuration: { n: 4 }, state: 'infeasible', reason: '' },
      { configuration: { n: 5 }, state: 'complete' },
      rated(6, 0),
    ]
    expect(only(rated(1, 1), rated(2, 2), ...none)).toBeUndefined()
    expect(only(rated(1, 1), rated(2, 2), rated(3, 3), ...none)!.columns([{ n: 3 }])).toEqual([
      [Math.log(3)],
    ])
  })
  test('between what was measured it is interpolated, around its average beyond', () => {
    const gaps: PastExperiment = {
      ...rising,
      observations: [rated(1, 10), rated(2, 20), rated(4, 40), rated(6, 60)],
    }
    const [[three], [five]] = pastKnowledge([gaps], line)!.columns([{ n: 3 }, { n: 5 }]) as [
      [number],
      [number],
    ]
    expect(Math.exp(three)).toBeGreaterThan(24)
    expect(Math.exp(three)).toBeLessThan(36)
    expect(five).toBeGreaterThan(three)
    // Asked again, and of a configuration with more to it: the same.
    const knowledge = pastKnowledge([gaps], {
      ...line,
      parameters: [...line.parameters, space.parameters[0]!],
    })!
    expect(
      knowledge.columns([
        { n: 3, cores: 8 },
        { n: 3, cores: 1 },
      ]),
    ).toEqual([[expect.closeTo(three, 9)], [expect.closeTo(three, 9)]])
  })
  test('of very many trials an even choice is taken: what was measured is known all the same', () => {
    const long: SearchSpace = {
      parameters: [{ name: 'n', category: 'server', kind: 'int', min: 1, max: 400, scale: 'log' }],
      constraints: [],
    }
    const observations = Array.from({ length: 350 }, (_, i) => rated(i + 1, 100 * (i + 1) ** 0.5))
    const { columns } = pastKnowledge([{ name: 'long', space: long, observations }], long)!
    const [[last], [beyond]] = columns([{ n: 350 }, { n: 360 }]) as [[number], [number]]
    expect(last).toBeCloseTo(Math.log(100 * 350 ** 0.5), 9)
    expect(beyond).toBeCloseTo(Math.log(100 * 360 ** 0.5), 1)
  })
})

describe('transfer', () => {
  const truth = server(8, 2, 0.3)
  const alone = mean(seeds.map((seed) => trials(table(truth), seed)))

  test('past experiments on similar servers find the optimum in fewer trials', () => {
    const history = [past('smaller', server(5, 1.4, 0.3)), past('larger', server(14, 3, 0.35))]
    expect(mean(seeds.map((seed) => trials(table(truth, history), seed)))).toBeLessThan(alone)
  })

  test('a past experiment that has nothing to do with this one costs at most a few trials', () => {
    const spent = [1, 2, 3, 4, 5, 6].map((seed) => {
      const rng = createRng(`nonsense ${seed}`)
      const estimate = () => ({ value: Math.exp(3 * rng.normal()) })
      const nonsense = past('unrelated', (configuration) => ({
        configuration,
        state: 'complete',
        rate: estimate(),
        constraint: estimate(),
      }))
      return trials(table(truth, [nonsense]), seed)
    })
    expect(mean(spent)).toBeLessThanOrEqual(alone + 3)
  })
})

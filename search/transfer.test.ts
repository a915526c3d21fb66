import { describe, expect, test } from 'vitest'
import { type RecordedTable, replay } from './replay-table.ts'
import { createRng } from './rng.ts'
import { createGpSampler } from './samplers/gp.ts'
import { configurationKey, enumerate } from './space.ts'
import { pastKnowledge } from './transfer.ts'
import type { Configuration, Observation, PastExperiment, Problem, SearchSpace } from './types.ts'

const space: SearchSpace = {
  parameters: [
    { name: 'cores', category: 'resource', kind: 'ordinal', values: [1, 2, 4, 8, 16], scale: 'log' },
    { name: 'batch', category: 'server', kind: 'ordinal', values: [1, 2, 4, 8, 16, 32, 64], scale: 'log' },
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

/** A server whose latency has a fixed part, a part that grows with the batch, and contention between workers. */
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
const table = (measure: (c: Configuration) => Observation, history?: PastExperiment[]): RecordedTable => ({
  configurations: all,
  problem: { ...problem, ...(history ? { history } : {}) },
  measure,
})
const past = (name: string, measure: (c: Configuration) => Observation, every = 3): PastExperiment => ({
  name,
  space,
  observations: all.filter((_, i) => i % every === 0).map(measure),
})

/** Trials until the cheapest feasible configuration to within 5 %. */
function trials(on: RecordedTable, seed: number): number {
  const cost = (o: Observation) =>
    o.state === 'complete' && o.constraint!.value <= 60 ? problem.pricePerHour(o.configuration) / o.rate!.value : Infinity
  const optimum = Math.min(...all.map((c) => cost(on.measure(c))))
  const hit = (seen: readonly Observation[]) => cost(seen.at(-1)!) <= 1.05 * optimum
  return replay(on, createGpSampler(), createRng(seed), { maxTrials: 30, stop: 'never', until: hit }).observations.length
}
const mean = (values: number[]) => values.reduce((a, b) => a + b) / values.length
const seeds = [1, 2, 3, 4]

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

describe('pastKnowledge', () => {
  test('gives the measured values back at the configurations that were measured', () => {
    const measure = server(8, 2, 0.3)
    const knowledge = pastKnowledge([past('one', measure)], space)!
    const at = [all[0]!, all[3]!]
    const expected = at.map((c) => (measure(c) as { rate: { value: number } }).rate.value)
    expect(knowledge.columns(at).map(([v]) => Math.exp(v!))).toEqual(expected.map((v) => expect.closeTo(v, 6)))
  })
  test('leaves out experiments that tuned other parameters or never measured the quantity', () => {
    const other: PastExperiment = {
      name: 'other',
      space: { parameters: [{ name: 'gpus', category: 'resource', kind: 'int', min: 1, max: 4, scale: 'linear' }], constraints: [] },
      observations: [],
    }
    expect(pastKnowledge([other], space)).toBeUndefined()
    expect(pastKnowledge([{ ...past('few', server(1, 1, 1)), observations: [] }], space)).toBeUndefined()
  })
  test('predicts a space with more values than the past one had', () => {
    const small: SearchSpace = { parameters: space.parameters.slice(0, 2), constraints: [] }
    const knowledge = pastKnowledge(
      [{ name: 'small', space: small, observations: enumerate(small).map((c) => server(8, 2, 0)({ ...c, workers: 1 })) }],
      space,
    )!
    for (const row of knowledge.columns(all)) expect(row[0]).toSatisfy(Number.isFinite)
    expect(configurationKey(all[0]!)).toContain('workers')
  })
})

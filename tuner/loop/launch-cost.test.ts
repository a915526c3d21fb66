import { describe, expect, test } from 'vitest'
import { createRng } from '../../search/rng.ts'
import { gpSampler } from '../../search/samplers/gp.ts'
import { configurationKey, enumerate } from '../../search/space.ts'
import type { Configuration, Observation, OrdinalParameter, Problem } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { trialSeconds } from './launch-cost.ts'

const changes = new Set(['batch'])
const trial = (configuration: Configuration, launchSeconds: number | undefined, seconds: number): FinishedTrial =>
  ({ state: 'complete', configuration, seconds, usage: { launchSeconds } }) as FinishedTrial

describe('what a trial would take', () => {
  const started = [trial({ cores: 1, batch: 1 }, 100, 130), trial({ cores: 1, batch: 2 }, 1, 31), trial({ cores: 2, batch: 2 }, 120, 150)]

  test('is a measurement where the server that runs is told the values, else a start beside', () => {
    const seconds = trialSeconds(started, changes)!
    expect(seconds({ cores: 2, batch: 8 })).toBe(30 + 1)
    expect(seconds({ cores: 1, batch: 8 })).toBe(30 + 110)
  })

  test.each([
    ['nothing is changed on a server that runs', started, undefined],
    ['no parameter is', started, new Set<string>()],
    ['no start was seen yet', [], changes],
    ['none tells its start', [trial({ cores: 1, batch: 1 }, undefined, 30)], changes],
    ['starts take next to nothing', [trial({ cores: 1, batch: 1 }, 1, 30)], changes],
    ['the last server is gone', [...started, { ...started[0]!, state: 'infeasible' } as FinishedTrial], changes],
  ])('is the same for all where %s', (_, trials, names) => {
    expect(trialSeconds(trials, names)).toBeUndefined()
  })
})

describe('the search', () => {
  const ordinal = (name: string, values: readonly number[], more: Partial<OrdinalParameter> = {}): OrdinalParameter => ({
    name,
    category: 'resource',
    kind: 'ordinal',
    values,
    scale: 'log',
    ...more,
  })
  const batches = [1, 2, 4, 8, 16, 32, 64, 128]
  const problem: Problem = {
    space: {
      parameters: [
        ordinal('cores', [1, 2, 4, 8]),
        ordinal('width', [1, 2, 3, 4, 5, 6], { category: 'args' }),
        ordinal('batch', batches, { category: 'server' }),
      ],
      constraints: [],
    },
    objective: { kind: 'price-per-request' },
    pricePerHour: (c) => 0.3 + 0.1 * Number(c.cores),
  }
  /** Best at batch 64, a little less where it is wider, and at width 5. */
  const rps = ({ cores, width, batch }: Configuration) => {
    const [off, beside] = [Math.log2(Number(batch) / 64) + 0.3 * (Number(width) - 5), Number(width) - 5]
    return (400 * Number(cores)) / (2 + Number(cores)) ** 1.1 / (1 + 0.15 * off ** 2) / (1 + 0.05 * beside ** 2)
  }
  const costOf = (c: Configuration) => problem.pricePerHour(c) / rps(c)
  const observed = (configuration: Configuration): Observation => ({
    configuration,
    state: 'complete',
    rate: { value: rps(configuration), logSd: 0.02 },
  })
  const [startS, measureS] = [300, 30]

  /** Seconds until a configuration within 3 % of the cheapest was measured. */
  function searched(seed: string, shares: boolean): { readonly seconds: number; readonly starts: number } {
    const least = Math.min(...enumerate(problem.space).map(costOf))
    const trials: FinishedTrial[] = []
    let [seconds, starts] = [0, 0]
    for (let i = 0; i < 40; i++) {
      const observations = trials.map(({ configuration }) => observed(configuration))
      const at = gpSampler.suggest(problem, observations, [], createRng(seed), shares ? trialSeconds(trials, changes) : undefined)!
      const before = trials.at(-1)?.configuration
      const started = ['cores', 'width'].some((name) => before?.[name] !== at.configuration[name])
      const took = measureS + (started ? startS : 1)
      seconds += took
      starts += started ? 1 : 0
      trials.push(trial(at.configuration, started ? startS : 1, took))
      if (costOf(at.configuration) <= 1.03 * least) break
    }
    return { seconds, starts }
  }

  test('finds what is cheap in less time, by fewer starts, where several settings share one', () => {
    const seeds = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
    const sum = (shares: boolean, of: 'seconds' | 'starts') => seeds.reduce((total, seed) => total + searched(seed, shares)[of], 0)
    expect(sum(true, 'starts')).toBeLessThan(sum(false, 'starts'))
    expect(sum(true, 'seconds')).toBeLessThan(0.85 * sum(false, 'seconds'))
  })

  test('chooses as ever where all take the same', () => {
    const observations = [1, 8, 64].flatMap((batch) => [1, 8].map((cores) => observed({ cores, width: 3, batch })))
    const key = (seconds?: (c: Configuration) => number) =>
      configurationKey(gpSampler.suggest(problem, observations, [], createRng('same'), seconds)!.configuration)
    expect(key(() => 77)).toBe(key())
    // What starts anew has to promise as many times more as it takes longer.
    expect(
      gpSampler.suggest(problem, observations, [], createRng('same'), ({ cores }) => (cores === 8 ? 1 : 1e9))!.configuration.cores,
    ).toBe(8)
  })
})

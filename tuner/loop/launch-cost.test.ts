import { describe, expect, test } from 'vitest'
import { createRng } from '../../search/rng.ts'
import { gpSampler } from '../../search/samplers/gp.ts'
import { configurationKey, enumerateConfigurations } from '../../search/space/space.ts'
import type { Configuration, Observation, OrdinalParameter, Problem } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { trialSeconds } from './launch-cost.ts'

const changes = new Set(['batch'])
const trial = (
  configuration: Configuration,
  launchSeconds: number | undefined,
  seconds: number,
): FinishedTrial =>
  ({ state: 'complete', configuration, seconds, usage: { launchSeconds } }) as FinishedTrial

describe('what a trial would take', () => {
  const started = [
    trial({ cores: 1, batch: 1 }, 100, 130),
    trial({ cores: 1, batch: 2 }, 1, 31),
    trial({ cores: 2, batch: 2 }, 120, 150),
  ]

  test('is a measurement where the server that runs is told the values, else a start beside', () => {
    const seconds = trialSeconds({ trials: started, fresh: started }, changes)!
    expect(seconds({ cores: 2, batch: 8 })).toBe(30 + 1)
    expect(seconds({ cores: 1, batch: 8 })).toBe(30 + 110)
  })

  test.each([
    ['nothing is changed on a server that runs', started, undefined],
    ['no parameter is', started, new Set<string>()],
    ['no start was seen yet', [], changes],
    ['none tells its start', [trial({ cores: 1, batch: 1 }, undefined, 30)], changes],
    ['starts take next to nothing', [trial({ cores: 1, batch: 1 }, 1, 30)], changes],
    [
      'the last server is gone',
      [...started, { ...started[0]!, state: 'infeasible' } as FinishedTrial],
      changes,
    ],
  ])('is the same for all where %s', (_, trials, names) => {
    expect(trialSeconds({ trials, fresh: trials }, names)).toBeUndefined()
  })
})

test('no server of an earlier run is there', () => {
  const trials = [trial({ cores: 1, batch: 1 }, 100, 130)]
  expect(trialSeconds({ trials, fresh: trials }, changes)).toBeDefined()
  expect(trialSeconds({ trials, fresh: [] }, changes)).toBeUndefined()
})

describe('the search', () => {
  const ordinal = (
    name: string,
    values: readonly number[],
    more: Partial<OrdinalParameter> = {},
  ): OrdinalParameter => ({
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
  /**
   * What a start decides counts as much as what is set on the server that runs, less, more; or the
   * one depends on the other.
   */
  const landscapes: Readonly<
    Record<string, (cores: number, width: number, batch: number) => number>
  > = {
    'as much': (cores, width, batch) =>
      (400 * cores) /
      (2 + cores) ** 1.1 /
      (1 + 0.15 * Math.log2(batch / 16) ** 2) /
      (1 + 0.05 * (width - 3) ** 2),
    less: (cores, width, batch) =>
      (400 * cores) /
      (2 + cores) /
      (1 + 0.4 * Math.log2(batch / 32) ** 2) /
      (1 + 0.01 * (width - 4) ** 2),
    more: (cores, width, batch) =>
      (400 * cores) /
      (3 + cores) ** 1.2 /
      (1 + 0.01 * Math.log2(batch / 4) ** 2) /
      (1 + 0.2 * (width - 2) ** 2),
    'by the other': (cores, width, batch) => {
      const ridge = Math.log2(batch / 64) + 0.3 * (width - 5)
      return (
        (400 * cores) / (2 + cores) ** 1.1 / (1 + 0.15 * ridge ** 2) / (1 + 0.05 * (width - 5) ** 2)
      )
    },
  }
  const rps = (name: string, { cores, width, batch }: Configuration) =>
    landscapes[name]!(Number(cores), Number(width), Number(batch))
  const costOf = (name: string, c: Configuration) => problem.pricePerHour(c) / rps(name, c)
  const observed = (name: string, configuration: Configuration): Observation => ({
    configuration,
    state: 'complete',
    rate: { value: rps(name, configuration), logSd: 0.02 },
  })
  const [startS, measureS] = [300, 30]

  /** Seconds and starts until a configuration within 3 % of the cheapest was measured. */
  function searched(
    name: string,
    seed: string,
    shares: boolean,
  ): { readonly seconds: number; readonly starts: number } {
    const least = Math.min(...enumerateConfigurations(problem.space).map((c) => costOf(name, c)))
    const trials: FinishedTrial[] = []
    let [seconds, starts] = [0, 0]
    for (let i = 0; i < 60; i++) {
      const observations = trials.map(({ configuration }) => observed(name, configuration))
      const weighed = shares ? trialSeconds({ trials, fresh: trials }, changes) : undefined
      const { configuration } = gpSampler.suggest(
        problem,
        observations,
        [],
        createRng(seed),
        weighed,
      )!
      const before = trials.at(-1)?.configuration
      const started = ['cores', 'width'].some(
        (parameter) => before?.[parameter] !== configuration[parameter],
      )
      const took = measureS + (started ? startS : 1)
      seconds += took
      starts += started ? 1 : 0
      trials.push(trial(configuration, started ? startS : 1, took))
      if (costOf(name, configuration) <= 1.03 * least) return { seconds, starts }
    }
    throw new Error(`${name}, ${seed}: not found`)
  }

  const seeds = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
  const sum = (name: string, shares: boolean, of: 'seconds' | 'starts') =>
    seeds.reduce((total, seed) => total + searched(name, seed, shares)[of], 0)

  test.each(Object.keys(landscapes))(
    'finds what is cheap by fewer starts and in no more time where they decide %s',
    (name) => {
      expect(sum(name, true, 'starts')).toBeLessThan(sum(name, false, 'starts'))
      expect(sum(name, true, 'seconds')).toBeLessThan(sum(name, false, 'seconds'))
    },
  )

  test('saves a fifth of the time over all of them', () => {
    const all = (shares: boolean) =>
      Object.keys(landscapes).reduce((total, name) => total + sum(name, shares, 'seconds'), 0)
    expect(all(true)).toBeLessThan(0.8 * all(false))
  })

  test('chooses as ever where all take the same', () => {
    const observations = [1, 8, 64].flatMap((batch) =>
      [1, 8].map((cores) => observed('as much', { cores, width: 3, batch })),
    )
    const choice = (seconds?: (c: Configuration) => number) =>
      gpSampler.suggest(problem, observations, [], createRng('same'), seconds)!.configuration
    expect(configurationKey(choice(() => 77))).toBe(configurationKey(choice()))
    // What starts anew has to promise as many times more as it takes longer.
    expect(choice(({ cores }) => (cores === 8 ? 1 : 1e9)).cores).toBe(8)
    expect(choice(({ cores }) => (cores === 1 ? 1 : 1e9)).cores).toBe(1)
  })
})

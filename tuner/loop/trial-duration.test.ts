import { describe, expect, test } from 'vitest'
import { createRng } from '../../search/rng.ts'
import { gpSampler } from '../../search/samplers/gp.ts'
import { configurationKey, enumerateConfigurations } from '../../search/space/space.ts'
import type { Configuration, Observation, OrdinalParameter, Problem } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { estimateTrialSeconds } from './trial-duration.ts'

const changeable = new Set(['batch'])
const trial = (
  configuration: Configuration,
  launchSeconds: number | undefined,
  seconds: number,
): FinishedTrial =>
  ({ state: 'complete', configuration, seconds, usage: { launchSeconds } }) as FinishedTrial

describe('the expected duration of a trial', () => {
  const started = [
    trial({ cores: 1, batch: 1 }, 100, 130),
    trial({ cores: 1, batch: 2 }, 1, 31),
    trial({ cores: 2, batch: 2 }, 120, 150),
  ]

  test('includes a start only where the running server cannot be changed', () => {
    const seconds = estimateTrialSeconds({ trials: started, trialsOfProcess: started }, changeable)!
    expect(seconds({ cores: 2, batch: 8 })).toBe(30 + 1)
    expect(seconds({ cores: 1, batch: 8 })).toBe(30 + 110)
  })

  test.each([
    ['the launcher changes nothing on a running server', started, undefined],
    ['no parameter can be changed', started, new Set<string>()],
    ['no start was observed yet', [], changeable],
    ['no trial reports its start', [trial({ cores: 1, batch: 1 }, undefined, 30)], changeable],
    ['starts are short', [trial({ cores: 1, batch: 1 }, 1, 30)], changeable],
    [
      'the last server did not complete its trial',
      [...started, { ...started[0]!, state: 'infeasible' } as FinishedTrial],
      changeable,
    ],
  ])('is equal for all configurations where %s', (_, trials, names) => {
    expect(estimateTrialSeconds({ trials, trialsOfProcess: trials }, names)).toBeUndefined()
  })
})

test('a server of an earlier process is not running', () => {
  const trials = [trial({ cores: 1, batch: 1 }, 100, 130)]
  expect(estimateTrialSeconds({ trials, trialsOfProcess: trials }, changeable)).toBeDefined()
  expect(estimateTrialSeconds({ trials, trialsOfProcess: [] }, changeable)).toBeUndefined()
})

describe('a search with unequal durations', () => {
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
   * Parameters that need a start matter as much as those of a running server, less, or more; or the
   * two interact.
   */
  const landscapes: Readonly<
    Record<string, (cores: number, width: number, batch: number) => number>
  > = {
    equally: (cores, width, batch) =>
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
    'in interaction': (cores, width, batch) => {
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

  interface Search {
    readonly seconds: number
    readonly starts: number
  }
  /** Seconds and starts until a configuration within 3 % of the cheapest was measured. */
  function search(name: string, seed: string, shares: boolean): Search {
    const least = Math.min(...enumerateConfigurations(problem.space).map((c) => costOf(name, c)))
    const trials: FinishedTrial[] = []
    let [seconds, starts] = [0, 0]
    for (let i = 0; i < 60; i++) {
      const observations = trials.map(({ configuration }) => observed(name, configuration))
      const weighed = shares
        ? estimateTrialSeconds({ trials, trialsOfProcess: trials }, changeable)
        : undefined
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
  const searches = new Map<string, Search[]>()
  const sum = (name: string, shares: boolean, of: 'seconds' | 'starts') => {
    const key = `${name}, ${shares}`
    const found = searches.get(key) ?? seeds.map((seed) => search(name, seed, shares))
    searches.set(key, found)
    return found.reduce((total, each) => total + each[of], 0)
  }

  test.each(Object.keys(landscapes))(
    'finds a cheap configuration with fewer starts and in less time where starts matter %s',
    (name) => {
      expect(sum(name, true, 'starts')).toBeLessThan(sum(name, false, 'starts'))
      expect(sum(name, true, 'seconds')).toBeLessThan(sum(name, false, 'seconds'))
    },
  )

  test('takes a fifth less time in total', () => {
    const all = (shares: boolean) =>
      Object.keys(landscapes).reduce((total, name) => total + sum(name, shares, 'seconds'), 0)
    expect(all(true)).toBeLessThan(0.8 * all(false))
  })

  test('is unchanged where all durations are equal', () => {
    const observations = [1, 8, 64].flatMap((batch) =>
      [1, 8].map((cores) => observed('equally', { cores, width: 3, batch })),
    )
    const choice = (seconds?: (c: Configuration) => number) =>
      gpSampler.suggest(problem, observations, [], createRng('same'), seconds)!.configuration
    expect(configurationKey(choice(() => 77))).toBe(configurationKey(choice()))
    // A configuration that takes longer needs a proportionally higher expected improvement.
    expect(choice(({ cores }) => (cores === 8 ? 1 : 1e9)).cores).toBe(8)
    expect(choice(({ cores }) => (cores === 1 ? 1 : 1e9)).cores).toBe(1)
  })
})

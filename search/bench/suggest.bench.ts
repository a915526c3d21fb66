/**
 * `node --import tsx search/bench/suggest.bench.ts`: CPU milliseconds of one suggestion by the default
 * sampler and of one assessment by the stop rule, by size of the space and number of trials. Each
 * follows one more trial, so that it includes the fit.
 */
import { assessStop, createRng, createSampler } from '../index.ts'
import { findCandidates } from '../space/candidates.ts'
import type { Observation, Problem, SearchSpace } from '../types.ts'

const steps = (count: number) => Array.from({ length: count }, (_, i) => i + 1)
const space = (a: number, b: number, c: number): SearchSpace => ({
  parameters: [
    { name: 'cores', category: 'resource', kind: 'ordinal', values: steps(a), scale: 'log' },
    { name: 'batch', category: 'server', kind: 'ordinal', values: steps(b), scale: 'log' },
    { name: 'memory', category: 'resource', kind: 'ordinal', values: steps(c), scale: 'log' },
    {
      name: 'gpu',
      category: 'resource',
      kind: 'categorical',
      values: ['T4', 'L4', 'A10', 'V100', 'A100'],
    },
  ],
  constraints: [],
})
const repetitions = 5
const rng = createRng(1)
/** With a continuous parameter: too large to enumerate. */
const mixed: SearchSpace = {
  parameters: [
    ...space(10, 10, 10).parameters,
    { name: 'share', category: 'resource', kind: 'float', min: 0.1, max: 1, scale: 'log' },
  ],
  constraints: [],
}
const cases: readonly (readonly [name: string, space: SearchSpace, trials: number])[] = [
  ['5,000 configurations', space(10, 10, 10), 20],
  ['5,000 configurations', space(10, 10, 10), 100],
  ['5,000 configurations', space(10, 10, 10), 200],
  ['100,000 configurations', space(20, 32, 31), 100],
  ['three ordered parameters, a name and a real number', mixed, 100],
]
for (const [name, space, trials] of cases) {
  const problem: Problem = {
    space,
    objective: { kind: 'price-per-request' },
    constraintLimit: 40,
    pricePerHour: (c) => 0.05 * Number(c.cores) + 0.01 * Number(c.memory) + 0.3,
  }
  const all = findCandidates(problem, [], rng).configurations
  const observations = Array.from({ length: trials }, (): Observation => {
    const configuration = all[rng.int(all.length)]!
    const ms =
      ((5 + 2 * Number(configuration.batch)) / Math.sqrt(Number(configuration.cores))) *
      Math.exp(0.05 * rng.normal())
    return {
      configuration,
      state: 'complete',
      rate: { value: (1000 * Number(configuration.batch)) / ms },
      constraint: { value: ms },
    }
  })
  const sampler = createSampler('gp')
  const suggestion = measureCpuMs(observations, problem, (soFar, of) =>
    sampler.suggest(of, soFar, [], createRng(soFar.length)),
  )
  const stop = measureCpuMs(observations, problem, (soFar, of) =>
    assessStop(of, soFar, createRng(soFar.length)),
  )
  console.log(
    `${name}, ${trials} trials: suggestion ${suggestion.toFixed(0)} ms, stop rule ${stop.toFixed(0)} ms`,
  )
}

/**
 * Median CPU milliseconds over the last trials. The first repetition fills the caches and is
 * dropped.
 */
function measureCpuMs(
  observations: readonly Observation[],
  problem: Problem,
  run: (soFar: readonly Observation[], problem: Problem) => void,
): number {
  // A new object, because fits are memoised by problem.
  const own = { ...problem }
  const times = Array.from({ length: 1 + repetitions }, (_, i) => {
    const start = process.cpuUsage()
    run(observations.slice(0, observations.length - repetitions + i), own)
    const { user, system } = process.cpuUsage(start)
    return (user + system) / 1000
  })
  return times.slice(1).sort((x, y) => x - y)[(repetitions - 1) / 2]!
}

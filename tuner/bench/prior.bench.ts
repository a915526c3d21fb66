/**
 * `npm run bench:prior [-- --seeds N --only TEXT]`: trials until a configuration within 5 % of the cheapest is found, with the physics prior,
 * without it, and with a deliberately wrong one, on servers whose truth is perturbed within the device model's error.
 */
import { parseArgs } from 'node:util'
import { CAP, scoreRun } from '../../search/bench/score.ts'
import { createRng, createSampler } from '../../search/index.ts'
import type { Configuration, Problem } from '../../search/types.ts'
import { modelErrors, type PerturbedTable, perturbedTable, scenarios } from './perturbed-truth.ts'

const { values: options } = parseArgs({
  options: {
    seeds: { type: 'string', default: '24' },
    only: { type: 'string', default: '' },
    priors: { type: 'string', default: 'none,physics,wrong' },
  },
})
const seeds = Number(options.seeds)
const sampler = createSampler('gp')

/** A model that has everything the wrong way round: large batches hurt, small GPUs and few cores are fast. */
function wrongPrior({ prior, table }: PerturbedTable): Partial<Problem> {
  const logs = table.configurations.flatMap((c) => prior.priorLogRate?.(c) ?? [])
  const middle = logs.reduce((sum, v) => sum + v, 0) / logs.length
  const reversed = (c: Configuration): number | undefined => {
    const value = prior.priorLogRate?.(c)
    return value === undefined ? undefined : 2 * middle - value
  }
  return { priorLogRate: reversed }
}

const priors: Record<string, (drawn: PerturbedTable) => Partial<Problem>> = {
  none: () => ({}),
  physics: ({ prior }) => prior,
  wrong: wrongPrior,
}

console.log(`Errors the truths are drawn with: ${JSON.stringify(modelErrors)}; measurements ± 2 %; ${seeds} seeds; at most ${CAP} trials`)
for (const scenario of scenarios.filter((s) => s.name.includes(options.only))) {
  for (const name of options.priors.split(',')) {
    const trials: number[] = []
    let suggestionS = 0
    for (let seed = 0; seed < seeds; seed++) {
      const drawn = perturbedTable(scenario, createRng(`${scenario.name} truth ${seed}`))
      const problem = { ...drawn.table.problem, ...priors[name]!(drawn) }
      const run = scoreRun({ ...drawn.table, problem }, sampler, createRng(`${scenario.name} ${seed}`), false)
      trials.push(run.trialsToWithin)
      if (process.env.SHOW) console.log(seed, run.trialsToWithin)
      suggestionS += run.secondsPerSuggestion / seeds
    }
    trials.sort((a, b) => a - b)
    const at = (q: number) => trials[Math.min(trials.length - 1, Math.ceil(q * trials.length) - 1)]!
    console.log(
      `${scenario.name.padEnd(32)} prior ${name.padEnd(8)} trials to within 5 %: median ${at(0.5)}  p90 ${at(0.9)}  max ${at(1)}   ${(1000 * suggestionS).toFixed(0)} ms a suggestion`,
    )
  }
}

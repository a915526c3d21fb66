/**
 * `npm run bench:product [-- --seeds N --from N --only TEXT --priors none,physics]`: the search as
 * `tune` poses and ends it. Trials are made into the records that the store keeps, read back as the
 * loop reads them, the stop rule is obeyed, and the winner is the report's: on servers whose truth
 * the device model does not know, and on recorded ones, these also with the prior of a server
 * anchored on five of its cells.
 */
import { parseArgs } from 'node:util'
import { mean } from 'simple-statistics'
import { quantile, trialCap } from '../../search/bench/score.ts'
import { type ErrorSize, scenarios } from './perturbed-truth.ts'
import {
  type PriorName,
  runPerturbed,
  runRecorded,
  type SearchRun,
  WITHIN,
} from './product-search.ts'
import { recordedServers } from './recorded-servers.ts'

const { values: options } = parseArgs({
  options: {
    seeds: { type: 'string', default: '16' },
    from: { type: 'string', default: '0' },
    only: { type: 'string', default: '' },
    priors: { type: 'string', default: 'none,physics,wrong' },
    errors: { type: 'string', default: 'model,unseen' },
  },
})
function summary(problem: string, prior: string, runs: readonly SearchRun[]) {
  const trials = runs.map((r) => r.trialsToWithin)
  const share = (of: number) => `${((100 * of) / runs.length).toFixed(0)} %`
  return {
    problem,
    prior,
    runs: runs.length,
    median: quantile(trials, 0.5),
    p90: quantile(trials, 0.9),
    reached: share(trials.filter((t) => t <= trialCap).length),
    stopped: share(runs.filter((r) => r.stoppedAt).length),
    'stop median': quantile(
      runs.map((r) => r.stoppedAt ?? trialCap),
      0.5,
    ),
    "report's winner right": share(runs.filter((r) => r.excess <= WITHIN).length),
    'dearer, mean': `${(100 * mean(runs.map((r) => Math.min(1, r.excess)))).toFixed(1)} %`,
    'at most': `${(100 * Math.max(...runs.map((r) => r.excess))).toFixed(0)} %`,
  }
}

const rows: object[] = []
const seedNumbers = Array.from(
  { length: Number(options.seeds) },
  (_, i) => Number(options.from) + i,
)
for (const scenario of scenarios.filter((s) => s.name.includes(options.only)))
  for (const errors of options.errors.split(',') as ErrorSize[])
    for (const prior of options.priors.split(',') as PriorName[]) {
      const runs = seedNumbers.map((seed) => runPerturbed(scenario, errors, prior, seed))
      rows.push(summary(`${scenario.name}, errors: ${errors}`, prior, runs))
    }
for (const server of recordedServers().filter((s) => s.name.includes(options.only)))
  for (const prior of ['none', 'anchored'] as const) {
    const runs = seedNumbers.map((seed) => runRecorded(server, prior, seed))
    rows.push(summary(server.name, prior, runs))
  }
console.table(rows)

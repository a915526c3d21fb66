/** The search as `tune` poses and ends it, on servers whose truth the device model does not know. */
import { CAP } from '../../../search/bench/score.ts'
import { type ErrorSize, scenarios } from '../perturbed-truth.ts'
import {
  type PriorName,
  runPerturbed,
  runRecorded,
  type SearchRun,
  WITHIN,
} from '../product-search.ts'
import { recordedServers } from '../recorded-servers.ts'
import { geometricMean, readingsOf, shareRight, shown } from './rows.ts'
import { gateSeeds, seedsFrom } from './seeds.ts'
import type { Part } from './types.ts'

/** Seeds of each server. */
const seeds = 2
const errors: readonly ErrorSize[] = ['model', 'unseen']
const priors: readonly PriorName[] = ['none', 'physics', 'wrong']

interface Search {
  readonly name: string
  readonly run: (seed: number) => SearchRun
}
const searches: readonly Search[] = [
  ...scenarios.flatMap((scenario) =>
    errors.flatMap((size) =>
      priors.map((prior) => ({
        name: `${scenario.name}, errors: ${size}, prior: ${prior}`,
        run: (seed: number) => runPerturbed(scenario, size, prior, seed),
      })),
    ),
  ),
  ...recordedServers().flatMap((server) =>
    (['none', 'anchored'] as const).map((prior) => ({
      name: `${server.name}, prior: ${prior}`,
      run: (seed: number) => runRecorded(server, prior, seed),
    })),
  ),
]

export const productSearch: Part = {
  name: 'product',
  pieceSeconds: 4,
  pieces: searches.length,
  run: async (index) => {
    const { name, run } = searches[index]!
    return Object.fromEntries(
      seedsFrom(gateSeeds.products, seeds).map((seed) => {
        const { excess, stoppedAt } = run(seed)
        return [`${name} ${seed}`, { within: Number(excess <= WITHIN), trials: stoppedAt ?? CAP }]
      }),
    )
  },
  compare: (baseline, now) => [
    shareRight("product's search: winner within 5 %", 'within', baseline, now),
    shown(
      {
        measure: "product's search: trials until it stops, geometric mean",
        baseline: geometricMean(readingsOf(baseline, 'trials')),
        now: geometricMean(readingsOf(now, 'trials')),
        cases: Object.keys(now).length,
      },
      (trials) => `${trials.toFixed(2)} trials`,
    ),
  ],
}

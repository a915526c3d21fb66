/** The search as `tune` poses and ends it, on servers whose truth the device model does not know. */
import { trialCap } from '../../../search/bench/score.ts'
import { type ErrorSize, type Scenario, scenarios } from '../perturbed-truth.ts'
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

const errors: readonly ErrorSize[] = ['model', 'unseen']

interface Search {
  readonly name: string
  readonly seeds: number
  readonly run: (seed: number) => SearchRun
}
const drawn = (
  of: readonly Scenario[],
  priors: readonly PriorName[],
  seeds: number,
): readonly Search[] =>
  of.flatMap((scenario) =>
    errors.flatMap((size) =>
      priors.map((prior) => ({
        name: `${scenario.name}, errors: ${size}, prior: ${prior}`,
        seeds,
        run: (seed: number) => runPerturbed(scenario, size, prior, seed),
      })),
    ),
  )
const isSmall = ({ name }: Scenario) => name.startsWith('morphling')
const searches: readonly Search[] = [
  ...drawn(scenarios.filter(isSmall), ['none', 'physics', 'wrong'], 3),
  // Of 5,000 configurations each: a run takes twelve seconds of a core.
  ...drawn(
    scenarios.filter((scenario) => !isSmall(scenario)),
    ['physics'],
    1,
  ),
  ...recordedServers().map((server) => ({
    name: `${server.name}, prior: anchored`,
    seeds: 3,
    run: (seed: number) => runRecorded(server, 'anchored', seed),
  })),
]

export const productSearch: Part = {
  name: 'product',
  pieceSeconds: 7,
  pieces: searches.length,
  run: async (index) => {
    const { name, seeds, run } = searches[index]!
    return Object.fromEntries(
      seedsFrom(gateSeeds.products, seeds).map((seed) => {
        const { excess, stoppedAt } = run(seed)
        return [
          `${name} ${seed}`,
          { within: Number(excess <= WITHIN), trials: stoppedAt ?? trialCap },
        ]
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

/**
 * The default sampler on recorded tables: of each table the middle limit, families that constants
 * were chosen on and families that were held out.
 */
import { fileURLToPath } from 'node:url'
import { middleTasks, readTasks } from '../../../search/bench/recorded-tables.ts'
import { scoreRun, trialCap } from '../../../search/bench/score.ts'
import { variants } from '../../../search/bench/search-variants.ts'
import { createRng } from '../../../search/index.ts'
import { createRecordedTable } from '../../../search/replay/table.ts'
import { aTenthMore, casesFrom, geometricMean, readingsOf, shareRight, shown } from './rows.ts'
import { gateSeeds, seedsFrom } from './seeds.ts'
import type { Cases, Part, Row } from './types.ts'

const seeds = 8
/** When a run of `tune` ends at the latest by default. */
const maxTrials = 12

const tables = ['tables', 'held-out'].flatMap((folder) =>
  middleTasks(
    readTasks(fileURLToPath(new URL(`../../../search/bench/${folder}`, import.meta.url))),
  ),
)

async function replayTable(index: number): Promise<Cases> {
  const { family, task, rows } = tables[index]!
  const table = createRecordedTable(task, rows)
  return Object.fromEntries(
    seedsFrom(gateSeeds.replays, seeds).map((seed) => {
      const rng = createRng(`${task.name} ${seed}`)
      const { trialsToWithin } = scoreRun(table, variants.gp!, rng, false)
      return [
        `${family}: ${task.name} ${seed}`,
        { trials: trialsToWithin, within12: Number(trialsToWithin <= maxTrials) },
      ]
    }),
  )
}

/** Geometric mean of trials by family. */
const byFamily = (cases: Cases): Map<string, number> =>
  new Map(
    [...new Set(tables.map(({ family }) => family))].map((family) => [
      family,
      geometricMean(readingsOf(casesFrom(cases, `${family}:`), 'trials')),
    ]),
  )

function compare(baseline: Cases, now: Cases): Row[] {
  const cases = Object.keys(now).length
  const [was, is] = [byFamily(baseline), byFamily(now)]
  const ratioOf = (family: string) => is.get(family)! / was.get(family)!
  const worst = [...is.keys()].reduce((worst, family) =>
    ratioOf(family) > ratioOf(worst) ? family : worst,
  )
  return [
    aTenthMore(
      {
        measure: `search: trials to within 5 %, geometric mean over families (${trialCap + 1} where never)`,
        // Every family counts the same, however many tables it has.
        baseline: geometricMean([...was.values()]),
        now: geometricMean([...is.values()]),
        cases,
      },
      'trials',
    ),
    shareRight(`search: runs within 5 % after ${maxTrials} trials`, 'within12', baseline, now),
    shown(
      {
        measure: `search: family that lost most (${worst})`,
        baseline: was.get(worst)!,
        now: is.get(worst)!,
        cases: Object.keys(casesFrom(now, `${worst}:`)).length,
      },
      (trials) => `${trials.toFixed(2)} trials`,
    ),
  ]
}

export const searchOnTables: Part = {
  name: 'search',
  pieceSeconds: 1.5,
  pieces: tables.length,
  run: replayTable,
  compare,
}

/** `npm run bench:search -- --help`: replays recorded tables against every sampler. */

import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { runParallel } from './parallel.ts'
import { type BenchTask, middleTasks, readTasks } from './recorded-tables.ts'
import type { ReplayJob } from './replay-worker.ts'
import { SavedRuns } from './saved-runs.ts'
import { type Calibration, computeCalibration, quantile, type RunScore, trialCap } from './score.ts'
import { variants } from './search-variants.ts'

const help = `Replays recorded tables against every sampler.
  --tables DIR       tables and tasks, any depth         (search/bench/tables)
  --only TEXT        tasks whose name contains TEXT, comma-separated
  --families A,B     runs those families alone; none: reports the saved runs   (all)
  --save FILE        saves each run to FILE and reuses the runs there; reports each family whose runs are complete, so that a long
                     benchmark can be done family by family or resume; another version of the search needs another FILE
  --samplers A,B     ${Object.keys(variants).join(', ')}   (gp)
  --seeds N          runs of each task                   (16)
  --history          with earlier trials of the same table under another limit
  --stop             assess the stop rule after every trial (runs all ${trialCap} trials)
  --middle           only the middle limit of each table
  --workers N        processes                           (2)
  --tasks            also one line for each task
  --json             one JSON document`

const { values: flags } = parseArgs({
  options: {
    tables: { type: 'string', default: fileURLToPath(new URL('./tables', import.meta.url)) },
    only: { type: 'string' },
    families: { type: 'string' },
    save: { type: 'string' },
    samplers: { type: 'string', default: 'gp' },
    seeds: { type: 'string', default: '16' },
    history: { type: 'boolean', default: false },
    stop: { type: 'boolean', default: false },
    tasks: { type: 'boolean', default: false },
    middle: { type: 'boolean', default: false },
    workers: { type: 'string', default: '2' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
if (flags.help) {
  console.log(help)
  process.exit(0)
}

const wanted = flags.only?.split(',')
const tasks = readTasks(flags.tables)
const selected = (flags.middle ? middleTasks(tasks) : tasks).filter(
  (t) => !wanted || wanted.some((w) => t.task.name.includes(w)),
)
const seeds = Number(flags.seeds)
const allFamilies = [...new Set(selected.map((t) => t.family))]
const runFamilies = flags.families?.split(',') ?? allFamilies
for (const family of runFamilies)
  if (![...allFamilies, 'none'].includes(family))
    throw new RangeError(`unknown family '${family}'; known are ${allFamilies.join(', ')}, none`)

interface Line {
  readonly sampler: string
  readonly group: string
  readonly runs: readonly RunScore[]
}
const samplers = flags.samplers.split(',')
for (const name of samplers)
  if (!variants[name])
    throw new RangeError(`unknown sampler '${name}'; known are ${Object.keys(variants).join(', ')}`)
const createJobs = (sampler: string, t: BenchTask): ReplayJob[] =>
  Array.from({ length: seeds }, (_, seed) => ({
    sampler,
    task: t.task.name,
    seed,
    history: flags.history,
    stop: flags.stop,
  }))
const saved = new SavedRuns<ReplayJob, RunScore>(flags.save)
const open = samplers.flatMap((sampler) =>
  selected
    .filter((t) => runFamilies.includes(t.family))
    .flatMap((t) => createJobs(sampler, t))
    .filter((job) => saved.get(job) === undefined),
)
await runParallel<ReplayJob, RunScore>(
  new URL('./replay-worker.ts', import.meta.url),
  [flags.tables],
  open,
  Number(flags.workers),
  (job, score) => saved.add(job, score),
)
const isDone = (t: BenchTask) =>
  samplers.every((sampler) => createJobs(sampler, t).every((job) => saved.get(job) !== undefined))
const families = allFamilies.filter((family) =>
  selected.every((t) => t.family !== family || isDone(t)),
)
const chosen = selected.filter((t) => families.includes(t.family))
const createLines = (sampler: string): Line[] => {
  const of = (belongs: (t: BenchTask) => boolean, group: string): Line => {
    const jobs = chosen.filter(belongs).flatMap((t) => createJobs(sampler, t))
    return { sampler, group, runs: jobs.map((job) => saved.get(job)!) }
  }
  return [
    ...(flags.tasks ? chosen.map((t) => of((other) => other === t, t.task.name)) : []),
    ...families.map((family) => of((t) => t.family === family, family)),
    of(() => true, 'all'),
  ]
}
const lines = samplers.flatMap(createLines)

const percent = (share: number) => (100 * share).toFixed(1)
function summary({ sampler, group, runs }: Line) {
  const trials = runs.map((r) => r.trialsToWithin)
  const stops = runs.flatMap((r) => r.stop ?? [])
  const regret = (at: 10 | 20 | 30) =>
    percent(
      quantile(
        runs.map((r) => r.regret[at]),
        0.5,
      ),
    )
  return {
    sampler,
    group,
    runs: runs.length,
    median: quantile(trials, 0.5),
    mean: (trials.reduce((a, b) => a + b, 0) / trials.length).toFixed(1),
    p90: quantile(trials, 0.9),
    'reached %': percent(trials.filter((t) => t <= trialCap).length / runs.length),
    ...(flags.stop
      ? {
          'regret@10 %': regret(10),
          'regret@20 %': regret(20),
          'regret@30 %': regret(30),
          'stopped %': percent(stops.length / runs.length),
          'stops hold %': percent(stops.filter((s) => s.holds).length / Math.max(1, stops.length)),
          'and right %': percent(stops.filter((s) => s.right).length / Math.max(1, stops.length)),
          'stop median': quantile(
            runs.map((r) => r.stop?.trial ?? trialCap),
            0.5,
          ),
        }
      : {}),
    'ms/suggestion': (
      1000 *
      quantile(
        runs.map((r) => r.secondsPerSuggestion),
        0.5,
      )
    ).toFixed(1),
  }
}
if (flags.json)
  console.log(
    JSON.stringify({
      cap: trialCap,
      seeds,
      history: flags.history,
      results: lines.map((l) => ({ ...summary(l), scores: l.runs })),
    }),
  )
else {
  console.table(lines.map(summary))
  if (flags.stop) {
    const ofSampler = createLines(samplers[0]!)
    console.log('An untried configuration is more than 5 % cheaper: stated and true, %')
    console.table(computeCalibration(ofSampler.at(-1)!.runs).map(toPercent))
    console.log('The same by family, where at most 10 % is stated and a search may end')
    console.table(
      ofSampler.flatMap(({ group, runs }) =>
        computeCalibration(runs, [0.1]).map((row) => ({ group, ...toPercent(row) })),
      ),
    )
    console.log('The same by family, after every trial')
    console.table(
      ofSampler.flatMap(({ group, runs }) =>
        computeCalibration(runs, [1]).map((row) => ({ group, ...toPercent(row) })),
      ),
    )
  }
}

function toPercent({ upTo, trials, ...shares }: Calibration) {
  return {
    upTo,
    trials,
    ...Object.fromEntries(Object.entries(shares).map(([name, share]) => [name, percent(share)])),
  }
}

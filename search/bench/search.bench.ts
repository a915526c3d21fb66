/** `npm run bench:search -- --help`: replays recorded tables against every sampler. */

import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { recordedTable } from '../replay-table.ts'
import { createRng } from '../rng.ts'
import { type BenchTask, readTasks } from './recorded-tables.ts'
import { CAP, quantile, type RunScore, scoreRun } from './score.ts'
import { variants } from './search-variants.ts'

const help = `Replays recorded tables against every sampler.
  --tables DIR       tables and tasks, any depth         (search/bench/recorded-tables)
  --only TEXT        tasks whose name contains TEXT, comma-separated
  --samplers A,B     ${Object.keys(variants).join(', ')}   (gp)
  --seeds N          runs of each task                   (16)
  --history          other tables of the family are past experiments
  --stop             ask the stop rule after every trial (runs all ${CAP} trials)
  --tasks            one line a task too
  --json             one JSON document`

const { values: flags } = parseArgs({
  options: {
    tables: { type: 'string', default: fileURLToPath(new URL('./tables', import.meta.url)) },
    only: { type: 'string' },
    samplers: { type: 'string', default: 'gp' },
    seeds: { type: 'string', default: '16' },
    history: { type: 'boolean', default: false },
    stop: { type: 'boolean', default: false },
    tasks: { type: 'boolean', default: false },
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
const chosen = tasks.filter((t) => !wanted || wanted.some((w) => t.task.name.includes(w)))
const seeds = Number(flags.seeds)

interface Line {
  readonly sampler: string
  readonly group: string
  readonly runs: readonly RunScore[]
}
const lines: Line[] = []
for (const name of flags.samplers.split(',')) {
  const variant = variants[name]
  if (!variant) throw new RangeError(`unknown sampler '${name}'; known are ${Object.keys(variants).join(', ')}`)
  const byTask = chosen.map((t): Line & { family: string } => {
    const table = recordedTable(t.task, t.rows)
    const problem = { ...table.problem, ...(flags.history ? { history: historyOf(t) } : {}) }
    const runs = Array.from({ length: seeds }, (_, seed) =>
      scoreRun({ ...table, problem }, variant, createRng(`${t.task.name} ${seed}`), flags.stop),
    )
    return { sampler: name, group: t.task.name, family: t.family, runs }
  })
  const families = [...new Set(byTask.map((l) => l.family))]
  const pooled = families.map(
    (family): Line => ({ sampler: name, group: family, runs: byTask.filter((l) => l.family === family).flatMap((l) => l.runs) }),
  )
  lines.push(...(flags.tasks ? byTask : []), ...pooled, { sampler: name, group: 'all', runs: byTask.flatMap((l) => l.runs) })
}

/** All other tables of the family; another limit on the same table would give the answer away. */
function historyOf(task: BenchTask) {
  const others = new Map(tasks.filter((t) => t.family === task.family && t.table !== task.table).map((t) => [t.table, t]))
  return [...others.values()].map((t) => {
    const { problem, configurations, measure } = recordedTable(t.task, t.rows)
    return {
      name: t.table,
      space: problem.space,
      observations: configurations.map((c) => measure(c)),
      pricePerHour: problem.pricePerHour,
      constraintLimit: problem.constraintLimit,
    }
  })
}

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
    'reached %': percent(trials.filter((t) => t <= CAP).length / runs.length),
    ...(flags.stop
      ? {
          'regret@10 %': regret(10),
          'regret@20 %': regret(20),
          'regret@30 %': regret(30),
          'stopped %': percent(stops.length / runs.length),
          'stops hold %': percent(stops.filter((s) => s.holds).length / Math.max(1, stops.length)),
          'and right %': percent(stops.filter((s) => s.right).length / Math.max(1, stops.length)),
          'stop median': quantile(
            runs.map((r) => r.stop?.trial ?? CAP),
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
  console.log(JSON.stringify({ cap: CAP, seeds, history: flags.history, results: lines.map((l) => ({ ...summary(l), scores: l.runs })) }))
else console.table(lines.map(summary))

/** A worker process of the benchmark: replays one job for each message. */
import { createRecordedTable } from '../replay/table.ts'
import { createRng } from '../rng.ts'
import { replayEarlierTrials } from './earlier-trials.ts'
import { readTasks } from './recorded-tables.ts'
import { type RunScore, scoreRun } from './score.ts'
import { variants } from './search-variants.ts'

/** One seed of one task with one sampler. */
export interface ReplayJob {
  readonly sampler: string
  readonly task: string
  readonly seed: number
  readonly history: boolean
  readonly stop: boolean
}

const tasks = readTasks(process.argv[2]!)

function run({ sampler, task: name, seed, history, stop }: ReplayJob): RunScore {
  const task = tasks.find((t) => t.task.name === name)!
  const table = createRecordedTable(task.task, task.rows)
  const rng = createRng(`${name} ${seed}`)
  const problem = {
    ...table.problem,
    ...(history && { earlier: replayEarlierTrials(task, tasks, rng.fork('history')) }),
  }
  return scoreRun({ ...table, problem }, variants[sampler]!, rng, stop)
}

process.on('message', (job: ReplayJob) => process.send!(run(job)))

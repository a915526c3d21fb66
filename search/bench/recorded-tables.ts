import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { ReplayRow, ReplayTask } from '../replay/task.ts'
import features from './gpu-features.json' with { type: 'json' }

export interface BenchTask {
  readonly family: string
  readonly task: ReplayTask
  readonly table: string
  readonly rows: readonly ReplayRow[]
}

/**
 * Every `NAME@SLO.json` below a folder with the table it names; the folder a task lies in is its
 * family. Names of known GPUs get their datasheet's features.
 */
export function readTasks(folder: string): BenchTask[] {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return files
    .filter((file) => file.endsWith('.json') && file.includes('@'))
    .sort()
    .map((file) => {
      const path = join(folder, file)
      const task = JSON.parse(readFileSync(path, 'utf8')) as ReplayTask & { table: string }
      const table = join(dirname(path), task.table)
      const parameters = task.parameters.map((p) =>
        p.kind === 'categorical' ? { features: gpuFeatures(p.values), ...p } : p,
      )
      return {
        family: basename(dirname(path)),
        task: { ...task, parameters },
        table,
        rows: parseCsv(readFileSync(table, 'utf8')),
      }
    })
}

/** Of each table the task with the middle limit, the stricter of two. */
export function middleTasks(tasks: readonly BenchTask[]): BenchTask[] {
  return [...new Set(tasks.map((t) => t.table))].map((table) => {
    const ofTable = tasks
      .filter((t) => t.table === table)
      .sort((a, b) => a.task.constraint.max - b.task.constraint.max)
    return ofTable[Math.floor((ofTable.length - 1) / 2)]!
  })
}

/** Plain CSV without quoting, as the tables are. */
export function parseCsv(text: string): ReplayRow[] {
  const [header, ...lines] = text.trim().split(/\r?\n/)
  const columns = header!.split(',')
  return lines.map((line) =>
    Object.fromEntries(line.split(',').map((cell, i) => [columns[i]!, cell])),
  )
}

/**
 * [ln bandwidth, ln fp16 peak] by name and alias, out of the GPU catalogue (a test there holds the
 * two together); undefined where a name is no GPU's.
 */
function gpuFeatures(
  names: readonly string[],
): Readonly<Record<string, readonly number[]>> | undefined {
  const known: Readonly<Record<string, readonly number[]>> = features
  return names.every((name) => known[name])
    ? Object.fromEntries(names.map((name) => [name, known[name]!]))
    : undefined
}

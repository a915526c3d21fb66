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
 * Every task `NAME@SLO.json` below a folder with its table. A task's folder is its family. GPU
 * names get the features of their data sheets.
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
        p.kind === 'categorical' ? { features: findGpuFeatures(p.values), ...p } : p,
      )
      return {
        family: basename(dirname(path)),
        task: { ...task, parameters },
        table,
        rows: parseCsv(readFileSync(table, 'utf8')),
      }
    })
}

/** For each table the task with the middle limit, the stricter of two. */
export function middleTasks(tasks: readonly BenchTask[]): BenchTask[] {
  return [...new Set(tasks.map((t) => t.table))].map((table) => {
    const ofTable = tasks
      .filter((t) => t.table === table)
      .sort((a, b) => a.task.constraint.max - b.task.constraint.max)
    return ofTable[Math.floor((ofTable.length - 1) / 2)]!
  })
}

/** Parses CSV without quotes. */
export function parseCsv(text: string): ReplayRow[] {
  const [header, ...lines] = text.trim().split(/\r?\n/)
  const columns = header!.split(',')
  return lines.map((line) =>
    Object.fromEntries(line.split(',').map((cell, i) => [columns[i]!, cell])),
  )
}

/**
 * [ln bandwidth, ln fp16 peak] of each GPU by name or alias, from the GPU catalogue (a test there
 * compares the two). Undefined where a name is not a GPU.
 */
function findGpuFeatures(
  names: readonly string[],
): Readonly<Record<string, readonly number[]>> | undefined {
  const known: Readonly<Record<string, readonly number[]>> = features
  return names.every((name) => known[name])
    ? Object.fromEntries(names.map((name) => [name, known[name]!]))
    : undefined
}

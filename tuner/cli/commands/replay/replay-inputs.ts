/**
 * Reads recorded measurements: the user's own table with its task, or results of other tools with
 * an SLO.
 */
import { dirname, join } from 'node:path'
import { significant } from '../../../../reports/format.ts'
import { type Recording, readOwnTable } from '../../../../reports/imports/own-table.ts'
import {
  parseReplayTask,
  type ReplayTaskFile,
} from '../../../../reports/imports/replay-task-schema.ts'
import { importResults, toolNames } from '../../../../reports/imports/tool-results.ts'
import {
  computeTrueLogCosts,
  createRecordedTable,
  type RecordedTable,
} from '../../../../search/replay/table.ts'
import { taskObjectives } from '../../../../search/replay/task.ts'
import { defaults } from '../../../config/names.ts'
import { listLimits, parseSlo } from '../../../config/values/parse-slo.ts'
import { parseMoney, parsePercentile, parseShare } from '../../../config/values/units.ts'
import { createUsageError } from '../../../exit-codes.ts'
import { readGivenFile } from '../../../given-file.ts'

export interface InputFlags {
  readonly task?: string
  readonly slo?: string
  readonly pricePerHour?: string
}

export function readRecording(files: readonly string[], flags: InputFlags): Recording {
  return flags.task === undefined
    ? readToolResults(files, flags)
    : readTaskTable(files, flags.task, flags)
}

const readSource = (file: string, flag: string) => ({
  file,
  text: readGivenFile(file, 'the file', flag, 'table'),
})

function readTaskTable(
  files: readonly string[],
  path: string,
  { slo, pricePerHour }: InputFlags,
): Recording {
  if (slo !== undefined || pricePerHour !== undefined)
    throw createUsageError(
      `${slo === undefined ? '--price-per-hour' : '--slo'} applies to results of other tools, but a task has its own`,
      'leave it out, or change constraint or price in the task',
    )
  if (files.length > 1) throw createUsageError('a task describes one table', 'pass one file')
  const task = parseReplayTask(readSource(path, '--task'))
  const table = files[0] ?? (task.table && join(dirname(path), task.table))
  if (table === undefined)
    throw createUsageError(
      'no table',
      `run tune replay FILE --task ${path}, or set table: FILE in the task`,
    )
  const recording = readOwnTable(task, readSource(table, 'FILE'))
  return {
    ...recording,
    notes: [
      ...recording.notes,
      ...listTaskMismatches(path, task, createRecordedTable(recording.task, recording.rows)),
    ],
  }
}

/** Figures in the task that differ from the table. */
function listTaskMismatches(path: string, task: ReplayTaskFile, recorded: RecordedTable): string[] {
  const costs = [...computeTrueLogCosts(recorded).values()].filter((cost) => Number.isFinite(cost))
  const minLogCost = costs.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY)
  const actual = {
    configurations: recorded.configurations.length,
    feasible: costs.length,
    within5Percent: costs.filter((cost) => cost <= minLogCost + Math.log(1.05)).length,
  }
  const keys = Object.keys(actual) as (keyof typeof actual)[]
  const differing = keys.filter((key) => task[key] !== undefined && task[key] !== actual[key])
  const best = Math.exp(minLogCost) / taskObjectives[task.objective].costFactor
  const costDiffers = task.bestCost !== undefined && !(Math.abs(best / task.bestCost - 1) < 1e-3)
  return [
    ...differing.map((key) => `${path}: ${key} is ${task[key]}, but the table has ${actual[key]}`),
    ...(costDiffers
      ? [`${path}: bestCost is ${task.bestCost}, but the table has ${significant(best)}`]
      : []),
  ]
}

function readToolResults(files: readonly string[], { slo, pricePerHour }: InputFlags): Recording {
  if (files.length === 0)
    throw createUsageError(
      'no table',
      `run tune replay TABLE --task TASK, or tune replay RESULTS --slo 50ms with results of ${toolNames.join(', ')}`,
    )
  const entry = slo === undefined ? undefined : parseSlo(slo)
  const [limit, ...more] = entry ? listLimits(entry) : []
  if (more.length > 0)
    throw createUsageError(
      'results of other tools have no joint percentile, but --slo has several limits',
      "use one limit, e.g. 50ms or 'ttft p95<300ms'",
    )
  return importResults(
    files.map((file) => readSource(file, 'FILE')),
    {
      metric: limit?.metric ?? 'e2e',
      percentile: entry?.percentile ?? parsePercentile(defaults.percentile),
      ...(limit && { limitMs: limit.limitMs }),
      pricePerHour: parseMoney(pricePerHour ?? '$1'),
      maxErrorRate: parseShare(defaults.errorRate),
    },
  )
}

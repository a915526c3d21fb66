/** `tune replay`: the search looks measurements up in a recorded table instead of making them. */

import { z } from 'zod'
import { significant, writing } from '../../../reports/format.ts'
import { type Imported, type ImportOptions, importTritonTable } from '../../../reports/imports/model-analyzer.ts'
import { parseCsv } from '../../../reports/report/csv.ts'
import { bestObservation, createRng, createSampler, observedLogCost } from '../../../search/index.ts'
import { costText } from '../../../search/objective.ts'
import { type RecordedTable, type ReplayRow, type ReplayTask, recordedTable, replay, trueLogCosts } from '../../../search/replay-table.ts'
import type { Configuration, Observation } from '../../../search/types.ts'
import { gpuFeatures } from '../../../trials/devices/features.ts'
import { parseYaml } from '../../../trials/yaml.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import { defaults } from '../../experiment/names.ts'
import { parseSlo } from '../../experiment/parse-slo.ts'
import { parseMoney, parsePercentile } from '../../experiment/units.ts'
import { givenText } from '../../given-file.ts'
import { table as columns } from '../../render/columns.ts'
import { glyph, styleOf } from '../../render/glyphs.ts'

export interface ReplayFlags {
  readonly table: string
  readonly task?: string
  readonly slo?: string
  readonly pricePerHour?: string
  readonly sampler: string
  readonly maxTrials: string
  readonly seed: string
  readonly json?: boolean
}

const name = z.string().min(1)
const features = z.record(z.string(), z.array(z.number()))

/** The file behind --task. */
const replayTaskSchema = z.object({
  name: name.default('recorded table'),
  parameters: z
    .array(
      z.discriminatedUnion('kind', [
        z.object({ kind: z.literal('ordinal'), name, values: z.array(z.number()).min(1) }),
        z.object({ kind: z.literal('categorical'), name, values: z.array(z.string()).min(1), features: features.optional() }),
      ]),
    )
    .min(1),
  price: name.meta({ description: 'column of the price per hour' }),
  objective: z.enum(['price', 'pricePerRequest']),
  constraint: z.object({ metric: name, max: z.number() }),
  infeasibleColumn: name.nullish(),
  rate: name.optional().meta({ description: 'column of the served rate, requests per second' }),
  relativeNoise: z.number().min(0).optional(),
  source: z.string().optional(),
})

export async function replayTable(flags: ReplayFlags): Promise<number> {
  const { task, recorded } = await load(flags)
  const maxTrials = wholeNumber(flags.maxTrials, '--max-trials')
  const seed = wholeNumber(flags.seed, '--seed')
  const { observations, assessments } = replay(recorded, createSampler(flags.sampler), createRng(seed), { maxTrials })
  const { problem } = recorded
  const found = bestObservation(problem, observations)?.configuration
  const best = observations.find((o) => o.configuration === found)
  const costs = trueLogCosts(recorded)
  const least = Math.min(...costs.values())
  const regret = best ? Math.exp(observedLogCost(problem, recorded.measure(best.configuration)) - least) - 1 : undefined
  const probabilityBetterExists = assessments.at(-1)?.probabilityBetterExists
  if (flags.json) {
    const trials = observations.map((o) => ({ ...o, cost: costOf(recorded, o) }))
    const recommended = best && { configuration: best.configuration, cost: costOf(recorded, best) }
    const document = {
      schema: 'tune.replay/v1',
      task: task.name,
      seed,
      configurations: recorded.configurations.length,
      trials,
      recommended,
      regret,
      probabilityBetterExists,
    }
    process.stdout.write(`${JSON.stringify(document, null, 2)}\n`)
  } else {
    process.stdout.write(`${lines(task, recorded, observations, best, regret, probabilityBetterExists).join('\n')}\n`)
  }
  return best ? exitCodes.ok : exitCodes.sloUnmet
}

async function load({ table, task: path, slo, pricePerHour }: ReplayFlags): Promise<{ task: ReplayTask; recorded: RecordedTable }> {
  const text = givenText(table, 'the file', '--table', 'data')
  if (path !== undefined) {
    const given: ReplayTask = parseYaml(givenText(path, 'the file', '--task', 'data'), path, replayTaskSchema)
    const task = {
      ...given,
      parameters: given.parameters.map((p) => (p.kind === 'categorical' ? { features: gpuFeatures(p.values), ...p } : p)),
    }
    return { task, recorded: tableOf(task, text, table) }
  }
  if (slo === undefined)
    throw new UserError(
      'what the table means is not known',
      "give --task FILE, or --slo for a table of Model Analyzer's or perf_analyzer's",
      exitCodes.usage,
    )
  const limit = parseSlo(slo)
  if (limit.limit === undefined)
    throw new UserError('a table has one latency, and --slo names several', "give one limit, e.g. 50ms or 'p95<80ms'", exitCodes.usage)
  const imported = importTable(table, text, {
    percentile: limit.percentile ?? parsePercentile(defaults.percentile),
    limitMs: limit.limit,
    pricePerHour: parseMoney(pricePerHour ?? '$1'),
  })
  return { task: imported.task, recorded: recordedTable(imported.task, imported.rows) }
}

function importTable(path: string, text: string, options: ImportOptions): Imported {
  const hint = 'Model Analyzer writes metrics-model-inference.csv, perf_analyzer -f FILE; for other tables give --task'
  try {
    const imported = importTritonTable(text, options)
    if (imported) return imported
  } catch (error) {
    if (error instanceof SyntaxError) throw new UserError(`${path}: ${error.message}`, hint, exitCodes.usage)
    throw error
  }
  throw new UserError(`${path} is a table of neither Model Analyzer nor perf_analyzer`, hint, exitCodes.usage)
}

function tableOf(task: ReplayTask, text: string, path: string): RecordedTable {
  const [header, ...rows] = parseCsv(text)
  if (!header) throw new UserError(`${path} is empty`, 'the first row names the columns', exitCodes.usage)
  const named = rows.map((row): ReplayRow => Object.fromEntries(header.map((column, i) => [column, row[i] ?? ''])))
  try {
    return recordedTable(task, named)
  } catch (error) {
    throw new UserError(
      `${path}: ${(error as Error).message}`,
      'every parameter and metric of the task is a column of the table',
      exitCodes.usage,
    )
  }
}

function wholeNumber(text: string, flag: string): number {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1)
    throw new UserError(`${flag} must be a whole number above 0, not ${text}`, undefined, exitCodes.usage)
  return value
}

/** In the unit of the objective; undefined for what does not meet the constraint. */
function costOf(recorded: RecordedTable, observation: Observation): number | undefined {
  const cost = Math.exp(observedLogCost(recorded.problem, observation))
  return Number.isFinite(cost) ? cost : undefined
}

/** '$0.11 per million requests'. */
function costWords({ problem }: RecordedTable, { configuration, ...observation }: Observation, cost: number): string {
  const capacityRps = observation.state === 'complete' ? (observation.rate?.value ?? 0) : 0
  return costText(problem.objective, { cost, pricePerHour: problem.pricePerHour(configuration), capacityRps }, writing)
}

function lines(
  task: ReplayTask,
  recorded: RecordedTable,
  observations: readonly Observation[],
  best: Observation | undefined,
  regret: number | undefined,
  probabilityBetterExists: number | undefined,
): string[] {
  const style = styleOf(process.stdout, process.env)
  const rows = observations.map((o, i) => {
    const cost = costOf(recorded, o)
    const outcome =
      o.state === 'infeasible'
        ? o.reason
        : cost === undefined
          ? `${task.constraint.metric} ${significant(o.constraint?.value ?? Number.NaN)} is over ${task.constraint.max}`
          : costWords(recorded, o, cost)
    return [o === best ? glyph('best', style) : ' ', `${i + 1}`, words(o.configuration), outcome]
  })
  const certainty =
    probabilityBetterExists === undefined ? '' : `; P(something untried is more than 5 % better) = ${significant(probabilityBetterExists)}`
  const verdict = best
    ? `${words(best.configuration)}: ${costWords(recorded, best, costOf(recorded, best) ?? Number.NaN)}, found in ${observations.length} of ${recorded.configurations.length} recorded configurations${certainty}`
    : `nothing looked up keeps ${task.constraint.metric} <= ${task.constraint.max}`
  const table =
    regret === undefined ? [] : [`The table's own best is ${regret < 1e-9 ? 'this one' : `${significant(regret * 100)} % cheaper`}.`]
  return [...columns(rows), '', verdict, ...table]
}

const words = (configuration: Configuration) =>
  Object.entries(configuration)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ')

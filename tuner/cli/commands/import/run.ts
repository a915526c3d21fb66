/** `tune import`: stores results of other load testers as an experiment. Runs no trials. */
import { existsSync } from 'node:fs'
import { importTrials } from '../../../../reports/imports/imported-trials.ts'
import { createRecommendationJson } from '../../../../reports/report/recommendation-json.ts'
import type { Configuration } from '../../../../search/types.ts'
import { sourceParameter } from '../../../../trials/resources.ts'
import { type Source, TableError } from '../../../../trials/table-text.ts'
import type { ExperimentRecord, FinishedTrial } from '../../../../trials/types.ts'
import { loadExperiment } from '../../../config/load-experiment.ts'
import { defaults } from '../../../config/names.ts'
import { findKnownParameter } from '../../../config/parameters.ts'
import type { Experiment } from '../../../config/types.ts'
import { parseSloText } from '../../../config/values/parse-slo.ts'
import { parseShare, UnitError } from '../../../config/values/units.ts'
import { createUsageError, exitCodes, UserError } from '../../../exit-codes.ts'
import { readGivenFile } from '../../../given-file.ts'
import { createExperimentId, createRecord } from '../../../loop/experiment-record.ts'
import { createUnlimitedHost, reevaluate } from '../../../loop/reevaluation.ts'
import { countColumns } from '../../render/columns.ts'
import { detectStyle } from '../../render/glyphs.ts'
import { formatResult } from '../../render/results.ts'
import { openWritableStore } from '../open-existing.ts'

export interface ImportFlags {
  readonly db: string
  readonly slo: string
  readonly on?: string
  readonly oneServer?: boolean
  readonly model?: string
  readonly name?: string
  readonly rps?: string
  readonly prices?: string
  readonly json?: boolean
}

type ImportedTrials = ReturnType<typeof importTrials>

/** Each configuration is one transaction of the store. */
const maxConfigurations = 10_000

/**
 * Returns the exit code.
 * @throws TableError, ConfigError and UserError
 */
export async function importFiles(paths: readonly string[], flags: ImportFlags): Promise<number> {
  const slo = parseSloText(flags.slo, parseShare(defaults.errorRate))
  if (slo.limits)
    throw createUsageError(
      'results of other tools have no joint percentile, but --slo has several limits',
      "use one limit, e.g. 50ms or 'ttft p95<300ms'",
    )
  const on = flags.on === undefined ? {} : parseSettings(flags.on, '--on')
  const imported = readAll(paths, (files) => importTrials(files, slo, flags.oneServer === true), on)
  checkImport(imported, flags)
  const model = flags.model ?? imported.model
  if (model === undefined)
    throw createUsageError('the files do not contain the name of the model', 'set it: --model bert')
  const experiment = buildExperiment(imported, model, flags)
  const trials = buildTrials(imported, new Date().toISOString())
  const record: ExperimentRecord = {
    ...createRecord(experiment, createExperimentId(experiment.name)),
    state: 'done',
  }
  const { recommendation } = await reevaluate({ experiment: record, trials })
  await storeExperiment(record, trials, recommendation, flags.db)
  if (flags.json) process.stdout.write(createRecommendationJson(recommendation))
  else {
    const lines = formatResult(
      recommendation,
      [],
      detectStyle(process.stdout, process.env),
      countColumns(process.stdout),
    )
    process.stdout.write(`${lines.slice(1).join('\n')}\n`)
  }
  return exitCodes.ok
}

/** Reads all files, and reports the problems of all of them at once. */
function readAll(
  paths: readonly string[],
  read: (files: readonly { source: Source; configuration: Configuration }[]) => ImportedTrials,
  on: Configuration,
): ImportedTrials {
  const problems: TableError['problems'][number][] = []
  const files = paths.flatMap((word) => {
    const { file, values } = parseFileArgument(word)
    try {
      return [
        {
          source: { file, text: readGivenFile(file, 'the file', 'FILE', 'table') },
          configuration: { ...on, ...values },
        },
      ]
    } catch (error) {
      if (!(error instanceof UserError)) throw error
      problems.push({
        where: file,
        what: error.message,
        ...(error.hint === undefined ? {} : { hint: error.hint }),
      })
      return []
    }
  })
  try {
    if (files.length > 0 || problems.length === 0) {
      const imported = read(files)
      if (problems.length === 0) return imported
    }
  } catch (error) {
    if (!(error instanceof TableError)) throw error
    problems.push(...error.problems)
  }
  throw new TableError(problems)
}

/** 'gpu=L4,batchSize=8@run.json', or only a file. */
function parseFileArgument(word: string): { file: string; values: Configuration } {
  const [, values, file] = /^([A-Za-z_]\w*=[^@]*)@(.+)$/s.exec(word) ?? []
  if (values === undefined || file === undefined || existsSync(word))
    return { file: word, values: {} }
  return { file, values: parseSettings(values, file) }
}

/** 'gpu=L4,cpuCores=4' */
function parseSettings(text: string, where: string): Configuration {
  return Object.fromEntries(
    text.split(',').map((pair) => {
      const [, name, value] = /^\s*([A-Za-z_][\w.-]*)\s*=\s*(\S.*?)\s*$/.exec(pair) ?? []
      if (name === undefined || value === undefined || name === sourceParameter)
        throw createUsageError(`${where}: '${pair}' has no value`, 'write gpu=T4,cpuCores=4')
      return [name, parseSetting(name, value, where)]
    }),
  )
}

function parseSetting(name: string, text: string, where: string): number | string {
  if (Number.isFinite(Number(text))) return Number(text)
  try {
    return findKnownParameter(name)?.parse?.(text) ?? text
  } catch (error) {
    if (!(error instanceof UnitError)) throw error
    throw createUsageError(`${where}: ${name}: ${error.message}`, error.hint)
  }
}

/** Rejects imports that are too large, or without the resources that set the price. */
function checkImport({ trials }: ImportedTrials, { on }: ImportFlags): void {
  if (trials.length > maxConfigurations)
    throw createUsageError(
      `${trials.length} configurations exceed the maximum of ${maxConfigurations} per import`,
      'import fewer files',
    )
  const unpriced = trials.find(
    ({ configuration }) => configuration.gpu === undefined && configuration.cpuCores === undefined,
  )
  if (unpriced !== undefined)
    throw createUsageError(
      `the resources of the server of ${unpriced.configuration[sourceParameter]} are unknown, so it has no price`,
      on === undefined
        ? 'set them: --on gpu=T4,cpuCores=4, or gpu=T4@FILE if files differ'
        : 'set gpu or cpuCores: --on gpu=T4,cpuCores=4',
    )
}

function buildExperiment(
  { trials, from, language }: ImportedTrials,
  model: string,
  flags: ImportFlags,
): Experiment {
  const names = new Set(trials.flatMap(({ configuration }) => Object.keys(configuration)))
  names.delete(sourceParameter)
  const space = Object.fromEntries(
    [...names].map((name) => {
      const values = [...new Set(trials.flatMap(({ configuration }) => configuration[name] ?? []))]
      const numbers = values.every((value) => typeof value === 'number')
      const sorted = numbers ? values.sort((a, b) => a - b) : values.map(String)
      return [
        name,
        { values: sorted, ...(findKnownParameter(name) ? {} : { category: 'server' as const }) },
      ]
    }),
  )
  return loadExperiment({
    ...createUnlimitedHost(),
    isStored: true,
    given: {
      name: flags.name ?? model,
      model: { name: model },
      slo: flags.slo,
      predictor: {
        kind: 'imported',
        from: [...from],
        ...(language && { protocol: 'openai' as const }),
      },
      space,
      budget: { maxTrials: trials.length },
      ...(flags.rps !== undefined && { demand: flags.rps }),
      ...(flags.prices !== undefined && { prices: flags.prices }),
      db: flags.db,
    },
  })
}

const buildTrials = ({ trials }: ImportedTrials, startedAt: string): FinishedTrial[] =>
  trials.map(({ configuration, measurement, usage: used, why }, i) => ({
    number: i + 1,
    configuration,
    why,
    startedAt,
    state: 'complete',
    measurement,
    seconds: measurement.seconds,
    ...(used && { usage: used }),
  }))

async function storeExperiment(
  { state: _, ...record }: ExperimentRecord,
  trials: readonly FinishedTrial[],
  result: unknown,
  db: string,
): Promise<void> {
  const store = await openWritableStore(db)
  try {
    await store.create(record)
    for (const trial of trials) await store.append(record.id, trial)
    await store.finish(record.id, 'done', result)
  } finally {
    await store.close()
  }
}

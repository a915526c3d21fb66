/** `tune replay`: the search looks up measurements in a recorded table. */

import { createRecordedTable, type RecordedTable } from '../../../../search/replay/table.ts'
import type { ReplayTask } from '../../../../search/replay/task.ts'
import { samplerNames } from '../../../../search/samplers/sampler-names.ts'
import { parseShare } from '../../../config/values/units.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { showStatusLine } from '../../render/columns.ts'
import { detectStyle } from '../../render/glyphs.ts'
import { type InputFlags, readRecording } from './replay-inputs.ts'
import {
  computeCost,
  computeTrueCosts,
  type LookUps,
  type ReplayOptions,
  type SeedRun,
  searchAtRandom,
  searchTable,
  summariseLookUps,
} from './replay-outcome.ts'
import { formatReplay, type ReplayReport } from './replay-text.ts'

export interface ReplayFlags extends InputFlags {
  readonly sampler: string
  readonly maxTrials: string
  readonly noise?: string
  readonly seed: string
  readonly seeds: string
  readonly json?: boolean
}

/**
 * The command.
 * @returns the exit code
 */
export async function runReplay(files: readonly string[], flags: ReplayFlags): Promise<number> {
  const noise = flags.noise === undefined ? 0 : parseShare(flags.noise)
  const options: ReplayOptions = {
    sampler: parseSampler(flags.sampler),
    maxTrials: parseWholeNumber(flags.maxTrials, '--max-trials'),
    noisy: noise > 0,
  }
  const [seed, seeds] = [
    parseWholeNumber(flags.seed, '--seed'),
    parseWholeNumber(flags.seeds, '--seeds'),
  ]
  const recording = readRecording(files, flags)
  for (const note of recording.notes) process.stderr.write(`${note}\n`)
  const task: ReplayTask = noise > 0 ? { ...recording.task, relativeNoise: noise } : recording.task
  const recorded = createRecordedTable(task, recording.rows)
  const truth = computeTrueCosts(recorded)
  const seedNumbers = Array.from({ length: seeds }, (_, i) => seed + i)
  const runs = seedNumbers.map((seedNumber) => {
    if (seeds > 1) showStatusLine(`seed ${seedNumber - seed + 1} of ${seeds}`)
    return searchTable(recorded, truth, seedNumber, options)
  })
  showStatusLine('')
  const lookUps = truth.feasible > 0 && {
    seeds,
    ours: summariseLookUps(runs.map((run) => run.lookUpsToWithin5Percent)),
    random: summariseLookUps(
      seedNumbers.map((seedNumber) => searchAtRandom(recorded, truth, seedNumber, options)),
    ),
  }
  const report: ReplayReport = {
    task,
    recorded,
    truth,
    run: runs[0]!,
    noise,
    maxTrials: options.maxTrials,
    sampler: options.sampler,
    ...(lookUps && { lookUps }),
  }
  const document = () => JSON.stringify(replayDocument(report, runs, recording.notes), null, 2)
  process.stdout.write(
    `${flags.json ? document() : formatReplay(report, detectStyle(process.stdout, process.env)).join('\n')}\n`,
  )
  return runs[0]!.regret === undefined ? exitCodes.sloUnmet : exitCodes.ok
}

/** The document of `tune replay --json`: 'tune.replay/v1'. */
function replayDocument(
  { task, recorded, truth, run, noise, maxTrials, sampler, lookUps }: ReplayReport,
  runs: readonly SeedRun[],
  notes: readonly string[],
) {
  const toJsonLookUps = ({ median, p90, reached }: LookUps) => ({
    median: toJsonNumber(median),
    p90: toJsonNumber(p90),
    reached,
  })
  return {
    schema: 'tune.replay/v1',
    task: task.name,
    sampler,
    seed: run.seed,
    maxTrials,
    noise,
    configurations: recorded.configurations.length,
    meetingTheLimit: truth.feasible,
    notes,
    trials: run.observations.map((o) => ({ ...o, cost: computeCost(recorded, o) })),
    recommended: pickRecommended(recorded, run),
    regret: run.regret,
    probabilityBetterExists: run.probabilityBetterExists,
    ...(lookUps && {
      within5Percent: {
        seeds: lookUps.seeds,
        search: toJsonLookUps(lookUps.ours),
        random: toJsonLookUps(lookUps.random),
      },
    }),
    runs: runs.map((one) => ({
      seed: one.seed,
      lookUps: one.observations.length,
      lookUpsToWithin5Percent: toJsonNumber(one.lookUpsToWithin5Percent),
      recommended: pickRecommended(recorded, one),
      regret: one.regret,
    })),
  }
}

const toJsonNumber = (value: number): number | null => (Number.isFinite(value) ? value : null)
const pickRecommended = (recorded: RecordedTable, { best }: SeedRun) =>
  best && { configuration: best.configuration, cost: computeCost(recorded, best) }

function parseSampler(name: string): string {
  if (samplerNames.some((known) => known === name)) return name
  throw new UserError(
    `--sampler: '${name}' is not a sampler`,
    `use one of ${samplerNames.join(', ')}`,
    exitCodes.usage,
  )
}

function parseWholeNumber(text: string, flag: string): number {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1)
    throw new UserError(
      `${flag} must be a whole number above 0, not ${text}`,
      undefined,
      exitCodes.usage,
    )
  return value
}

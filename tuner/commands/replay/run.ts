/** `tune replay`: the search looks measurements up in a recorded table instead of making them. */

import { createRecordedTable, type RecordedTable } from '../../../search/replay/table.ts'
import type { ReplayTask } from '../../../search/replay/task.ts'
import { samplerNames } from '../../../search/samplers/sampler-names.ts'
import { parseShare } from '../../config/units.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import { styleOf } from '../../render/glyphs.ts'
import { sayInPassing } from '../../render/passing-line.ts'
import { type InputFlags, readRecording } from './replay-inputs.ts'
import {
  costOf,
  type LookUps,
  type ReplayOptions,
  type SeedRun,
  searchAtRandom,
  searchTable,
  summary,
  truthOf,
} from './replay-outcome.ts'
import { replayText, type Told } from './replay-text.ts'

export interface ReplayFlags extends InputFlags {
  readonly sampler: string
  readonly maxTrials: string
  readonly noise?: string
  readonly seed: string
  readonly seeds: string
  readonly json?: boolean
}

/** The command. Returns the exit code. */
export async function replayFiles(files: readonly string[], flags: ReplayFlags): Promise<number> {
  const noise = flags.noise === undefined ? 0 : parseShare(flags.noise)
  const options: ReplayOptions = {
    sampler: knownSampler(flags.sampler),
    maxTrials: wholeNumber(flags.maxTrials, '--max-trials'),
    noisy: noise > 0,
  }
  const [seed, seeds] = [wholeNumber(flags.seed, '--seed'), wholeNumber(flags.seeds, '--seeds')]
  const recording = readRecording(files, flags)
  for (const note of recording.notes) process.stderr.write(`${note}\n`)
  const task: ReplayTask = noise > 0 ? { ...recording.task, relativeNoise: noise } : recording.task
  const recorded = createRecordedTable(task, recording.rows)
  const truth = truthOf(recorded)
  const all = Array.from({ length: seeds }, (_, i) => seed + i)
  const runs = all.map((one) => {
    if (seeds > 1) sayInPassing(`seed ${one - seed + 1} of ${seeds}`)
    return searchTable(recorded, truth, one, options)
  })
  sayInPassing('')
  const lookUps = truth.feasible > 0 && {
    seeds,
    ours: summary(runs.map((run) => run.lookUpsToWithin)),
    random: summary(all.map((one) => searchAtRandom(recorded, truth, one, options))),
  }
  const told: Told = {
    task,
    recorded,
    truth,
    run: runs[0]!,
    noise,
    maxTrials: options.maxTrials,
    sampler: options.sampler,
    ...(lookUps && { lookUps }),
  }
  const document = () => JSON.stringify(replayDocument(told, runs, recording.notes), null, 2)
  process.stdout.write(
    `${flags.json ? document() : replayText(told, styleOf(process.stdout, process.env)).join('\n')}\n`,
  )
  return runs[0]!.regret === undefined ? exitCodes.sloUnmet : exitCodes.ok
}

/** The document of `tune replay --json`: 'tune.replay/v1'. */
function replayDocument(
  { task, recorded, truth, run, noise, maxTrials, sampler, lookUps }: Told,
  runs: readonly SeedRun[],
  notes: readonly string[],
) {
  const plain = ({ median, p90, reached }: LookUps) => ({
    median: finite(median),
    p90: finite(p90),
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
    keepingTheLimit: truth.feasible,
    notes,
    trials: run.observations.map((o) => ({ ...o, cost: costOf(recorded, o) })),
    recommended: recommendedIn(recorded, run),
    regret: run.regret,
    probabilityBetterExists: run.probabilityBetterExists,
    ...(lookUps && {
      within5Percent: {
        seeds: lookUps.seeds,
        search: plain(lookUps.ours),
        random: plain(lookUps.random),
      },
    }),
    runs: runs.map((one) => ({
      seed: one.seed,
      lookUps: one.observations.length,
      lookUpsToWithin5Percent: finite(one.lookUpsToWithin),
      recommended: recommendedIn(recorded, one),
      regret: one.regret,
    })),
  }
}

const finite = (value: number): number | null => (Number.isFinite(value) ? value : null)
const recommendedIn = (recorded: RecordedTable, { best }: SeedRun) =>
  best && { configuration: best.configuration, cost: costOf(recorded, best) }

function knownSampler(name: string): string {
  if (samplerNames.some((known) => known === name)) return name
  throw new UserError(
    `--sampler: '${name}' is not a sampler`,
    `use one of ${samplerNames.join(', ')}`,
    exitCodes.usage,
  )
}

function wholeNumber(text: string, flag: string): number {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1)
    throw new UserError(
      `${flag} must be a whole number above 0, not ${text}`,
      undefined,
      exitCodes.usage,
    )
  return value
}

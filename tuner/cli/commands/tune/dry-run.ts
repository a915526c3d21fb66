/**
 * `--dry-run`: prints the experiment with origins, the expected time and the first suggestions.
 * Starts and writes nothing.
 */

import { existsSync } from 'node:fs'
import { money } from '../../../../reports/format.ts'
import type { Configuration } from '../../../../search/types.ts'
import type { MachineFacts } from '../../../../trials/machine/machine-facts.ts'
import { createMemoryStore } from '../../../../trials/store/index.ts'
import { describeExperiment } from '../../../config/describe-experiment.ts'
import type { Experiment } from '../../../config/types.ts'
import { exitCodes } from '../../../exit-codes.ts'
import type { LoopParts } from '../../../loop/parts.ts'
import { assemble } from '../../../run/assemble.ts'
import { formatCount, formatDuration, formatSpaceSize, formatTable } from '../../render/columns.ts'
import { openExistingStore } from '../open-existing.ts'
import {
  compareExperiments,
  estimateRunTime,
  evidenceLevels,
  noEarlierTrials,
} from './time-estimate.ts'

/** Suggestions that are shown: those of the initial design, before any measurement. */
const maxSuggestions = 5

export async function runDry(
  experiment: Experiment,
  machine: MachineFacts,
  flags: { json?: boolean },
): Promise<number> {
  const parts = await assemble(experiment, 'dry-run', createMemoryStore(), machine)
  try {
    const suggestions = listFirstSuggestions(
      parts,
      Math.min(maxSuggestions, experiment.budget.maxTrials),
    )
    const time = estimateRunTime(experiment, parts.spaceSize, await findEarlierTrials(experiment))
    const rows = suggestions.map(({ configuration, why }) => ({
      configuration,
      label: parts.label(configuration),
      pricePerHour: parts.problem.pricePerHour(configuration),
      why,
    }))
    if (flags.json) {
      const document = {
        experiment: experiment.document,
        spaceSize: parts.spaceSize,
        expectedSeconds: time.expectedSeconds,
        maxSeconds: time.maxSeconds,
        partsSeconds: time.parts,
        timeBasis: time.basis,
        notices: parts.notices,
        suggestions: rows,
      }
      process.stdout.write(`${JSON.stringify(document, null, 2)}\n`)
      return exitCodes.ok
    }
    const config = describeExperiment(experiment)
    const trials = Math.min(experiment.budget.maxTrials, parts.spaceSize)
    const lines = [
      ...parts.notices,
      '',
      ...formatTable(config.map((row) => [row.path, row.value, row.origin])),
      '',
      `At most ${formatCount(trials, 'trial')} of ${formatSpaceSize(parts.spaceSize)}${experiment.confirm ? ', and a confirmation' : ''}: about ${formatDuration(time.expectedSeconds)}${trials > 1 ? ' if all are run' : ''}, at most ${formatDuration(time.maxSeconds)} (${time.basis}).`,
      'First trials:',
      ...formatTable(
        rows.map((row, i) => [`  ${i + 1}`, row.label, `${money(row.pricePerHour)}/h`, row.why]),
      ),
      'Nothing was started.',
    ]
    process.stdout.write(`${lines.join('\n')}\n`)
    return exitCodes.ok
  } finally {
    await parts.backend.close()
  }
}

/**
 * Trials of the newest experiment with the same server that gives the best evidence. An unreadable
 * store is reported when the experiment runs.
 */
async function findEarlierTrials(
  experiment: Experiment,
): Promise<Parameters<typeof estimateRunTime>[2]> {
  if (!existsSync(experiment.dbPath)) return noEarlierTrials
  const store = await openExistingStore(experiment.dbPath)
  try {
    const newestFirst = [...(await store.list())].sort((a, b) =>
      b.createdAt.localeCompare(a.createdAt),
    )
    for (const level of evidenceLevels) {
      for (const record of newestFirst) {
        if (compareExperiments(record, experiment) !== level) continue
        const trials =
          (await store.load(record.id))?.trials.filter(({ state }) => state === 'complete') ?? []
        if (trials.length > 0) return { trials, level }
      }
    }
    return noEarlierTrials
  } finally {
    await store.close()
  }
}

function listFirstSuggestions(
  parts: LoopParts,
  count: number,
): { configuration: Configuration; why: string }[] {
  const planned: { configuration: Configuration; why: string }[] = []
  if (parts.defaultConfiguration)
    planned.push({
      configuration: parts.defaultConfiguration,
      why: 'baseline (default configuration)',
    })
  while (planned.length < count) {
    const pending = planned.map((f) => f.configuration)
    const next = parts.sampler.suggest(parts.problem, [], pending, parts.rng)
    if (!next) break
    planned.push({ configuration: next.configuration, why: next.why })
  }
  return planned
}

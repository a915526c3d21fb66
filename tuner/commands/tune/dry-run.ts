/**
 * `--dry-run`: what would be run, from where the values came, and the first suggestions. Nothing is
 * started or written.
 */

import { existsSync } from 'node:fs'
import { money } from '../../../reports/format.ts'
import type { Configuration } from '../../../search/types.ts'
import type { MachineFacts } from '../../../trials/machine/machine-facts.ts'
import { createMemoryStore } from '../../../trials/store/index.ts'
import { assemble } from '../../backends/assemble.ts'
import { describeExperiment } from '../../config/describe-experiment.ts'
import type { Experiment } from '../../config/types.ts'
import { exitCodes } from '../../exit-codes.ts'
import type { LoopParts } from '../../loop/parts.ts'
import { counted, duration, spaceText, table } from '../../render/columns.ts'
import { openExisting } from '../open-existing.ts'
import { expectedTime, neverStarted, tellings, toldBy } from './expected-time.ts'

/** Suggestions shown: those that do not depend on what is measured. */
const shown = 5

export async function dryRun(
  experiment: Experiment,
  machine: MachineFacts,
  flags: { json?: boolean },
): Promise<number> {
  const parts = await assemble(experiment, 'dry-run', createMemoryStore(), machine)
  try {
    const suggestions = firstSuggestions(parts, Math.min(shown, experiment.budget.maxTrials))
    const time = expectedTime(experiment, parts.spaceSize, await earlierTrials(experiment))
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
        aboutSeconds: time.aboutSeconds,
        atMostSeconds: time.atMostSeconds,
        partsSeconds: time.parts,
        timeFrom: time.said,
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
      ...table(config.map((row) => [row.path, row.value, row.origin])),
      '',
      `At most ${counted(trials, 'trial')} of ${spaceText(parts.spaceSize)}${experiment.confirm ? ', and a confirmation' : ''}: about ${duration(time.aboutSeconds)}${trials > 1 ? ' if all are run' : ''}, at most ${duration(time.atMostSeconds)} (${time.said}).`,
      'First trials:',
      ...table(
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
 * Of the newest experiment that ran the same server, the one that tells most. A store that cannot
 * be read is told of when one is run.
 */
async function earlierTrials(experiment: Experiment): Promise<Parameters<typeof expectedTime>[2]> {
  if (!existsSync(experiment.dbPath)) return neverStarted
  const store = await openExisting(experiment.dbPath)
  try {
    const newestFirst = [...(await store.list())].sort((a, b) =>
      b.createdAt.localeCompare(a.createdAt),
    )
    for (const tells of tellings) {
      for (const record of newestFirst) {
        if (toldBy(record, experiment) !== tells) continue
        const trials =
          (await store.load(record.id))?.trials.filter(({ state }) => state === 'complete') ?? []
        if (trials.length > 0) return { trials, tells }
      }
    }
    return neverStarted
  } finally {
    await store.close()
  }
}

function firstSuggestions(
  parts: LoopParts,
  count: number,
): { configuration: Configuration; why: string }[] {
  const found: { configuration: Configuration; why: string }[] = []
  if (parts.defaultConfiguration)
    found.push({
      configuration: parts.defaultConfiguration,
      why: 'baseline (default configuration)',
    })
  while (found.length < count) {
    const pending = found.map((f) => f.configuration)
    const next = parts.sampler.suggest(parts.problem, [], pending, parts.rng)
    if (!next) break
    found.push({ configuration: next.configuration, why: next.why })
  }
  return found
}

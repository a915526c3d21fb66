/** `--dry-run`: what would be run, from where the values came, and the first suggestions. Nothing is started or written. */

import { money } from '../../../reports/format.ts'
import type { Configuration } from '../../../search/types.ts'
import type { MachineFacts } from '../../../trials/machine/machine-facts.ts'
import { memoryStore } from '../../../trials/store/index.ts'
import { assemble } from '../../backends/assemble.ts'
import { exitCodes } from '../../exit-codes.ts'
import { describeExperiment } from '../../experiment/experiment-document.ts'
import type { Experiment } from '../../experiment/types.ts'
import type { LoopParts } from '../../loop/parts.ts'
import { duration, table } from '../../render/columns.ts'

/** Suggestions shown: those that do not depend on what is measured. */
const shown = 5

/** Launch, warm-up and stop of a trial beside its load, seconds; from runs of the built-in predictor. */
const overheadSeconds = 3.5

export async function dryRun(experiment: Experiment, machine: MachineFacts, flags: { json?: boolean }): Promise<number> {
  const parts = await assemble(experiment, 'dry-run', memoryStore(), machine)
  try {
    const suggestions = firstSuggestions(parts, Math.min(shown, experiment.budget.maxTrials))
    const trialSeconds = experiment.load.trialSeconds + overheadSeconds
    const atMost =
      (experiment.budget.maxTrials * trialSeconds) / experiment.parallel +
      (experiment.confirm ? experiment.load.confirmSeconds + overheadSeconds : 0)
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
        atMostSeconds: atMost,
        notices: parts.notices,
        suggestions: rows,
      }
      process.stdout.write(`${JSON.stringify(document, null, 2)}\n`)
      return exitCodes.ok
    }
    const config = describeExperiment(experiment)
    const size = Number.isFinite(parts.spaceSize) ? `${parts.spaceSize.toLocaleString('en-US')} configurations` : 'a continuous space'
    const lines = [
      ...parts.notices,
      '',
      ...table(config.map((row) => [row.path, row.value, row.origin])),
      '',
      `At most ${experiment.budget.maxTrials} trials of ${size}, at most ${duration(atMost)}. It would start with:`,
      ...table(rows.map((row, i) => [`  ${i + 1}`, row.label, `${money(row.pricePerHour)}/h`, row.why])),
      'Nothing was started.',
    ]
    process.stdout.write(`${lines.join('\n')}\n`)
    return exitCodes.ok
  } finally {
    await parts.backend.close()
  }
}

function firstSuggestions(parts: LoopParts, count: number): { configuration: Configuration; why: string }[] {
  const found: { configuration: Configuration; why: string }[] = []
  if (parts.defaultConfiguration) found.push({ configuration: parts.defaultConfiguration, why: 'default configuration, the yardstick' })
  while (found.length < count) {
    const pending = found.map((f) => f.configuration)
    const next = parts.sampler.suggest(parts.problem, [], pending, parts.rng)
    if (!next) break
    found.push({ configuration: next.configuration, why: next.why })
  }
  return found
}

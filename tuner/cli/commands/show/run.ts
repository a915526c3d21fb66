/**
 * `tune show`: prints a stored experiment, re-ranked under its own or another SLO, demand or price
 * book. Runs no trials.
 */
import { createRecommendationJson } from '../../../../reports/report/recommendation-json.ts'
import { configurationKey } from '../../../../search/space/space.ts'
import { experimentItself } from '../../../../trials/annotation.ts'
import type { FinishedTrial } from '../../../../trials/types.ts'
import { resolveExitCode } from '../../../exit-codes.ts'
import { formatAnnotation } from '../../render/annotation-lines.ts'
import { countColumns, wrapText } from '../../render/columns.ts'
import { detectStyle } from '../../render/glyphs.ts'
import { formatResult } from '../../render/results.ts'
import { formatTrial } from '../../render/trial-line.ts'
import { reopenExperiment } from '../reopen-experiment.ts'

export interface ShowFlags {
  readonly db: string
  readonly slo?: string
  readonly rps?: string
  readonly headroom?: string
  readonly minQuality?: string
  readonly prices?: string
  readonly json?: boolean
}

export async function show(id: string | undefined, options: ShowFlags): Promise<number> {
  const { record, trials, recommendation, pricePerHour, label, annotations } =
    await reopenExperiment(id, options)
  if (options.json) process.stdout.write(createRecommendationJson(recommendation))
  else {
    const style = detectStyle(process.stdout, process.env)
    const columns = countColumns(process.stdout)
    const attempts = numberAttempts(trials)
    const lines = trials.flatMap((trial) => {
      const { mark, text } = formatTrial(
        {
          trial,
          label: label(trial.configuration),
          pricePerHour: pricePerHour(trial.configuration),
          attempt: attempts.get(trial) ?? 1,
        },
        style,
      )
      return [
        ...wrapText(`${mark} ${text}`, columns),
        ...formatAnnotation(annotations.get(trial.number), '    '),
      ]
    })
    const head = `${record.id}: ${record.name}, ${record.state}, ${record.provenance}, ${record.createdAt.slice(0, 16).replace('T', ' ')}`
    process.stdout.write(
      `${[head, ...formatAnnotation(annotations.get(experimentItself)), ...lines, ...formatResult(recommendation, [], style, columns)].join('\n')}\n`,
    )
  }
  return resolveExitCode(recommendation)
}

/** Numbers the attempts at each configuration from 1, for each trial of the search. */
function numberAttempts(trials: readonly FinishedTrial[]): ReadonlyMap<FinishedTrial, number> {
  const counts = new Map<string, number>()
  const numbers = new Map<FinishedTrial, number>()
  for (const trial of trials) {
    if (trial.purpose === 'confirmation') continue
    const key = configurationKey(trial.configuration)
    const attempt = (counts.get(key) ?? 0) + 1
    counts.set(key, attempt)
    numbers.set(trial, attempt)
  }
  return numbers
}

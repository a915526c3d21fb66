/**
 * `tune show`: a stored experiment seen again, under its own or another SLO, demand or price book.
 * Runs nothing.
 */
import { recommendationJson } from '../../../reports/report/recommendation-json.ts'
import { configurationKey } from '../../../search/space/space.ts'
import { experimentItself } from '../../../trials/annotation.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import { exitCodeOf } from '../../exit-codes.ts'
import { annotationLines } from '../../render/annotation-lines.ts'
import { columnsOf, wrap } from '../../render/columns.ts'
import { styleOf } from '../../render/glyphs.ts'
import { resultLines } from '../../render/results.ts'
import { trialLine } from '../../render/trial-line.ts'
import { reopen } from '../reopened.ts'

export interface ShowOptions {
  readonly db: string
  readonly slo?: string
  readonly rps?: string
  readonly headroom?: string
  readonly minQuality?: string
  readonly prices?: string
  readonly json?: boolean
}

export async function show(id: string | undefined, options: ShowOptions): Promise<number> {
  const { record, trials, recommendation, pricePerHour, label, annotations } = await reopen(
    id,
    options,
  )
  if (options.json) process.stdout.write(recommendationJson(recommendation))
  else {
    const style = styleOf(process.stdout, process.env)
    const columns = columnsOf(process.stdout)
    const attempts = numberAttempts(trials)
    const lines = trials.flatMap((trial) => {
      const { mark, text } = trialLine(
        {
          trial,
          label: label(trial.configuration),
          pricePerHour: pricePerHour(trial.configuration),
          attempt: attempts.get(trial) ?? 1,
        },
        style,
      )
      return [
        ...wrap(`${mark} ${text}`, columns),
        ...annotationLines(annotations.get(trial.number), '    '),
      ]
    })
    const head = `${record.id}: ${record.name}, ${record.state}, ${record.provenance}, ${record.createdAt.slice(0, 16).replace('T', ' ')}`
    process.stdout.write(
      `${[head, ...annotationLines(annotations.get(experimentItself)), ...lines, ...resultLines(recommendation, [], style, columns)].join('\n')}\n`,
    )
  }
  return exitCodeOf(recommendation)
}

/** For each trial of the search, which attempt at its configuration it was, from 1. */
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

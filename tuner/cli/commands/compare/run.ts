/** `tune compare`: compares recommendations with the first one. Runs no trials. */
import {
  type Best,
  type Change,
  changeText,
  computeChange,
  formatBestCost,
  listDifferentConditions,
  listDifferentQuestions,
} from '../../../../reports/comparison/comparison.ts'
import { rateInterval, sloName, sloText, sloValue } from '../../../../reports/format.ts'
import { describeStatus } from '../../../../reports/recommendation/describe-status.ts'
import {
  estimateText,
  formatCapacity,
  nameInterval,
} from '../../../../reports/recommendation/words.ts'
import type { RecommendationDocument } from '../../../../reports/report/recommendation-json.ts'
import { exitCodes } from '../../../exit-codes.ts'
import { countColumns, formatCount, wrapText } from '../../render/columns.ts'
import { loadRecommendation } from '../load-recommendation.ts'
import { type ReopenFlags, reopenExperiment } from '../reopen-experiment.ts'

export interface CompareFlags extends ReopenFlags {
  readonly json?: boolean
}

interface Side {
  readonly name: string
  readonly document: RecommendationDocument
  /** Differences of SLO, objective or prices from the first. */
  readonly questions: readonly string[]
  readonly circumstances: readonly string[]
  readonly change?: Change
}

/**
 * A single experiment is compared with the newest.
 * @returns the exit code
 * @throws UserError
 */
export async function compare(idsOrFiles: readonly string[], flags: CompareFlags): Promise<number> {
  const names =
    idsOrFiles.length > 1
      ? idsOrFiles
      : [...idsOrFiles, (await reopenExperiment(undefined, flags)).record.id]
  const documents: RecommendationDocument[] = []
  for (const name of names) documents.push(await loadRecommendation(name, flags, 'the arguments'))
  const [first] = documents
  const sides = documents.map((document, i): Side => {
    const questions = i === 0 ? [] : listDifferentQuestions(first!, document)
    const change =
      i === 0 || questions.length > 0 ? undefined : computeChange(first!, document, 'measured')
    return {
      name: names[i]!,
      document,
      questions,
      circumstances: i === 0 ? [] : listDifferentConditions(first!, document),
      ...(change && { change }),
    }
  })
  if (flags.json) process.stdout.write(`${JSON.stringify(sides.map(toJson), null, 2)}\n`)
  else
    process.stdout.write(
      `${sides.flatMap((side) => formatSide(side, names[0]!, countColumns(process.stdout))).join('\n')}\n`,
    )
  return exitCodes.ok
}

const toJson = ({ name, document, questions, circumstances, change }: Side) => {
  const { slo, objective, conclusion, best, trials, provenance } = document
  return {
    name,
    slo,
    objective,
    conclusion,
    provenance,
    trials,
    best,
    differentQuestions: questions,
    differentConditions: circumstances,
    change,
  }
}

function formatSide(
  { name, document, questions, circumstances, change }: Side,
  first: string,
  columns: number,
): string[] {
  const { slo, best, provenance, trials, verdict } = document
  const head = `${name}: ${sloText(slo)}, ${provenance}, ${formatCount(trials, 'trial')}`
  const resultLines = best
    ? [
        `${describeStatus(best.status, provenance).name}: ${best.label}`,
        formatFigures(document, best),
      ]
    : [verdict]
  const lines = [
    ...resultLines,
    ...(change
      ? [
          `${changeText(change, document)} than ${first}${isTied(change) ? ', statistically tied' : ''}`,
        ]
      : []),
    ...questions.map((text) => `not comparable: ${text}`),
    ...circumstances.map((text) => `different conditions: ${text}`),
  ]
  return [
    ...wrapText(head, columns, '    '),
    ...lines.flatMap((line) => wrapText(line, columns - 2).map((part) => `  ${part}`)),
  ]
}

/** '7,635 req/s at p99 13 ms, $0.066 per million requests (90 %: 7,635 to 8,610 req/s)' */
function formatFigures(document: RecommendationDocument, best: Best): string {
  const { slo } = document
  const { sloMsAtCapacity } = best
  const at = sloMsAtCapacity === null ? '' : ` at ${sloName(slo)} ${sloValue(slo, sloMsAtCapacity)}`
  return `${formatCapacity({ ...best, capacityCi90Rps: toInterval(best.capacityCi90Rps) })}${at}, ${formatBestCost(document)}${formatInterval(best)}`
}

/** JSON has no infinity. */
const toInterval = ([low, high]: Best['capacityCi90Rps']) =>
  [low ?? 0, high ?? Number.POSITIVE_INFINITY] as const

/** ' (estimate 236 [221 to 249] req/s)', or the interval of a measured figure. */
function formatInterval({ status, bound, estimateRps, capacityCi90Rps: ends }: Best): string {
  const capacityCi90Rps = toInterval(ends)
  return estimateRps === undefined
    ? ` (${nameInterval({ status })}: ${rateInterval(capacityCi90Rps)} req/s)`
    : ` (estimate ${estimateText({ estimateRps, bound, capacityCi90Rps })} req/s)`
}

const isTied = ({ interval90: [low, high] }: Change): boolean => low <= 0 && high >= 0

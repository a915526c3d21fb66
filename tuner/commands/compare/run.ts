/** `tune compare`: recommendations side by side, the later ones against the first. Runs nothing. */
import {
  type Best,
  bestCostText,
  type Change,
  changeText,
  computeChange,
  listDifferentConditions,
  listDifferentQuestions,
} from '../../../reports/comparison/comparison.ts'
import { rateInterval, sloName, sloText, sloValue } from '../../../reports/format.ts'
import { describeStatus } from '../../../reports/recommendation/describe-status.ts'
import { capacityText, estimateText, intervalName } from '../../../reports/recommendation/words.ts'
import type { RecommendationDocument } from '../../../reports/report/recommendation-json.ts'
import { exitCodes } from '../../exit-codes.ts'
import { columnsOf, counted, wrap } from '../../render/columns.ts'
import { recommended } from '../recommended.ts'
import { type ReopenFlags, reopen } from '../reopened.ts'

export interface CompareFlags extends ReopenFlags {
  readonly json?: boolean
}

interface Side {
  readonly name: string
  readonly document: RecommendationDocument
  /** Against the first. */
  readonly questions: readonly string[]
  readonly circumstances: readonly string[]
  readonly change?: Change
}

/** One alone is compared with the newest. Returns the exit code. @throws UserError */
export async function compare(given: readonly string[], flags: CompareFlags): Promise<number> {
  const names = given.length > 1 ? given : [...given, (await reopen(undefined, flags)).record.id]
  const documents: RecommendationDocument[] = []
  for (const name of names) documents.push(await recommended(name, flags, 'the arguments'))
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
  if (flags.json) process.stdout.write(`${JSON.stringify(sides.map(jsonOf), null, 2)}\n`)
  else
    process.stdout.write(
      `${sides.flatMap((side) => linesOf(side, names[0]!, columnsOf(process.stdout))).join('\n')}\n`,
    )
  return exitCodes.ok
}

const jsonOf = ({ name, document, questions, circumstances, change }: Side) => {
  const { slo, objective, conclusion, best, trials, provenance } = document
  return {
    name,
    slo,
    objective,
    conclusion,
    provenance,
    trials,
    best,
    otherQuestions: questions,
    otherCircumstances: circumstances,
    change,
  }
}

function linesOf(
  { name, document, questions, circumstances, change }: Side,
  first: string,
  columns: number,
): string[] {
  const { slo, best, provenance, trials, verdict } = document
  const head = `${name}: ${sloText(slo)}, ${provenance}, ${counted(trials, 'trial')}`
  const found = best
    ? [`${describeStatus(best.status, provenance).name}: ${best.label}`, figures(document, best)]
    : [verdict]
  const lines = [
    ...found,
    ...(change
      ? [
          `${changeText(change, document)} than ${first}${isOpen(change) ? ', statistically tied' : ''}`,
        ]
      : []),
    ...questions.map((text) => `not comparable: ${text}`),
    ...circumstances.map((text) => `different conditions: ${text}`),
  ]
  return [
    ...wrap(head, columns, '    '),
    ...lines.flatMap((line) => wrap(line, columns - 2).map((part) => `  ${part}`)),
  ]
}

/** '7,635 req/s at p99 13 ms, $0.066 per million requests (90 %: 7,635 to 8,610 req/s)' */
function figures(document: RecommendationDocument, best: Best): string {
  const { slo } = document
  const { sloMsAtCapacity } = best
  const at = sloMsAtCapacity === null ? '' : ` at ${sloName(slo)} ${sloValue(slo, sloMsAtCapacity)}`
  return `${capacityText({ ...best, capacityCi90Rps: withoutNull(best.capacityCi90Rps) })}${at}, ${bestCostText(document)}${interval(best)}`
}

/** JSON has no infinity. */
const withoutNull = ([low, high]: Best['capacityCi90Rps']) =>
  [low ?? 0, high ?? Number.POSITIVE_INFINITY] as const

/** ', estimate 236 [221 to 249] req/s'; of other figures the interval. */
function interval({ status, bound, estimateRps, capacityCi90Rps: ends }: Best): string {
  const capacityCi90Rps = withoutNull(ends)
  return estimateRps === undefined
    ? ` (${intervalName({ status })}: ${rateInterval(capacityCi90Rps)} req/s)`
    : ` (estimate ${estimateText({ estimateRps, bound, capacityCi90Rps })} req/s)`
}

const isOpen = ({ interval90: [low, high] }: Change): boolean => low <= 0 && high >= 0

/** Formats the result of a run for the terminal: ranked table, details, verdict. */

import { money, rate, significant, sloFigure, sloName, sloValue } from '../../../reports/format.ts'
import { listCandidates } from '../../../reports/recommendation/candidates.ts'
import { describeStatus } from '../../../reports/recommendation/describe-status.ts'
import { describePredictionError } from '../../../reports/recommendation/prediction-error.ts'
import { describeRelaxedSlo } from '../../../reports/recommendation/relaxed-slo.ts'
import { describeStage } from '../../../reports/recommendation/stages.ts'
import {
  formatWindow,
  listLatencyRows,
  rateRows,
} from '../../../reports/recommendation/token-text.ts'
import {
  bindings,
  type Candidate,
  type Recommendation,
} from '../../../reports/recommendation/types.ts'
import {
  describeRecommended,
  formatRankedCost,
  listVerdictLines,
} from '../../../reports/recommendation/verdict-lines.ts'
import {
  estimateText,
  formatCapacity,
  formatLatencyValue,
  formatProof,
} from '../../../reports/recommendation/words.ts'
import { getObjectiveWords } from '../../../search/objective.ts'
import { formatTable, wrapText } from './columns.ts'
import { glyph, paint, type Style } from './glyphs.ts'

/** Alternatives on the terminal; the files have all. */
const maxAlternatives = 6

/** Whether the only result is one failure, which the verdict alone describes. */
const isSingleFailure = ({ best, nearest, alternatives }: Recommendation): boolean =>
  best === undefined &&
  alternatives.every(
    ({ trial, status }) => status === 'failed' && trial === (nearest ?? alternatives[0])!.trial,
  ) &&
  (nearest ?? alternatives[0])?.status === 'failed'

/** Lines for stdout: the ranked table, details, and last the verdict. */
export function formatResult(
  recommendation: Recommendation,
  files: readonly string[],
  style: Style,
  columns = 120,
): string[] {
  const show = `tune show ${recommendation.experimentId}`
  if (isSingleFailure(recommendation))
    return [
      '',
      ...wrapText(recommendation.verdict, columns, '').map((line) => paint(line, 'yellow', style)),
      '',
      `Experiment ${recommendation.experimentId}: ${show}`,
    ]
  return [
    '',
    ...formatRanking(recommendation, style, columns),
    '',
    ...formatDetails(recommendation, files, style, columns),
    '',
    ...formatVerdict(recommendation, style, columns),
  ]
}

function formatRanking(recommendation: Recommendation, style: Style, columns: number): string[] {
  const { best, nearest, slo, provenance } = recommendation
  const candidates = listCandidates(recommendation)
  const streamed = candidates.some(({ tokens }) => tokens)
  const estimated = candidates.some(({ estimateRps }) => estimateRps !== undefined)
  const row = (mark: string, candidate: Candidate, note: string) => [
    mark,
    candidate.quality === undefined
      ? candidate.label
      : `${candidate.label}, quality ${candidate.quality}`,
    describeStatus(candidate.status, provenance).name,
    candidate.capacityRps > 0 ? formatCapacity(candidate) : '-',
    candidate.capacityRps > 0 ? formatLatencyValue(slo, candidate) : '-',
    formatRankedCost(recommendation, candidate),
    ...(estimated ? [estimateText(candidate)] : []),
    ...(streamed ? formatTokenCells(candidate) : []),
    note,
  ]
  const top = best ?? nearest
  const first = best
    ? row(glyph('best', style), best, describeRecommended(recommendation))
    : nearest && row(glyph('infeasible', style), nearest, 'nearest')
  const others = recommendation.alternatives.filter((a) => a.trial !== top?.trial)
  const more = others.length - maxAlternatives
  return [
    ...layOutTable(
      [
        '',
        'configuration',
        'status',
        'safe capacity',
        `${sloName(slo)} there`,
        'cost',
        ...(estimated ? [estimateColumn] : []),
        ...(streamed ? tokenColumns : []),
        '',
      ],
      [
        ...(first ? [first] : []),
        ...others.slice(0, maxAlternatives).map((a) => row(' ', a, a.whyNot)),
      ],
      columns,
    ),
    ...(more > 0 ? [`  and ${more} more in the files`] : []),
    ...formatTokens(top, columns),
  ]
}

function formatDetails(
  recommendation: Recommendation,
  files: readonly string[],
  style: Style,
  columns: number,
): string[] {
  const {
    binding,
    stages = [],
    relaxedSlo,
    predictionError,
    caveats,
    provenance,
    seed,
    experimentId,
  } = recommendation
  const proof = formatProof(recommendation)
  const plain = [
    `Bottleneck: ${bindings[binding.what]} (${binding.evidence})`,
    ...stages.map((stage) => `Stage ${stage.stage}: ${describeStage(stage)}`),
    ...(relaxedSlo ? [describeRelaxedSlo(relaxedSlo)] : []),
    ...(predictionError ? [describePredictionError(predictionError)] : []),
    ...formatConfirmation(recommendation),
    ...(proof ? [proof] : []),
    ...(provenance === 'imported' ? [] : [`Experiment ${experimentId}, seed ${seed}`]),
  ]
  return [
    'Details',
    ...plain.flatMap((line) => indentBlock(line, columns)),
    ...caveats
      .flatMap((caveat) => indentBlock(`Note: ${caveat}`, columns))
      .map((line) => paint(line, 'yellow', style)),
    ...files.map((file) => `  ${file}`),
  ]
}

function formatVerdict(recommendation: Recommendation, style: Style, columns: number): string[] {
  const { heading, subject, mark, figures, slo, cheapest, next } = listVerdictLines(recommendation)
  const title = `${heading ? `${heading}: ` : ''}${subject}`
  const titleWidth = columns - (mark ? mark.length + 2 : 0)
  const marked = wrapText(title, titleWidth, '').map((line, i) =>
    i === 0 && mark ? `${line.padEnd(Math.min(titleWidth, 72))}  ${mark}` : line,
  )
  const isMet = heading === 'Recommended'
  const labelled = (label: string, text: string) =>
    indentBlock(`${label.padEnd(labelWidth)}${text}`, columns, labelWidth)
  return [
    ...marked.map((line) => paint(line, isMet ? 'bold' : 'yellow', style)),
    ...(figures ? indentBlock(figures, columns, 0) : []),
    ...(slo ? labelled('SLO', slo) : []),
    ...(cheapest
      ? labelled(getObjectiveWords(recommendation.objective.kind).superlative, cheapest)
      : []),
    ...labelled('Next', next.join(style.unicode ? ' · ' : ', ')),
  ]
}

const labelWidth = 10

/** A paragraph indented by two columns; `hanging` indents its further lines more. */
const indentBlock = (text: string, columns: number, hanging = 2): string[] =>
  wrapText(text, columns - 2, ' '.repeat(hanging)).map((line) => `  ${line}`)

/**
 * Fits a table to the terminal. If it is too wide, first the note moves below its row, then all
 * columns after the cost, then everything but the configuration.
 */
function layOutTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  columns: number,
): string[] {
  const indent = '     '
  const below = (row: readonly string[], from: number) => {
    const text = row
      .map((cell, i) =>
        cell === '-' || selfExplanatory.has(header[i]!) ? cell : `${header[i]} ${cell}`,
      )
      .filter((cell, i) => i >= from && cell !== '' && cell !== '-')
      .join(', ')
    return text === ''
      ? []
      : wrapText(text, columns - indent.length, '').map((line) => indent + line)
  }
  const afterCost = header.indexOf('cost') + 1
  for (const from of [header.length, header.length - 1, afterCost]) {
    const [head, ...lines] = formatTable([header, ...rows].map((row) => row.slice(0, from)))
    if ([head!, ...lines].every((line) => line.length <= columns))
      return [head!, ...lines.flatMap((line, i) => [line, ...below(rows[i]!, from)])]
  }
  return rows.flatMap((row) => [
    ...wrapText(row[1]!, columns - 3, '  ').map(
      (line, i) => `${i === 0 ? row[0]!.padEnd(3) : '   '}${line}`,
    ),
    ...below(row, 2),
  ])
}

const estimateColumn = 'estimate [90 %]'
const tokenColumns = ['output tokens/s', '$/M output']
/** Columns whose cells need no heading outside the table. */
const selfExplanatory: ReadonlySet<string> = new Set([
  '',
  'configuration',
  'status',
  'safe capacity',
  'cost',
])
const formatTokenCells = ({ tokens }: Candidate): string[] =>
  tokens
    ? [significant(tokens.outputTokensPerSecond), money(tokens.pricePerMillionOutputTokens)]
    : ['-', '-']

/** Latencies and token rates of the best configuration. */
function formatTokens(best: Candidate | undefined, columns: number): string[] {
  if (!best?.tokens) return []
  const at = formatWindow(best.tokens)
  const rates = rateRows(best.tokens).map(([title, value]) => `${title} ${value}`)
  return [
    '',
    ...(at === undefined
      ? []
      : formatTable([
          [`Tokens ${at}`, 'p50', 'p90', 'p99'],
          ...listLatencyRows(best.tokens).map(([name, ...rest]) => [`  ${name}`, ...rest]),
        ])),
    ...indentBlock(rates.join('; '), columns, 0),
  ]
}

/** '95 % interval of p99 there: 25 to 27 ms' of the confirmation. */
function formatConfirmation({ confirmation, slo, provenance }: Recommendation): string[] {
  if (!confirmation) return []
  const [low, high] = confirmation.sloCi95Ms
  const interval = Number.isFinite(high)
    ? `${sloValue(slo, low)} to ${sloValue(slo, high)}`
    : `at least ${sloValue(slo, low)}`
  return [
    `${provenance === 'simulated' ? 'Simulated second' : 'Second'} load test at ${rate(confirmation.rateRps)}: ${sloFigure(slo, confirmation.sloMs)} (95 % interval ${interval}), SLO ${confirmation.met ? 'met' : 'violated'}`,
  ]
}

/** The end of a run on the terminal: ranked table, details, verdict. */

import { money, rate, significant, sloFigure, sloName, sloValue } from '../../reports/format.ts'
import { candidatesOf } from '../../reports/recommendation/candidates.ts'
import { describeStatus } from '../../reports/recommendation/describe-status.ts'
import { latencyRows, rateRows, windowText } from '../../reports/recommendation/token-text.ts'
import {
  bindings,
  type Candidate,
  type Recommendation,
} from '../../reports/recommendation/types.ts'
import {
  rankedCostText,
  recommendedNote,
  verdictLines,
} from '../../reports/recommendation/verdict-lines.ts'
import {
  atCapacityValue,
  capacityText,
  estimateText,
  proofText,
} from '../../reports/recommendation/words.ts'
import { getObjectiveWords } from '../../search/objective.ts'
import { table, wrap } from './columns.ts'
import { glyph, paint, type Style } from './glyphs.ts'

/** Alternatives shown on the terminal; the rest is in the files. */
const shown = 6

/** Nothing was measured, for one reason: the sentence that says it is all there is to say. */
const isOneFailure = ({ best, nearest, alternatives }: Recommendation): boolean =>
  best === undefined &&
  alternatives.every(
    ({ trial, status }) => status === 'failed' && trial === (nearest ?? alternatives[0])!.trial,
  ) &&
  (nearest ?? alternatives[0])?.status === 'failed'

/** Lines for stdout: the ranked table, details, and last the verdict. */
export function resultLines(
  recommendation: Recommendation,
  files: readonly string[],
  style: Style,
  columns = 120,
): string[] {
  const show = `tune show ${recommendation.experimentId}`
  if (isOneFailure(recommendation))
    return [
      '',
      ...wrap(recommendation.verdict, columns, '').map((line) => paint(line, 'yellow', style)),
      '',
      `Experiment ${recommendation.experimentId}: ${show}`,
    ]
  return [
    '',
    ...rankedTable(recommendation, style, columns),
    '',
    ...detailLines(recommendation, files, style, columns),
    '',
    ...verdictBlock(recommendation, style, columns),
  ]
}

function rankedTable(recommendation: Recommendation, style: Style, columns: number): string[] {
  const { best, nearest, slo, provenance } = recommendation
  const candidates = candidatesOf(recommendation)
  const streamed = candidates.some(({ tokens }) => tokens)
  const estimated = candidates.some(({ estimateRps }) => estimateRps !== undefined)
  const row = (mark: string, candidate: Candidate, note: string) => [
    mark,
    candidate.quality === undefined
      ? candidate.label
      : `${candidate.label}, quality ${candidate.quality}`,
    describeStatus(candidate.status, provenance).name,
    candidate.capacityRps > 0 ? capacityText(candidate) : '-',
    candidate.capacityRps > 0 ? atCapacityValue(slo, candidate) : '-',
    rankedCostText(recommendation, candidate),
    ...(estimated ? [estimateText(candidate)] : []),
    ...(streamed ? tokenCells(candidate) : []),
    note,
  ]
  const top = best ?? nearest
  const first = best
    ? row(glyph('best', style), best, recommendedNote(recommendation))
    : nearest && row(glyph('infeasible', style), nearest, 'nearest')
  const others = recommendation.alternatives.filter((a) => a.trial !== top?.trial)
  const more = others.length - shown
  return [
    ...ranked(
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
      [...(first ? [first] : []), ...others.slice(0, shown).map((a) => row(' ', a, a.whyNot))],
      columns,
    ),
    ...(more > 0 ? [`  and ${more} more in the files`] : []),
    ...tokenLines(top, columns),
  ]
}

function detailLines(
  recommendation: Recommendation,
  files: readonly string[],
  style: Style,
  columns: number,
): string[] {
  const { binding, caveats, provenance, seed, experimentId } = recommendation
  const proof = proofText(recommendation)
  const plain = [
    `Bottleneck: ${bindings[binding.what]} (${binding.evidence})`,
    ...confirmationInterval(recommendation),
    ...(proof ? [proof] : []),
    ...(provenance === 'imported' ? [] : [`Experiment ${experimentId}, seed ${seed}`]),
  ]
  return [
    'Details',
    ...plain.flatMap((line) => indented(line, columns)),
    ...caveats
      .flatMap((caveat) => indented(`Note: ${caveat}`, columns))
      .map((line) => paint(line, 'yellow', style)),
    ...files.map((file) => `  ${file}`),
  ]
}

function verdictBlock(recommendation: Recommendation, style: Style, columns: number): string[] {
  const { heading, subject, mark, figures, slo, cheapest, next } = verdictLines(recommendation)
  const title = `${heading ? `${heading}: ` : ''}${subject}`
  const titleWidth = columns - (mark ? mark.length + 2 : 0)
  const marked = wrap(title, titleWidth, '').map((line, i) =>
    i === 0 && mark ? `${line.padEnd(Math.min(titleWidth, 72))}  ${mark}` : line,
  )
  const isMet = heading === 'Recommended'
  const labelled = (label: string, text: string) =>
    indented(`${label.padEnd(labelWidth)}${text}`, columns, labelWidth)
  return [
    ...marked.map((line) => paint(line, isMet ? 'bold' : 'yellow', style)),
    ...(figures ? indented(figures, columns, 0) : []),
    ...(slo ? labelled('SLO', slo) : []),
    ...(cheapest
      ? labelled(getObjectiveWords(recommendation.objective.kind).superlative, cheapest)
      : []),
    ...labelled('Next', next.join(style.unicode ? ' · ' : ', ')),
  ]
}

const labelWidth = 10

/** A paragraph two columns in; `hanging` is how much further its second and later lines stand. */
const indented = (text: string, columns: number, hanging = 2): string[] =>
  wrap(text, columns - 2, ' '.repeat(hanging)).map((line) => `  ${line}`)

/**
 * A table as wide as the terminal. Where that is too narrow, the note stands below its row, then
 * all that follows the cost, then everything but the configuration.
 */
function ranked(
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
    return text === '' ? [] : wrap(text, columns - indent.length, '').map((line) => indent + line)
  }
  const afterCost = header.indexOf('cost') + 1
  for (const from of [header.length, header.length - 1, afterCost]) {
    const [head, ...lines] = table([header, ...rows].map((row) => row.slice(0, from)))
    if ([head!, ...lines].every((line) => line.length <= columns))
      return [head!, ...lines.flatMap((line, i) => [line, ...below(rows[i]!, from)])]
  }
  return rows.flatMap((row) => [
    ...wrap(row[1]!, columns - 3, '  ').map(
      (line, i) => `${i === 0 ? row[0]!.padEnd(3) : '   '}${line}`,
    ),
    ...below(row, 2),
  ])
}

const estimateColumn = 'estimate [90 %]'
const tokenColumns = ['output tokens/s', '$/M output']
/** Columns whose cells need no heading where they stand outside the table. */
const selfExplanatory: ReadonlySet<string> = new Set([
  '',
  'configuration',
  'status',
  'safe capacity',
  'cost',
])
const tokenCells = ({ tokens }: Candidate): string[] =>
  tokens
    ? [significant(tokens.outputTokensPerSecond), money(tokens.pricePerMillionOutputTokens)]
    : ['-', '-']

/** What the streamed answers of the best say. */
function tokenLines(best: Candidate | undefined, columns: number): string[] {
  if (!best?.tokens) return []
  const at = windowText(best.tokens)
  const rates = rateRows(best.tokens).map(([title, value]) => `${title} ${value}`)
  return [
    '',
    ...(at === undefined
      ? []
      : table([
          [`Tokens ${at}`, 'p50', 'p90', 'p99'],
          ...latencyRows(best.tokens).map(([name, ...rest]) => [`  ${name}`, ...rest]),
        ])),
    ...indented(rates.join('; '), columns, 0),
  ]
}

/** '95 % interval of p99 there: 25 to 27 ms' of the confirmation. */
function confirmationInterval({ confirmation, slo, provenance }: Recommendation): string[] {
  if (!confirmation) return []
  const [low, high] = confirmation.sloCi95Ms
  const interval = Number.isFinite(high)
    ? `${sloValue(slo, low)} to ${sloValue(slo, high)}`
    : `at least ${sloValue(slo, low)}`
  return [
    `${provenance === 'simulated' ? 'Simulated second' : 'Second'} load test at ${rate(confirmation.rateRps)}: ${sloFigure(slo, confirmation.sloMs)} (95 % interval ${interval}), SLO ${confirmation.met ? 'met' : 'violated'}`,
  ]
}

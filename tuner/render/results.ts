/** What a tuning run says at its end: verdict, ranked alternatives, what binds, caveats, files. */

import { money, rate, significant, sloFigure, sloValue, writing } from '../../reports/format.ts'
import { candidatesOf } from '../../reports/recommendation/candidates.ts'
import { latencyRows, rateRows, windowText } from '../../reports/recommendation/token-figures.ts'
import type { Candidate, Recommendation } from '../../reports/recommendation/types.ts'
import { atCapacityText, capacityText, proofText } from '../../reports/recommendation/words.ts'
import { costText } from '../../search/objective.ts'
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

/** Lines for stdout. */
export function resultLines(
  recommendation: Recommendation,
  files: readonly string[],
  style: Style,
  columns = 120,
): string[] {
  const { best, nearest, objective, slo, conclusion } = recommendation
  const streamed = candidatesOf(recommendation).some(({ tokens }) => tokens)
  const row = (mark: string, candidate: Candidate, note: string) => [
    mark,
    candidate.quality === undefined
      ? candidate.label
      : `${candidate.label}, quality ${candidate.quality}`,
    candidate.status,
    candidate.capacityRps > 0 ? capacityText(candidate) : '-',
    candidate.capacityRps > 0 ? atCapacityText(slo, candidate) : '-',
    candidate.feasible
      ? costText(objective, candidate, writing)
      : `${money(candidate.pricePerHour)}/h`,
    ...(streamed ? tokenCells(candidate) : []),
    note,
  ]
  const top = best ?? nearest
  const bestNote = conclusion === 'unconfirmed' ? 'best found, NOT confirmed' : 'recommended'
  const rows = [
    ...(top
      ? [
          row(
            best ? glyph('best', style) : glyph('infeasible', style),
            top,
            best ? bestNote : 'nearest',
          ),
        ]
      : []),
    ...recommendation.alternatives
      .filter((a) => a.trial !== top?.trial)
      .slice(0, shown)
      .map((a) => row(' ', a, a.whyNot)),
  ]
  const more = recommendation.alternatives.length - shown
  if (isOneFailure(recommendation))
    return [
      '',
      ...wrap(recommendation.verdict, columns, '').map((line) => paint(line, 'yellow', style)),
      '',
      `Experiment ${recommendation.experimentId}: tune show ${recommendation.experimentId}`,
    ]
  const lines = [
    '',
    ...wrap(recommendation.verdict, columns, '').map((line) =>
      paint(line, best && conclusion !== 'unconfirmed' ? 'bold' : 'yellow', style),
    ),
    '',
    ...ranked(
      [
        '',
        'configuration',
        'status',
        'capacity',
        'at capacity',
        'cost',
        ...(streamed ? tokenColumns : []),
        '',
      ],
      rows,
      columns,
    ),
    ...(more > 0 ? [`  and ${more} more in the files`] : []),
    ...tokenLines(top, columns),
    '',
    ...[
      `Binding: ${recommendation.binding.what} (${recommendation.binding.evidence})`,
      recommendation.confidence.statement,
      ...secondLines(recommendation),
    ].flatMap((line) => wrap(line, columns)),
  ]
  const notes = recommendation.caveats.flatMap((caveat) => wrap(`Note: ${caveat}`, columns))
  lines.push(...notes.map((line) => paint(line, 'yellow', style)))
  lines.push(
    `${recommendation.provenance === 'imported' ? '' : `Repeat with --seed ${recommendation.seed}. `}Experiment ${recommendation.experimentId}: tune show ${recommendation.experimentId}`,
  )
  if (files.length > 0) lines.push('', ...files.map((file) => `  ${file}`))
  return lines
}

/**
 * A table as wide as the terminal lets it be: what it is told of each comes below it where there is
 * no room beside it, and all of it where that does not do.
 */
function ranked(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  columns: number,
): string[] {
  const fits = (lines: readonly string[]) => lines.every((line) => line.length <= columns)
  const whole = table([header, ...rows])
  if (fits(whole)) return whole
  const indent = '     '
  const below = (text: string) =>
    text === '' ? [] : wrap(text, columns - indent.length, '').map((line) => indent + line)
  const [head, ...lines] = table([header, ...rows].map((row) => row.slice(0, -1)))
  if (fits([head!, ...lines]))
    return [head!, ...lines.flatMap((line, i) => [line, ...below(rows[i]!.at(-1)!)])]
  return rows.flatMap(([mark = '', label = '', ...rest]) => [
    ...wrap(label, columns - 3, '  ').map(
      (line, i) => `${i === 0 ? mark.padEnd(3) : '   '}${line}`,
    ),
    ...below(rest.filter((cell) => cell !== '' && cell !== '-').join(', ')),
  ])
}

const tokenColumns = ['output tokens/s', '$/M output']
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
    ...wrap(`  ${rates.join('; ')}`, columns, '  '),
  ]
}

/** What the second measurement of the best says. */
function secondLines({ confirmation, slo }: Recommendation): string[] {
  if (!confirmation) return []
  const [low, high] = confirmation.sloCi95Ms
  const interval = Number.isFinite(high)
    ? `${sloValue(slo, low)} to ${sloValue(slo, high)}`
    : `at least ${sloValue(slo, low)}`
  const verb = confirmation.held
    ? confirmation.proven
      ? 'Confirmed'
      : 'Held in a second measurement'
    : 'NOT confirmed: missed'
  const proof = proofText(confirmation)
  return [
    `${verb} at ${rate(confirmation.rateRps)}: ${sloFigure(slo, confirmation.sloMs)} (95 % interval ${interval})`,
    ...(proof ? [`Proof: ${proof}`] : []),
  ]
}

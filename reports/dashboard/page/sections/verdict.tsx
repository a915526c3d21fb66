/** The verdict in one sentence, how it came about, and the figures behind it. */
import { formatCost, getObjectiveWords } from '../../../../search/objective.ts'
import {
  computeCertaintyPercent,
  money,
  percent,
  rate,
  rateInterval,
  significant,
  sloFigure,
  sloLimit,
  sloName,
  writing,
} from '../../../format.ts'
import { describeStatus } from '../../../recommendation/describe-status.ts'
import type { TokenFigures } from '../../../recommendation/token-figures.ts'
import { formatWindow, listLatencyRows, rateRows } from '../../../recommendation/token-text.ts'
import { bindings, conclusions, type Recommendation } from '../../../recommendation/types.ts'
import { formatGain } from '../../../recommendation/verdict.ts'
import { listVerdictLines } from '../../../recommendation/verdict-lines.ts'
import {
  estimateText,
  formatCapacity,
  formatLatencyValue,
  nameInterval,
} from '../../../recommendation/words.ts'
import type { Answer } from '../answer.ts'
import { type Fact, Facts, Table } from '../elements.tsx'

const provenanceWords = {
  measured: ['●', 'measured', 'on the named hardware'],
  emulated: ['◐', 'emulated', 'real servers and real load; a model emulates the GPUs'],
  simulated: ['○', 'simulated', 'models of servers and load in virtual time'],
  imported: [
    '◇',
    'imported',
    'results of other load testers, from the named files; tune measured none of them',
  ],
} as const

/** Badge that says by shape, word and colour how the figures came about. */
export function ProvenanceBadge({ provenance }: { provenance: keyof typeof provenanceWords }) {
  const [glyph, word, meaning] = provenanceWords[provenance]
  return (
    <span class={`badge ${provenance}`} title={`${word}: ${meaning}`}>{`${glyph} ${word}`}</span>
  )
}

export function Verdict({ answer }: { answer: Answer }) {
  const { experiment, recommendation: r, trials, isUnchanged } = answer
  const notes = r.caveats
  return (
    <>
      <p id="verdict" class="sentence" aria-live="polite" data-conclusion={r.conclusion}>
        {r.verdict}
      </p>
      <p class="facts">
        <ProvenanceBadge provenance={r.provenance} />
        {` ${experiment.hardware} · ${experiment.load} · seed ${experiment.seed} · ${trials.length.toLocaleString('en-US')} trial${trials.length === 1 ? '' : 's'}`}
        {!isUnchanged && (
          <strong class="asked">
            {' · what if: re-ranked from the measured load curves, no new trials'}
          </strong>
        )}
      </p>
      <Facts class="three" facts={listDecidingFacts(r)} />
      <details class="more">
        <summary>
          {`All figures, ${notes.length} note${notes.length === 1 ? '' : 's'} and the runners-up`}
        </summary>
        <Facts class="tiles" facts={listFigures(r)} />
        <Streams recommendation={r} />
        <ul class="caveats">
          {notes.map((text) => (
            <li>{text}</li>
          ))}
        </ul>
        <RunnersUp recommendation={r} />
      </details>
    </>
  )
}

/** Lists the facts for a decision: SLO status, gain, and whether it is the cheapest. */
function listDecidingFacts(r: Recommendation): Fact[] {
  const c = r.best ?? r.nearest
  if (!c) return []
  const status = describeStatus(c.status, r.provenance)
  const start = r.defaultCandidate
  const gain: Fact =
    r.gainOverDefault !== undefined && start
      ? [
          'gain',
          formatGain(r.objective, r.gainOverDefault),
          `${formatCost(r.objective, c, writing)} instead of ${formatCost(r.objective, start, writing)} with ${start.label}`,
        ]
      : ['bottleneck', bindings[r.binding.what], r.binding.evidence]
  const { slo, cheapest } = listVerdictLines(r)
  return [
    ['SLO', status.name, slo ?? status.meaning],
    gain,
    [getSuperlative(r), formatCertainty(r), cheapest ?? r.confidence.statement],
  ]
}

const getSuperlative = ({ objective }: Recommendation): string =>
  getObjectiveWords(objective.kind).superlative.toLowerCase()

function listFigures(r: Recommendation): Fact[] {
  const c = r.best ?? r.nearest
  if (!c) return []
  const status = describeStatus(c.status, r.provenance)
  const estimate =
    c.estimateRps === undefined
      ? c.capacityRps > 0
        ? `${nameInterval(c)}: ${rateInterval(c.capacityCi90Rps)}`
        : undefined
      : `estimate ${estimateText(c)}`
  const perMillion =
    c.capacityRps > 0 ? `${money(c.pricePerMillionRequests)} per million requests` : undefined
  return [
    ['status', status.name, status.meaning],
    ['safe capacity of one replica', formatCapacity(c), estimate],
    [`${sloName(r.slo)} there`, formatLatencyValue(r.slo, c), `SLO ${sloLimit(r.slo)}`],
    ['one replica', `${money(c.pricePerHour)} / h`, perMillion],
    ...(c.tokens ? listTokenFigures(c.tokens) : []),
    [
      'for the demand',
      c.replicas !== undefined && `${c.replicas} replica${c.replicas === 1 ? '' : 's'}`,
      `${money(c.totalPricePerHour ?? Number.NaN)} / h`,
    ],
    [
      'against the baseline',
      r.gainOverDefault !== undefined && formatGain(r.objective, r.gainOverDefault),
    ],
    [
      'quality',
      c.quality?.toString(),
      `of ${String(c.configuration.variant)}, as the experiment states it`,
    ],
    ...Object.entries(c.metrics ?? {}).map(
      ([name, value]): Fact => [
        name,
        significant(value),
        `metric of the server, read at ${rate(c.estimateRps ?? c.capacityRps)}`,
      ],
    ),
    ['bottleneck', bindings[r.binding.what], r.binding.evidence],
    [
      getSuperlative(r),
      formatCertainty(r),
      `probability that no untried configuration is over ${percent(r.confidence.tolerance)} ${getObjectiveWords(r.objective.kind).adjective}`,
    ],
    [
      r.provenance === 'simulated' ? 'simulated second load test' : 'second load test',
      r.confirmation && (r.confirmation.met ? 'SLO met' : 'SLO violated'),
      r.confirmation &&
        `${sloFigure(r.slo, r.confirmation.sloMs)} at ${rate(r.confirmation.rateRps)}`,
    ],
  ]
}

const listTokenFigures = (tokens: TokenFigures): Fact[] => [
  [
    'output tokens per second',
    significant(tokens.outputTokensPerSecond),
    tokens.outputTokensPerSecondPerGpu === undefined
      ? undefined
      : `${significant(tokens.outputTokensPerSecondPerGpu)} per GPU`,
  ],
  [
    'per million output tokens',
    money(tokens.pricePerMillionOutputTokens),
    tokens.pricePerMillionInputTokens === undefined
      ? undefined
      : `or ${money(tokens.pricePerMillionInputTokens)} per million input tokens; each price covers the whole cost`,
  ],
]

/** Token figures of the recommended or nearest configuration. */
function Streams({ recommendation: { best, nearest } }: { recommendation: Recommendation }) {
  const figures = (best ?? nearest)?.tokens
  if (figures === undefined) return null
  const at = formatWindow(figures)
  return (
    <details class="tokens" open>
      <summary>{at === undefined ? 'Streams' : `Streams ${at}`}</summary>
      {at !== undefined && (
        <Table
          caption="Latencies of streams"
          head={['', 'p50', 'p90', 'p99']}
          numeric={[1, 2, 3]}
          rows={listLatencyRows(figures)}
        />
      )}
      <p class="facts">
        {rateRows(figures)
          .map(([title, value]) => `${title} ${value}`)
          .join(' · ')}
      </p>
    </details>
  )
}

function formatCertainty({
  confidence: { probabilityWithinTolerance, tooFewTrials },
}: Recommendation): string {
  if (probabilityWithinTolerance !== undefined)
    return `${computeCertaintyPercent(probabilityWithinTolerance)} %`
  return tooFewTrials ? 'too few trials to tell' : 'not assessed'
}

function RunnersUp({ recommendation: r }: { recommendation: Recommendation }) {
  const next = r.alternatives.filter((a) => a.feasible).slice(0, 3)
  if (next.length === 0) return null
  return (
    <>
      <h3>Runners-up</h3>
      <ol class="rivals">
        {next.map((a) => (
          <li key={a.trial}>
            <span>{a.label}</span>
            {`: ${describeStatus(a.status, r.provenance).name}, ${formatCapacity(a)}, ${money(a.pricePerHour)} / h, `}
            <em>{a.whyNot}</em>
          </li>
        ))}
      </ol>
    </>
  )
}

/** Formats the title of the page. */
export const formatPageTitle = ({ experiment, recommendation: r }: Answer): string =>
  `${experiment.name}: ${r.best ? r.best.label : conclusions[r.conclusion]} - tune`

/** The verdict in one sentence, how it came about, and the figures behind it. */
import { formatCost, getObjectiveWords } from '../../../../search/objective.ts'
import {
  certaintyPercent,
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
import { latencyRows, rateRows, windowText } from '../../../recommendation/token-text.ts'
import { bindings, conclusions, type Recommendation } from '../../../recommendation/types.ts'
import { gainText } from '../../../recommendation/verdict.ts'
import { verdictLines } from '../../../recommendation/verdict-lines.ts'
import {
  atCapacityValue,
  capacityText,
  estimateText,
  intervalName,
} from '../../../recommendation/words.ts'
import { fill, h, setAttributes, table } from '../dom.ts'
import type { Section, Shown } from '../section.ts'

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
export function provenanceBadge(provenance: keyof typeof provenanceWords): HTMLElement {
  const [glyph, word, meaning] = provenanceWords[provenance]
  return h(
    'span',
    { class: `badge ${provenance}`, attributes: { title: `${word}: ${meaning}` } },
    `${glyph} ${word}`,
  )
}

export function verdictSection(): Section {
  const sentence = h('p', {
    class: 'sentence',
    attributes: { id: 'verdict', 'aria-live': 'polite' },
  })
  const facts = h('p', { class: 'facts' })
  const three = h('dl', { class: 'three' })
  const all = h('summary', {})
  const tiles = h('dl', { class: 'tiles' })
  const tokens = h('div', {})
  const caveats = h('ul', { class: 'caveats' })
  const rivals = h('div', {})
  const element = h(
    'section',
    { class: 'verdict', attributes: { 'aria-label': 'Verdict' } },
    sentence,
    facts,
    three,
    h('details', { class: 'more' }, all, tiles, tokens, caveats, rivals),
  )
  return {
    element,
    atOnce: true,
    update(shown) {
      const { experiment, recommendation: r, trials, original } = shown
      fill(sentence, r.verdict)
      setAttributes(element, { 'data-conclusion': r.conclusion })
      fill(
        facts,
        provenanceBadge(r.provenance),
        ` ${experiment.hardware} · ${experiment.load} · seed ${experiment.seed} · ${trials.length.toLocaleString('en-US')} trial${trials.length === 1 ? '' : 's'}`,
        !original &&
          h(
            'strong',
            { class: 'asked' },
            ' · what if: re-ranked from the measured load curves, no new trials',
          ),
      )
      fill(three, ...figureElements(threeFacts(shown)))
      const notes = r.caveats
      fill(
        all,
        `All figures, ${notes.length} note${notes.length === 1 ? '' : 's'} and the runners-up`,
      )
      fill(tiles, ...figureElements(figures(r)))
      fill(tokens, ...tokenBlock(r))
      fill(caveats, ...notes.map((text) => h('li', {}, text)))
      fill(rivals, ...runnersUp(r))
    },
  }
}

type Figure = readonly [name: string, value: string, note?: string]

const figureElements = (figures: readonly Figure[]): HTMLElement[] =>
  figures.map(([name, value, note]) =>
    h('div', {}, h('dt', {}, name), h('dd', {}, value, note && h('small', {}, note))),
  )

/** What a decision depends on: whether the SLO is met, what is gained, whether it is the cheapest. */
function threeFacts({ recommendation: r }: Shown): Figure[] {
  const c = r.best ?? r.nearest
  if (!c) return []
  const status = describeStatus(c.status, r.provenance)
  const start = r.defaultCandidate
  const gain: Figure =
    r.gainOverDefault !== undefined && start
      ? [
          'gain',
          gainText(r.objective, r.gainOverDefault),
          `${formatCost(r.objective, c, writing)} instead of ${formatCost(r.objective, start, writing)} with ${start.label}`,
        ]
      : ['bottleneck', bindings[r.binding.what], r.binding.evidence]
  const { slo, cheapest } = verdictLines(r)
  return [
    ['SLO', status.name, slo ?? status.meaning],
    gain,
    [superlativeOf(r), certainty(r), cheapest ?? r.confidence.statement],
  ]
}

const superlativeOf = ({ objective }: Recommendation): string =>
  getObjectiveWords(objective.kind).superlative.toLowerCase()

function figures(r: Recommendation): Figure[] {
  const c = r.best ?? r.nearest
  if (!c) return []
  const estimate =
    c.estimateRps === undefined
      ? c.capacityRps > 0
        ? `${intervalName(c)}: ${rateInterval(c.capacityCi90Rps)}`
        : undefined
      : `estimate ${estimateText(c)}`
  const gain = r.gainOverDefault
  const status = describeStatus(c.status, r.provenance)
  const isSimulated = r.provenance === 'simulated'
  return [
    ['status', status.name, status.meaning],
    ['safe capacity of one replica', capacityText(c), estimate],
    [`${sloName(r.slo)} there`, atCapacityValue(r.slo, c), `SLO ${sloLimit(r.slo)}`],
    [
      'one replica',
      `${money(c.pricePerHour)} / h`,
      c.capacityRps > 0 ? `${money(c.pricePerMillionRequests)} per million requests` : undefined,
    ],
    ...(c.tokens
      ? ([
          [
            'output tokens per second',
            significant(c.tokens.outputTokensPerSecond),
            c.tokens.outputTokensPerSecondPerGpu === undefined
              ? undefined
              : `${significant(c.tokens.outputTokensPerSecondPerGpu)} per GPU`,
          ],
          [
            'per million output tokens',
            money(c.tokens.pricePerMillionOutputTokens),
            c.tokens.pricePerMillionInputTokens === undefined
              ? undefined
              : `or ${money(c.tokens.pricePerMillionInputTokens)} per million input tokens; each price covers the whole cost`,
          ],
        ] as const)
      : []),
    ...(c.replicas !== undefined
      ? [
          [
            'for the demand',
            `${c.replicas} replica${c.replicas === 1 ? '' : 's'}`,
            `${money(c.totalPricePerHour ?? Number.NaN)} / h`,
          ] as const,
        ]
      : []),
    ...(gain === undefined ? [] : [['against the baseline', gainText(r.objective, gain)] as const]),
    ...(c.quality === undefined
      ? []
      : [
          [
            'quality',
            String(c.quality),
            `of ${String(c.configuration.variant)}, as the experiment states it`,
          ] as const,
        ]),
    ...Object.entries(c.metrics ?? {}).map(
      ([name, value]): Figure => [
        name,
        significant(value),
        `metric of the server, read at ${rate(c.estimateRps ?? c.capacityRps)}`,
      ],
    ),
    ['bottleneck', bindings[r.binding.what], r.binding.evidence],
    [
      superlativeOf(r),
      certainty(r),
      `probability that no untried configuration is over ${percent(r.confidence.tolerance)} ${getObjectiveWords(r.objective.kind).adjective}`,
    ],
    ...(r.confirmation
      ? [
          [
            isSimulated ? 'simulated second load test' : 'second load test',
            r.confirmation.met ? 'SLO met' : 'SLO violated',
            `${sloFigure(r.slo, r.confirmation.sloMs)} at ${rate(r.confirmation.rateRps)}`,
          ] as const,
        ]
      : []),
  ]
}

/** What the streamed answers of the best say. */
function tokenBlock({ best, nearest }: Recommendation): HTMLElement[] {
  const figures = (best ?? nearest)?.tokens
  if (figures === undefined) return []
  const at = windowText(figures)
  return [
    h(
      'details',
      { class: 'tokens', attributes: { open: true } },
      h('summary', {}, ['Streams', ...(at === undefined ? [] : [at])].join(' ')),
      ...(at === undefined
        ? []
        : [
            table(
              ['', 'p50', 'p90', 'p99'],
              latencyRows(figures),
              [1, 2, 3],
              'Latencies of streams',
            ),
          ]),
      h(
        'p',
        { class: 'facts' },
        rateRows(figures)
          .map(([title, value]) => `${title} ${value}`)
          .join(' · '),
      ),
    ),
  ]
}

function certainty({
  confidence: { probabilityWithinTolerance, tooFewTrials },
}: Recommendation): string {
  if (probabilityWithinTolerance !== undefined)
    return `${certaintyPercent(probabilityWithinTolerance)} %`
  return tooFewTrials ? 'too few trials to tell' : 'not assessed'
}

function runnersUp(r: Recommendation): HTMLElement[] {
  const next = r.alternatives.filter((a) => a.feasible).slice(0, 3)
  if (next.length === 0) return []
  return [
    h('h3', {}, 'Runners-up'),
    h(
      'ol',
      { class: 'rivals' },
      ...next.map((a) =>
        h(
          'li',
          {},
          h('span', {}, a.label),
          `: ${describeStatus(a.status, r.provenance).name}, ${capacityText(a)}, ${money(a.pricePerHour)} / h, `,
          h('em', {}, a.whyNot),
        ),
      ),
    ),
  ]
}

/** What the page's title says. */
export const titleOf = ({ experiment, recommendation: r }: Shown): string =>
  `${experiment.name}: ${r.best ? r.best.label : conclusions[r.conclusion]} - tune`

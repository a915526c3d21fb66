/** The report: a page that a manager can read and an engineer can check. */
import type { EChartsOption } from 'echarts'
import { isImported } from '../../profiler/capacity/rederive/imported-loads.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import {
  computeJoulesPerRequest,
  formatCost,
  getDemand,
  getObjectiveWords,
  toDisplayedCost,
} from '../../search/objective.ts'
import { computeFleetPricePerHour } from '../../search/replica-price.ts'
import type { FinishedTrial, Usage } from '../../trials/types.ts'
import { type Block, heading, list, paragraph, table } from '../document/blocks.ts'
import {
  createHistoryChart,
  createParetoOption,
  loadCurveOption,
} from '../document/chart-options.ts'
import {
  formatEnergy,
  latency,
  money,
  percent,
  rate,
  significant,
  sloFigure,
  sloName,
  sloText,
  sloValue,
  writing,
} from '../format.ts'
import { hoursPerMonth } from '../plan/plan-costs.ts'
import { describeStatus, formatStatusSentence } from '../recommendation/describe-status.ts'
import { describePredictionError } from '../recommendation/prediction-error.ts'
import {
  type RankedCandidate,
  type RankingCriteria,
  toBound,
} from '../recommendation/ranked-candidate.ts'
import { rankCandidates } from '../recommendation/ranking.ts'
import { findLastMetrics, type MetricValues } from '../recommendation/read-metrics.ts'
import { describeRelaxedSlo } from '../recommendation/relaxed-slo.ts'
import { describeStage } from '../recommendation/stages.ts'
import {
  formatTokenRates,
  formatWindow,
  listLatencyRows,
  rateRows,
} from '../recommendation/token-text.ts'
import { bindings, type Candidate, type Recommendation } from '../recommendation/types.ts'
import { formatGain } from '../recommendation/verdict.ts'
import { describeRecommended, listVerdictLines } from '../recommendation/verdict-lines.ts'
import {
  estimateText,
  formatCapacity,
  formatLatencyAtCapacity,
  formatProof,
} from '../recommendation/words.ts'

export interface ReportInput extends RankingCriteria {
  /** The experiment's name. */
  readonly name: string
  readonly recommendation: Recommendation
  readonly trials: readonly FinishedTrial[]
  /** How to run it again: the effective experiment, as YAML. */
  readonly specification: string
  /** Versions and machine, for the reader who repeats it. */
  readonly environment: readonly string[]
}

/** Configurations drawn as curves. */
const drawn = 5
/** Alternatives in the table; all trials are in the appendix. */
const ranked = 10

const provenanceText = {
  measured: 'measured on the named hardware',
  emulated: 'emulated: real servers and real load; a model emulates the GPUs',
  simulated: 'simulated: models of servers and load in virtual time',
  imported:
    'imported: results of other load testers, from the named files; tune measured none of them',
} as const

/** Renders the document. `chart`: renders chart options to SVG; absent: no charts. */
export async function renderReport(
  input: ReportInput,
  chart?: (option: EChartsOption) => Promise<string>,
): Promise<Block[]> {
  const { recommendation: r, name } = input
  const judged = rankCandidates(input.trials, input)
  const top = judged.filter((j) => j.candidate.feasible).slice(0, drawn)
  return [
    heading(1, `${name}: how to serve it within ${sloText(r.slo)}`),
    { kind: 'paragraph', strong: true, text: r.verdict },
    ...list(listVerdictItems(r)),
    paragraph(
      `All figures are ${provenanceText[r.provenance]}. Experiment ${r.experimentId}, seed ${r.seed}, ${r.trials} trials.`,
    ),
    heading(2, 'Why this one'),
    ...list(listReasonLines(r)),
    ...(r.caveats.length > 0 ? [heading(2, 'Caveats'), ...list(r.caveats)] : []),
    ...(await createParetoBlocks(input, judged, top, chart)),
    ...(await createCurveBlocks(input, top, chart)),
    ...createTokenSection(r),
    ...createQualityBlocks(r),
    ...createCapacityBlocks(r),
    heading(2, 'Runners-up'),
    ...createRankedTable(r),
    heading(2, isSimulated(r) ? 'How it was simulated' : 'How it was measured'),
    ...list(describeMethods(input)),
    ...(await createHistoryBlocks(input, judged, chart)),
    heading(2, 'What could not serve, or gave no result'),
    ...skipped(judged, r),
    heading(2, 'Appendix'),
    {
      kind: 'details',
      summary: `All ${input.trials.length} trials`,
      blocks: createTrialTable(input),
    },
    {
      kind: 'details',
      summary: 'How to repeat it',
      blocks: [...list(input.environment), { kind: 'code', text: input.specification }],
    },
  ]
}

function listVerdictItems(r: Recommendation): string[] {
  const { slo, cheapest, next } = listVerdictLines(r)
  return [
    ...(slo ? [`SLO: ${slo}.`] : []),
    ...(cheapest ? [`${getObjectiveWords(r.objective.kind).superlative}: ${cheapest}.`] : []),
    `Next: ${next.join(', ')}.`,
  ]
}

const isSimulated = ({ provenance }: Recommendation): boolean => provenance === 'simulated'

function listReasonLines(r: Recommendation): string[] {
  const { best, nearest, defaultCandidate, gainOverDefault, confirmation } = r
  const subject = best ?? nearest
  const default_ =
    defaultCandidate === undefined
      ? []
      : gainOverDefault !== undefined
        ? [
            `The baseline (default configuration: ${defaultCandidate.label}) serves ${rate(defaultCandidate.capacityRps)} for ${money(defaultCandidate.pricePerHour)} per hour: the recommendation is ${gainOverDefault < 1.005 ? 'no better' : formatGain(r.objective, gainOverDefault)}.`,
          ]
        : defaultCandidate.feasible
          ? [
              `The baseline (default configuration: ${defaultCandidate.label}) serves ${rate(defaultCandidate.capacityRps)}: ${formatCost(r.objective, defaultCandidate, writing)}.`,
            ]
          : [
              `The baseline (default configuration: ${defaultCandidate.label}): ${defaultCandidate.reason ?? 'not measured'}.`,
            ]
  const [low, high] = confirmation?.sloCi95Ms ?? []
  const proof = formatProof(r)
  const second = isSimulated(r) ? 'In virtual time, a second' : 'A second, independent'
  const confirmed = confirmation
    ? [
        `${second} load test at ${rate(confirmation.rateRps)} ${confirmation.met ? 'met' : 'violated'} the SLO: ${sloFigure(r.slo, confirmation.sloMs)} (95 % interval ${sloValue(r.slo, low ?? Number.NaN)} to ${sloValue(r.slo, high ?? Number.NaN)}).`,
        ...(proof ? [`${proof}.`] : []),
      ]
    : best
      ? ['No second load test confirms it.']
      : []
  return [
    ...(subject
      ? [
          `${formatStatusSentence(subject.status, r.provenance)} ${formatCapacity(subject)} ${r.slo.limits ? 'with' : 'at'} ${formatLatencyAtCapacity(r.slo, subject)}.`,
        ]
      : []),
    ...(subject
      ? [
          `Bottleneck${best ? '' : ' of the nearest'}: ${bindings[r.binding.what]} (${r.binding.evidence}).`,
        ]
      : []),
    ...(r.stages ?? []).map((stage) => `Stage ${stage.stage}: ${describeStage(stage)}.`),
    ...(r.relaxedSlo ? [`${describeRelaxedSlo(r.relaxedSlo)}.`] : []),
    ...(r.predictionError ? [`${describePredictionError(r.predictionError)}.`] : []),
    ...(subject?.metrics
      ? [
          `Metrics of the server at ${rate(subject.estimateRps ?? subject.capacityRps)}: ${metricsText(subject.metrics)}.`,
        ]
      : []),
    ...default_,
    ...confirmed,
  ]
}

async function createParetoBlocks(
  { recommendation: r, slo }: ReportInput,
  judged: readonly RankedCandidate[],
  top: readonly RankedCandidate[],
  chart: ReportChart,
): Promise<Block[]> {
  if (!chart || top.length === 0) return []
  const marks = [
    { trial: r.best?.trial ?? -1, name: 'recommended' },
    ...(r.defaultCandidate && r.defaultCandidate.trial !== r.best?.trial
      ? [{ trial: r.defaultCandidate.trial, name: 'baseline' }]
      : []),
  ]
  const fallback = judged.find(
    (j) => j.candidate.trial === r.defaultCandidate?.trial && j.candidate.feasible,
  )
  const shown = fallback && !top.includes(fallback) ? [...top, fallback] : top
  return [
    heading(2, 'Latency against throughput per dollar'),
    {
      kind: 'chart',
      svg: await chart(createParetoOption(shown, r.front, slo, marks, r.qualityFronts)),
      alt: `Pareto front: ${r.front.map((c) => `${sloValue(slo, c.sloMsAtCapacity)} at ${significant((c.capacityRps * 3600) / c.pricePerHour)} requests per dollar`).join('; ')}`,
    },
  ]
}
type ReportChart = ((option: EChartsOption) => Promise<string>) | undefined

async function createCurveBlocks(
  { slo, recommendation: { provenance } }: ReportInput,
  top: readonly RankedCandidate[],
  chart: ReportChart,
): Promise<Block[]> {
  if (!chart || top.length === 0) return []
  const alt = `Load curves of ${top.map((j) => `${j.candidate.label}, ${describeStatus(j.candidate.status, provenance).name}: ${formatCapacity(j.candidate)}`).join('; ')}`
  return [
    heading(2, 'Load curves'),
    paragraph(describeHollowPoints(provenance)),
    { kind: 'chart', svg: await chart(loadCurveOption(top, slo)), alt },
  ]
}

const describeHollowPoints = (provenance: Recommendation['provenance']): string =>
  `Filled points are ${provenance === 'simulated' ? 'simulated' : 'measured'} windows; the first is the unloaded latency. A hollow point marks where the model of the server reaches the SLO.`

/** What the streamed answers of the best say. */
function createTokenSection({ best, nearest }: Recommendation): Block[] {
  const figures = (best ?? nearest)?.tokens
  if (figures === undefined) return []
  const at = formatWindow(figures)
  return [
    heading(2, 'Tokens'),
    ...(at === undefined
      ? []
      : table([at, 'p50', 'p90', 'p99'], listLatencyRows(figures), [1, 2, 3])),
    ...list(rateRows(figures).map(([title, value]) => `${title}: ${value}`)),
    paragraph(
      'Latencies and goodput are of the window nearest to the capacity; tokens and prices are those of the mean request at the capacity. The prices of input, output and both each cover the whole cost; do not add them.',
    ),
  ]
}

function createCapacityBlocks({ best, objective }: Recommendation): Block[] {
  if (!best) return []
  const headroom = getDemand(objective)?.headroom ?? 0
  const each = best.capacityRps * (1 - headroom)
  const rows = [1, 2, 4, 8, 16, 32].map((n) => [
    String(n),
    rate(n * each),
    rate((n - 1) * each),
    money(computeFleetPricePerHour(best, n)),
    money(computeFleetPricePerHour(best, n) * hoursPerMonth),
  ])
  return [
    heading(2, 'Capacity'),
    paragraph(
      `Replicas of ${best.label}, each carrying ${rate(each)}${headroom > 0 ? ` (${percent(headroom)} headroom)` : ''}.`,
    ),
    ...table(
      ['replicas', 'carry', 'after one fails', 'per hour', 'per month (30 days)'],
      rows,
      [0, 1, 2, 3, 4],
    ),
  ]
}

/** The third axis of the front: what each quality of the model variants costs. */
function createQualityBlocks(r: Recommendation): Block[] {
  if (!r.qualityFronts) return []
  const rows = r.qualityFronts.flatMap(({ minQuality, front }) => {
    const best = front.at(-1)
    return best
      ? [
          [
            String(minQuality),
            best.label,
            String(best.quality ?? ''),
            rate(best.capacityRps),
            money(best.pricePerMillionRequests),
          ],
        ]
      : []
  })
  return [
    heading(2, 'What quality costs'),
    paragraph(
      'Highest throughput per dollar within the SLO, by minimum quality. The experiment file states the qualities.',
    ),
    ...table(
      ['minimum quality', 'configuration', 'quality', 'capacity', 'per million requests'],
      rows,
      [0, 2, 3, 4],
    ),
  ]
}

function createRankedTable(r: Recommendation): Block[] {
  const all = [r.best, r.nearest, ...r.alternatives]
  const qualities = all.some((c) => c?.quality !== undefined)
  const streamed = all.some((c) => c?.tokens)
  const sized = all.some((c) => c?.replicas !== undefined)
  const row = (c: Candidate, note: string) => [
    String(c.trial),
    c.label,
    describeStatus(c.status, r.provenance).name,
    ...(qualities ? [String(c.quality ?? '')] : []),
    c.capacityRps > 0 ? formatCapacity(c) : '',
    c.capacityRps > 0 ? formatLatencyAtCapacity(r.slo, c) : '',
    estimateText(c),
    money(c.pricePerHour),
    Number.isFinite(c.pricePerMillionRequests) ? money(c.pricePerMillionRequests) : '',
    ...(streamed ? [c.tokens ? formatTokenRates(c.tokens) : ''] : []),
    ...(sized ? [Number.isFinite(c.replicas) ? String(c.replicas) : ''] : []),
    note,
  ]
  const rows = [
    ...(r.best ? [row(r.best, describeRecommended(r))] : []),
    ...(r.nearest ? [row(r.nearest, 'nearest')] : []),
    ...r.alternatives
      .filter((a) => a.feasible)
      .slice(0, ranked)
      .map((a) => row(a, a.whyNot)),
  ]
  const more = r.alternatives.filter((a) => a.feasible).length - ranked
  return [
    ...table(
      [
        'trial',
        'configuration',
        'status',
        ...(qualities ? ['quality'] : []),
        'safe capacity',
        'latency there',
        'estimate [90 %]',
        'per hour',
        'per million requests',
        ...(streamed ? ['tokens'] : []),
        ...(sized ? ['replicas'] : []),
        'why not',
      ],
      rows,
      qualities ? [0, 3, 4, 5, 7, 8, 9] : [0, 3, 4, 6, 7, 8],
    ),
    ...(more > 0 ? [paragraph(`and ${more} more in the appendix`)] : []),
  ]
}

function describeMethods({ trials, recommendation: r }: ReportInput): string[] {
  const complete = trials.filter((t) => t.state === 'complete')
  const points = complete.flatMap((t) => t.measurement.points)
  const requests = complete.reduce((sum, t) => sum + t.measurement.requests, 0)
  const open = points.filter((p) => p.load.kind === 'open').length
  const seconds = trials.reduce((sum, t) => sum + t.seconds, 0)
  const saturated = points.filter((p) => p.generatorSaturated).length
  const outcomes = [...new Set(complete.map((t) => t.measurement.outcome))].map(
    (o) => `${o} ${complete.filter((t) => t.measurement.outcome === o).length}`,
  )
  if (r.provenance === 'imported')
    return [
      ...complete.map(({ number, measurement }) => `Trial ${number}: ${measurement.detail}.`),
      `Capacity is the highest load with a ${sloName(r.slo)} within ${latency(r.slo.limitMs)} and at most ${percent(r.slo.maxErrorRate)} failed requests, as the tool reports it. Intervals end at the next higher load that violated these limits.`,
    ]
  return [
    `Capacity is the highest offered rate at which ${r.slo.limits ? `at least ${Number((r.slo.percentile * 100).toFixed(4))} % of ${r.slo.classes ? 'the requests of each class' : 'all requests'} meet every limit (${sloText(r.slo)}), counting failed requests as violations` : `the ${sloName(r.slo)}${r.slo.classes ? ' of each class' : ' of all requests'} stays within ${latency(r.slo.limitMs)}, counting failed requests as infinitely slow`}, and at most ${percent(r.slo.maxErrorRate)} fail.`,
    `${requests.toLocaleString('en-US')} requests in ${points.length} load steps, ${open} of them open-loop (requests follow a fixed schedule, independent of responses, so queueing is visible); ${significant(seconds / 60)} minutes in total.`,
    `Intervals: 90 % for capacities, 95 % and distribution-free for percentiles. Searches ended: ${outcomes.join(', ') || 'none'}.`,
    ...(saturated > 0
      ? [
          `In ${saturated} load steps the load generator itself was late; violations no larger than its delay do not count against the server.`,
        ]
      : []),
    `Throughput per dollar treats the configured prices as exact; only capacities are uncertain.`,
  ]
}

async function createHistoryBlocks(
  { trials, objective }: ReportInput,
  judged: readonly RankedCandidate[],
  chart: ReportChart,
): Promise<Block[]> {
  const points = judged
    .filter((j) => j.candidate.feasible)
    .map((j) => ({ trial: j.candidate.trial, cost: j.candidate.cost }))
    .sort((a, b) => a.trial - b.trial)
  if (!chart || points.length < 2) return []
  const best = points.reduce((a, b) => (b.cost < a.cost ? b : a))
  return [
    {
      kind: 'chart',
      svg: await chart(createHistoryChart(points, objective)),
      alt: `Cost by trial; the best (${significant(toDisplayedCost(objective, best.cost))}) came in trial ${best.trial} of ${trials.length}.`,
    },
  ]
}

function skipped(judged: readonly RankedCandidate[], { provenance }: Recommendation): Block[] {
  const rows = judged
    .filter((j) => !j.candidate.feasible)
    .map((j) => [
      String(j.candidate.trial),
      j.candidate.label,
      describeStatus(j.candidate.status, provenance).name,
      j.candidate.reason ?? '',
    ])
  return rows.length > 0
    ? table(['trial', 'configuration', 'status', 'why'], rows, [0])
    : [paragraph('Nothing: every configuration that was tried served within the SLO.')]
}

const metricsText = (metrics: MetricValues): string =>
  Object.entries(metrics)
    .map(([name, value]) => `${name} ${significant(value)}`)
    .join(', ')

/** 'at most': see `computeJoulesPerRequest`. */
function formatEnergyUse(usage: Usage = {}, capacityRps = 0): string {
  const joules = computeJoulesPerRequest(usage, capacityRps)
  return joules === undefined ? '' : formatEnergy(joules)
}

/** Of the server's own metrics, at the trial's capacity. */
const readMetrics = (trial: FinishedTrial): MetricValues => findLastMetrics([trial]) ?? {}

/** Where every rate that was tried violated the SLO, the bound; never a capacity of 0. */
function measuredCapacity(measurement: Measurement): string {
  return measurement.bounds === 'none'
    ? 'not known'
    : formatCapacity({ ...measurement, ...toBound(measurement) })
}

function createTrialTable({ trials, label, pricePerHour }: ReportInput): Block[] {
  const powered = trials.some(
    (t) => t.usage?.gpuWatts !== undefined || t.usage?.cpuWatts !== undefined,
  )
  const metrics = [...new Set(trials.flatMap((t) => Object.keys(readMetrics(t))))]
  const rows = trials.map((t) => {
    const m = t.state === 'complete' ? t.measurement : undefined
    const outcome =
      t.state === 'complete'
        ? m!.outcome
        : t.state === 'infeasible'
          ? `${t.reason}: ${t.detail}`
          : `failed: ${t.error}`
    return [
      String(t.number),
      t.purpose ?? 'search',
      label(t.configuration),
      m ? measuredCapacity(m) : '',
      m && !(isImported(m) && m.unloaded.requests === 0)
        ? `${sloValue(m.slo, m.unloaded.p50Ms)} / ${sloValue(m.slo, m.unloaded.p99Ms)}`
        : '',
      t.usage?.gpuUtilization === undefined ? '' : percent(t.usage.gpuUtilization),
      t.usage?.cpuCores === undefined ? '' : significant(t.usage.cpuCores),
      ...(powered ? [formatEnergyUse(t.usage, m?.capacityRps)] : []),
      ...metrics.map((name) =>
        readMetrics(t)[name] === undefined ? '' : significant(readMetrics(t)[name]!),
      ),
      money(pricePerHour(t.configuration)),
      `${significant(t.seconds)} s`,
      outcome,
      t.why,
    ]
  })
  return table(
    [
      'trial',
      'for',
      'configuration',
      'estimate',
      'unloaded p50 / p99',
      'GPU',
      'cores',
      ...(powered ? ['energy per request'] : []),
      ...metrics,
      'per hour',
      'took',
      'outcome',
      'why tried',
    ],
    rows,
    Array.from({ length: (powered ? 10 : 9) + metrics.length }, (_, i) => i).filter(
      (i) => i !== 1 && i !== 2,
    ),
  )
}

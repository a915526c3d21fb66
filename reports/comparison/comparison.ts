/**
 * Two recommendations side by side: by how much one costs more, how far their intervals leave that
 * open, and what of them is not alike.
 */
import {
  type ConfigurationFigures,
  computeGainRatio,
  cost,
  formatCost,
  getObjectiveUnit,
  getObjectiveWords,
  type Objective,
} from '../../search/objective.ts'
import { percent, sloText, writing } from '../format.ts'
import type { RecommendationDocument } from '../report/recommendation-json.ts'

/** Shares of the earlier cost: 0.05 is 5 % worse, -0.05 as much better. */
export interface Change {
  readonly worse: number
  /** 90 %, of the capacities that were measured; prices and idle latencies have none. */
  readonly interval90: readonly [number, number]
}

/** What a change comes to beside the most that is allowed. `undecided`: the intervals hold both. */
type Decision = 'regressed' | 'within-limit' | 'undecided'

/** What is recommended. */
export type Best = NonNullable<RecommendationDocument['best']>

/**
 * By which share what is recommended now costs more than before, by the objective of both. The
 * logarithms of both costs err independently, upwards and downwards each by its own half of the
 * interval: halves add as squares.
 * @param than 'measured': the earlier one may have been better than its figure, up to the end of
 * its interval. 'promised': more than its figure was not promised, so that a rate that was proven
 * twice is kept, whatever lies beyond it
 * @returns undefined where costs have no ratio (a metric that may be zero or less), or one of them
 * is not known
 */
export function changeOf(
  before: RecommendationDocument,
  now: RecommendationDocument,
  than: 'measured' | 'promised',
): Change | undefined {
  if (!before.best || !now.best) return undefined
  const { objective } = now
  const [earlier, b] = [costsOf(before.best, objective), costsOf(now.best, objective)]
  const a = than === 'measured' ? earlier : { ...earlier, best: earlier.cost }
  const log = (better: number, worse: number) =>
    Math.log(computeGainRatio(objective, better, worse) ?? Number.NaN)
  const worse = log(a.cost, b.cost)
  if (!Number.isFinite(worse)) return undefined
  const up = Math.hypot(log(b.cost, b.worst), log(a.best, a.cost))
  const down = Math.hypot(log(b.best, b.cost), log(a.cost, a.worst))
  return {
    worse: Math.expm1(worse),
    interval90: [Math.expm1(worse - down), Math.expm1(worse + up)],
  }
}

interface Costs {
  readonly cost: number
  readonly best: number
  readonly worst: number
}

/** A document has null for what is infinite. */
const figuresOf = ({
  capacityRps,
  pricePerHour,
  bundles,
  unloadedMs,
  usage,
  metrics,
}: Best): ConfigurationFigures => ({
  capacityRps,
  pricePerHour: pricePerHour ?? Number.POSITIVE_INFINITY,
  ...(bundles && { bundles }),
  ...(unloadedMs != null && { unloadedMs }),
  ...(usage && { usage }),
  ...(metrics && {
    metrics: Object.fromEntries(
      Object.entries(metrics).map(([name, value]) => [name, value ?? Number.NaN]),
    ),
  }),
})

/**
 * At the safe capacity, and at the ends of its interval: those of the estimate, discounted as it is.
 */
function costsOf(best: Best, objective: Objective): Costs {
  const { capacityRps, estimateRps = capacityRps } = best
  // The loads on both sides of an imported capacity are no interval: how far it may be off is not
  // known.
  const [low, high] = best.status === 'imported' ? [0, null] : best.capacityCi90Rps
  const discount = estimateRps > 0 ? capacityRps / estimateRps : 1
  const at = (rateRps: number) => cost(objective, { ...figuresOf(best), capacityRps: rateRps })
  return {
    cost: at(capacityRps),
    best: at(discount * (high ?? Number.POSITIVE_INFINITY)),
    worst: at(discount * (low ?? 0)),
  }
}

/** '$0.066 per million requests' of what is recommended; undefined where nothing is. */
export function bestCostText({ best, objective }: RecommendationDocument): string | undefined {
  if (!best) return undefined
  const figures = figuresOf(best)
  return formatCost(objective, { ...figures, cost: cost(objective, figures) }, writing)
}

/** '4.2 % more expensive (90 %: 1 % cheaper to 9 % more expensive)' */
export function changeText(
  { worse, interval90: [low, high] }: Change,
  { objective }: Pick<RecommendationDocument, 'objective'>,
): string {
  const words = getObjectiveWords(objective.kind)
  const side = (share: number) =>
    `${Number.isFinite(share) ? percent(Math.abs(share)) : 'infinitely'} ${share < 0 ? words.comparative : words.worse}`
  return low === high ? side(worse) : `${side(worse)} (90 %: ${side(low)} to ${side(high)})`
}

/** @param mostWorse the share by which it may be worse, 0.05 = 5 % */
export function decisionOf({ interval90: [low, high] }: Change, mostWorse: number): Decision {
  if (low > mostWorse) return 'regressed'
  return high <= mostWorse ? 'within-limit' : 'undecided'
}

/** Questions that differ, so that costs cannot be compared at all. */
export function otherQuestions(
  before: RecommendationDocument,
  now: RecommendationDocument,
): string[] {
  return different([
    ['the SLO', sloText(before.slo), sloText(now.slo)],
    ['the objective', objectiveText(before.objective), objectiveText(now.objective)],
  ])
}

const objectiveText = (objective: Objective): string =>
  `${getObjectiveUnit(objective)} (${Object.values(objective).join(', ')})`

/** What else is not alike, and may be the reason for a change. */
export function otherCircumstances(
  before: RecommendationDocument,
  now: RecommendationDocument,
): string[] {
  const [a, b] = [before.measuredWith, now.measuredWith]
  const of = (name: keyof NonNullable<typeof a>) =>
    [name, String(a?.[name] ?? 'none'), String(b?.[name] ?? 'none')] as const
  return different([
    ['figures', before.provenance, now.provenance],
    ...(a && b
      ? (
          [
            'model',
            'server',
            'engine',
            'weights',
            'protocol',
            'path',
            'body',
            'image',
            'url',
          ] as const
        ).map(of)
      : []),
  ])
}

const different = (pairs: readonly (readonly [string, string, string])[]): string[] =>
  pairs.filter(([, a, b]) => a !== b).map(([what, a, b]) => `${what}: ${a}, now ${b}`)

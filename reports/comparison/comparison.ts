/**
 * Compares two recommendations: the relative change of cost with its interval, and conditions that
 * differ.
 */
import {
  type ConfigurationFigures,
  computeCost,
  computeGainRatio,
  formatCost,
  getObjectiveUnit,
  getObjectiveWords,
  type Objective,
} from '../../search/objective.ts'
import { percent, sloText, writing } from '../format.ts'
import type { RecommendationDocument } from '../report/recommendation-json.ts'

/** A relative change of cost: 0.05 is 5 % worse, -0.05 is 5 % better. */
export interface Change {
  readonly worse: number
  /** 90 % interval, by the intervals of the measured capacities. Prices are exact. */
  readonly interval90: readonly [number, number]
}

/** A change against the allowed limit. `undecided`: the interval contains the limit. */
type Decision = 'regressed' | 'within-limit' | 'undecided'

/** The recommended configuration of a result document. */
export type Best = NonNullable<RecommendationDocument['best']>

/**
 * Computes the relative change of the recommended cost, by the objective of both. The logarithms of
 * the two costs err independently, so the half-intervals on each side add as squares.
 * @param than 'measured': the earlier cost has its interval. 'promised': the earlier figure counts
 * as exact, so that a rate that was proven twice is no regression, whatever lies above it
 * @returns undefined if costs have no ratio (a metric that may be zero or less), or one of them is
 * not known
 */
export function computeChange(
  before: RecommendationDocument,
  now: RecommendationDocument,
  than: 'measured' | 'promised',
): Change | undefined {
  if (!before.best || !now.best) return undefined
  const { objective } = now
  const [earlier, b] = [computeCosts(before.best, objective), computeCosts(now.best, objective)]
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

interface CostInterval {
  readonly cost: number
  readonly best: number
  readonly worst: number
}

/** Documents have null for infinite figures. */
const toFigures = ({
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

/** Costs at the safe capacity and at the ends of its interval, which get the same discount. */
function computeCosts(best: Best, objective: Objective): CostInterval {
  const { capacityRps, estimateRps = capacityRps } = best
  // The loads around an imported capacity are no confidence interval: its error is not known.
  const [low, high] = best.status === 'imported' ? [0, null] : best.capacityCi90Rps
  const discount = estimateRps > 0 ? capacityRps / estimateRps : 1
  const at = (rateRps: number) =>
    computeCost(objective, { ...toFigures(best), capacityRps: rateRps })
  return {
    cost: at(capacityRps),
    best: at(discount * (high ?? Number.POSITIVE_INFINITY)),
    worst: at(discount * (low ?? 0)),
  }
}

/** '$0.066 per million requests' of what is recommended; undefined if nothing is. */
export function formatBestCost({ best, objective }: RecommendationDocument): string | undefined {
  if (!best) return undefined
  const figures = toFigures(best)
  return formatCost(objective, { ...figures, cost: computeCost(objective, figures) }, writing)
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

/** @param maxWorse the share by which the cost may rise, 0.05 = 5 % */
export function decideChange({ interval90: [low, high] }: Change, maxWorse: number): Decision {
  if (low > maxWorse) return 'regressed'
  return high <= maxWorse ? 'within-limit' : 'undecided'
}

/** Differences in SLO or objective, which make costs incomparable. */
export function listDifferentQuestions(
  before: RecommendationDocument,
  now: RecommendationDocument,
): string[] {
  return formatDifferences([
    ['the SLO', sloText(before.slo), sloText(now.slo)],
    ['the objective', formatObjectives(before.objective), formatObjectives(now.objective)],
  ])
}

const formatObjectives = (objective: Objective): string =>
  `${getObjectiveUnit(objective)} (${Object.values(objective).join(', ')})`

/** Other differences, which may explain a change. */
export function listDifferentConditions(
  before: RecommendationDocument,
  now: RecommendationDocument,
): string[] {
  const [a, b] = [before.measuredWith, now.measuredWith]
  const of = (name: keyof NonNullable<typeof a>) =>
    [name, String(a?.[name] ?? 'none'), String(b?.[name] ?? 'none')] as const
  return formatDifferences([
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

const formatDifferences = (pairs: readonly (readonly [string, string, string])[]): string[] =>
  pairs.filter(([, a, b]) => a !== b).map(([what, a, b]) => `${what}: ${a}, now ${b}`)

/** The verdict in sentences, and why the alternatives were not chosen. */
import type { Variation } from '../../profiler/model/measurement.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import {
  computeCost,
  computeGainRatio,
  computeRelativeExcess,
  formatCost,
  formatVerdict,
  getMetric,
  getObjectiveWords,
  getPriceBound,
  isAbovePriceBound,
  isOrderUncertain,
  toDisplayedCost,
} from '../../search/objective.ts'
import type { Objective } from '../../search/types.ts'
import {
  computeCertaintyPercent,
  money,
  percent,
  rate,
  sloText,
  sloValue,
  times,
  writing,
} from '../format.ts'
import { couldWinIfConfirmed } from './open-rivals.ts'
import { hasNoResult } from './reasons.ts'
import type { Status } from './status.ts'
import { formatTokenRates } from './token-text.ts'
import type { Candidate, Conclusion, Recommendation, StopPosterior } from './types.ts'
import {
  formatCapacity,
  formatLatencyAtCapacity,
  formatRefutation,
  formatVariation,
} from './words.ts'

/** A smaller gain counts as none. */
const minGainRatio = 1.005
/** A smaller difference of costs would be printed as 0 %. */
const minExcessShare = 0.0005

/** Beginnings of a verdict that no second measurement confirmed. */
const preambles: Readonly<Partial<Record<Conclusion, string>>> = {
  unconfirmed: 'Best found, NOT confirmed: ',
  'not asked': 'Best found, measured once as requested: ',
  simulated: 'Simulated, nothing measured: ',
  imported: 'Imported, not measured by tune: ',
}

/**
 * '2 cores, 1/4 T4 (4 GiB), batch 8: 212 req/s at p99 43 ms, $0.11 per million requests, 57 %
 * cheaper than the baseline'
 */
export function composeVerdict(
  best: Candidate,
  conclusion: Conclusion,
  slo: Slo,
  objective: Objective,
  extras: Baseline & { readonly variation?: Variation },
): string {
  const figures = formatFigures(best, objective, formatLatencyAtCapacity(slo, best), slo, extras)
  const more = [
    formatRefutation(slo, best),
    extras.variation && formatVariation(slo, extras.variation),
  ]
  const sentence = [figures, ...more.filter((text) => text !== undefined)].join('; ')
  return `${preambles[conclusion] ?? ''}${best.label}: ${sentence}`
}

/** The default configuration, and how much cheaper than it the best is. */
interface Baseline {
  readonly candidate?: Candidate
  readonly gain?: number
}

/** Capacity with `latencies` at it, cost, tokens and gain over the baseline, in one phrase. */
export function formatFigures(
  best: Candidate,
  objective: Objective,
  latencies: string,
  slo: Slo,
  baseline: Baseline,
): string {
  const gain = describeGain(best, objective, baseline)
  return [
    `${formatCapacity(best)} ${slo.limits ? 'with' : 'at'} ${latencies}`,
    formatVerdict(objective, best, writing),
    ...(best.tokens ? [formatTokenRates(best.tokens)] : []),
    ...(gain ? [gain] : []),
  ].join(', ')
}

function describeGain(
  best: Candidate,
  objective: Objective,
  { candidate, gain }: Baseline,
): string | undefined {
  if (!candidate) return undefined
  if (candidate.trial === best.trial) return 'the baseline itself'
  if (!candidate.feasible) return explainUnrankedBaseline(candidate, best, objective)
  if (gain === undefined && getMetric(objective) === undefined) return undefined
  if (gain === undefined)
    return `against ${formatCost(objective, candidate, writing)} of the baseline`
  return gain < minGainRatio ? 'no better than the baseline' : formatGain(objective, gain)
}

/** '68 % cheaper than the baseline', '2.3× the throughput of the baseline'. */
export const formatGain = (objective: Objective, gain: number): string => {
  const { comparative, figure, gainAs } = getObjectiveWords(objective.kind)
  return gainAs === 'share'
    ? `${percent(1 - 1 / gain)} ${comparative} than the baseline`
    : `${times(gain)} the ${figure} of the baseline`
}

/** Why a baseline is not ranked, or how much cheaper the best is at least. */
function explainUnrankedBaseline(
  baseline: Candidate,
  best: Candidate,
  objective: Objective,
): string {
  if (hasNoResult(baseline)) return 'the baseline was not measured'
  if (isAbovePriceBound(objective, baseline.pricePerHour))
    return 'the baseline is over the price limit'
  if (baseline.bound === 'upper' && baseline.capacityRps > 0) {
    const minGain = computeGainRatio(objective, best.cost, computeCost(objective, baseline)) ?? 0
    return minGain >= minGainRatio
      ? `at least ${formatGain(objective, minGain)}`
      : 'not compared with the baseline, which was stopped early'
  }
  if (baseline.capacityRps > 0) return 'the baseline is not ranked'
  if (baseline.status === 'infeasible') return 'the baseline does not meet the SLO'
  return baseline.missed
    ? `the baseline violated the SLO at ${rate(baseline.missed.rateRps)}, and lower rates were not tried`
    : 'the baseline is not known to meet the SLO'
}

/** Statuses that leave open whether lower rates meet the SLO. */
const undecidedStatuses: readonly Status[] = ['bound', 'refuted', 'inconclusive']

/** The verdict where no configuration is known to meet the SLO. */
export function composeVerdictWithoutBest(
  nearest: Candidate | undefined,
  all: readonly Candidate[],
  slo: Slo,
  objective: Objective,
): string {
  const sloDescription = sloText(slo)
  if (!nearest) return `No configuration meets ${sloDescription}: none of those tried could serve`
  const bound = getPriceBound(objective)
  if (
    nearest.capacityRps > 0 &&
    bound !== undefined &&
    isAbovePriceBound(objective, nearest.pricePerHour)
  ) {
    return `No configuration meets ${sloDescription} within ${money(bound)} per hour: the nearest, ${nearest.label}, costs ${money(nearest.pricePerHour)}`
  }
  const over = nearest.sloMsAtCapacity / slo.limitMs
  const isDecided = nearest.sloMsFrom === 'unloaded' && Number.isFinite(over) && over > 1
  if (!isDecided || nearest.status !== 'infeasible') {
    return `No configuration is known to meet ${sloDescription}: the nearest, ${nearest.label}, ${nearest.reason}`
  }
  const verb = all.some(({ status }) => undecidedStatuses.includes(status))
    ? 'is known to meet'
    : 'meets'
  return `No configuration ${verb} ${sloDescription}: the nearest, ${nearest.label}, takes ${sloValue(slo, nearest.sloMsAtCapacity)} for one request at a time${slo.limits ? '' : `, ${times(over)} the limit`}`
}

/** The verdict where no trial gave a result. */
export function composeVerdictWithoutResult(all: readonly Candidate[]): string {
  const [first] = all
  if (first === undefined) return 'Nothing has been measured yet'
  const { label, reason = '' } = first
  if (all.length === 1) return `${reason.charAt(0).toUpperCase()}${reason.slice(1)}`
  return `None of the ${all.length} configurations tried gave a result: ${label}: ${reason}`
}

/**
 * Why an alternative was not chosen: '12 % more expensive', '3 % more expensive, statistically
 * tied', or why it cannot serve.
 */
export function explainWhyNot(
  candidate: Candidate,
  best: Candidate | undefined,
  objective: Objective,
): string {
  if (!candidate.feasible || !best)
    return describeMinExcess(candidate, best, objective) ?? candidate.reason ?? 'not chosen'
  const excess = computeRelativeExcess(objective, candidate.cost, best.cost)
  if (excess !== undefined && Math.abs(excess) < minExcessShare)
    return candidate.capacityRps < best.capacityRps ? 'equal, with a lower capacity' : 'equal'
  const comparison = compareCosts(objective, candidate, best, excess)
  if (candidate.cost < best.cost)
    return candidate.status === 'refuted'
      ? `${comparison}, but failed its confirmation`
      : `${comparison}, but not confirmed: statistically tied`
  const isTied =
    couldWinIfConfirmed(candidate, best, objective) || isOrderUncertain(objective, candidate, best)
  return isTied ? `${comparison}, statistically tied` : comparison
}

/** '12 % more expensive', '3.1× the cost'; for metrics without shares 'queue_depth 5 against 3'. */
function compareCosts(
  objective: Objective,
  candidate: Candidate,
  best: Candidate,
  excess: number | undefined,
): string {
  if (excess === undefined)
    return `${formatCost(objective, candidate, writing)} against ${writing.plain(toDisplayedCost(objective, best.cost))}`
  const { worse, comparative, figure } = getObjectiveWords(objective.kind)
  if (excess < 0) return `${percent(-excess)} ${comparative}`
  return excess < 1 ? `${percent(excess)} ${worse}` : `${times(1 + excess)} the ${figure}`
}

/** Describes a pruned trial: 'at least 12 % more expensive: serves at most 891 req/s'. */
function describeMinExcess(
  candidate: Candidate,
  best: Candidate | undefined,
  objective: Objective,
): string | undefined {
  if (!best || candidate.bound !== 'upper' || !(candidate.capacityRps > 0)) return undefined
  const excess = computeRelativeExcess(objective, computeCost(objective, candidate), best.cost)
  return excess !== undefined && excess > minExcessShare
    ? `at least ${compareCosts(objective, candidate, best, excess)}: ${candidate.reason}`
    : `statistically tied: ${candidate.reason}`
}

/** Describes the probability that no untried configuration is better, by the stop rule's model. */
export function describeConfidence(
  objective: Objective,
  { probabilityBetterExists: p, tolerance = 0.05 }: Partial<StopPosterior> = {},
): Recommendation['confidence'] {
  if (p === undefined) return { tolerance, statement: 'not assessed' }
  // The stop rule gives exactly 1 only where it has too few trials to assess.
  if (p >= 1)
    return { tooFewTrials: true, tolerance, statement: 'not known: too few trials to tell' }
  const probability = 1 - p
  const certaintyText = `${computeCertaintyPercent(probability)} % likely that no untried configuration is over ${percent(tolerance)} ${getObjectiveWords(objective.kind).adjective} (model estimate)`
  return {
    probabilityWithinTolerance: probability,
    tolerance,
    statement: probability < 0.5 ? `not certain: ${certaintyText}` : certaintyText,
  }
}

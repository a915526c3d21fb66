/**
 * The recommendation: trials, an SLO, an objective and prices in; a verdict, its reasons and its
 * rivals out. Pure.
 */

import { computeGainRatio } from '../../search/objective.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import type { MeasuredWith } from '../../trials/measured-with.ts'
import type { FinishedTrial, Provenance } from '../../trials/types.ts'
import { findBinding } from './binding.ts'
import { listCaveats } from './caveats.ts'
import { computeParetoFront, computeQualityFronts } from './pareto-front.ts'
import { evaluatePredictions } from './prediction-error.ts'
import type { RankedCandidate, RankingCriteria } from './ranked-candidate.ts'
import { rankCandidates } from './ranking.ts'
import { hasNoResult } from './reasons.ts'
import { evaluateRelaxedSlo } from './relaxed-slo.ts'
import { reportStages } from './stages.ts'
import { confirmationMargin, isConfirmed } from './status.ts'
import type { Conclusion, Recommendation, StopPosterior } from './types.ts'
import {
  composeVerdict,
  composeVerdictWithoutBest,
  composeVerdictWithoutResult,
  describeConfidence,
  explainWhyNot,
} from './verdict.ts'

export interface RecommendInput extends RankingCriteria {
  readonly experimentId: string
  readonly provenance: Provenance
  readonly seed: number
  /**
   * Every finished trial, confirmations (`purpose: 'confirmation'`) and the default (`purpose:
   * 'default'`) among them, in order.
   */
  readonly trials: readonly FinishedTrial[]
  /** Whether a second measurement of the winner was requested; default true. */
  readonly confirm?: boolean
  /** Limit of the run; absent: not known. */
  readonly maxTrials?: number
  /** The stop rule's last assessment, where there is one. */
  readonly stop?: StopPosterior
  /** How trials of a configuration were measured; absent: the result leaves it out. */
  readonly measuredWith?: (configuration: Configuration) => MeasuredWith
  /** Things every reader must know, such as what is emulated and with which error. */
  readonly notices?: readonly string[]
}

/**
 * Ranks the measured configurations and recommends one. The same trials can be ranked again under
 * another SLO, objective or price list.
 */
export const recommend = (input: RecommendInput): Recommendation =>
  recommendFrom(rankCandidates(input.trials, input), input)

/** Recommends one of ranked candidates, best first. */
export function recommendFrom(
  all: readonly RankedCandidate[],
  input: RecommendInput,
): Recommendation {
  const { slo, objective } = input
  const best = selectBest(all)
  const conclusion = resolveConclusion(input, best, all)
  const nearest = best ? undefined : selectNearest(all)
  const subject = best ?? nearest
  // If none ever served, an infeasible one explains more than one that could not be measured.
  const limited = subject ?? all.find(({ trial }) => trial.state === 'infeasible') ?? all[0]
  const stages = subject && reportStages(subject, input)
  const relaxedSlo = best && stages && evaluateRelaxedSlo(input.trials, input, best.candidate)
  const predictionError =
    subject && stages && evaluatePredictions(input.trials, subject.trial, input)
  const defaultTrial = input.trials.find((t) => t.purpose === 'default')
  const key = defaultTrial && configurationKey(defaultTrial.configuration)
  const baseline = defaultTrial && all.find((j) => configurationKey(j.trial.configuration) === key)
  const gain =
    best && baseline?.candidate.feasible
      ? computeGainRatio(objective, best.candidate.cost, baseline.candidate.cost)
      : undefined
  const confirmation = best?.confirmation
  const fronts = computeQualityFronts(all, input)
  return {
    schema: 'tune.recommendation/v1',
    experimentId: input.experimentId,
    provenance: input.provenance,
    slo,
    objective,
    conclusion,
    verdict: best
      ? composeVerdict(best.candidate, conclusion, slo, objective, {
          candidate: baseline?.candidate,
          gain,
          variation: confirmation?.variation,
        })
      : conclusion === 'unknown'
        ? composeVerdictWithoutResult(all.map((j) => j.candidate))
        : composeVerdictWithoutBest(
            nearest?.candidate,
            all.map((j) => j.candidate),
            slo,
            objective,
          ),
    ...(best ? { best: best.candidate } : {}),
    ...(nearest ? { nearest: nearest.candidate } : {}),
    ...(subject && input.measuredWith
      ? { measuredWith: input.measuredWith(subject.candidate.configuration) }
      : {}),
    binding: limited
      ? findBinding(limited, all, slo, stages)
      : { what: 'unknown', evidence: 'no trial has finished' },
    ...(stages && { stages }),
    ...(relaxedSlo && { relaxedSlo }),
    ...(predictionError && { predictionError }),
    front: computeParetoFront(all, input),
    ...(fronts ? { qualityFronts: fronts } : {}),
    alternatives: all
      .filter((j) => j !== subject)
      .map(({ candidate }) => ({
        ...candidate,
        whyNot: explainWhyNot(candidate, best?.candidate, objective),
      })),
    ...(baseline ? { defaultCandidate: baseline.candidate } : {}),
    ...(gain === undefined ? {} : { gainOverDefault: gain }),
    ...(confirmation ? { confirmation: selectConfirmationFigures(confirmation) } : {}),
    confidence:
      input.provenance === 'imported' ? noSearch : describeConfidence(objective, input.stop),
    caveats: listCaveats(input, all, best),
    seed: input.seed,
    trials: input.trials.length,
    ...(input.maxTrials !== undefined && { maxTrials: input.maxTrials }),
  }
}

const selectConfirmationFigures = ({
  trial,
  met,
  proven,
  rateRps,
  sloMs,
  sloCi95Ms,
  confidence,
  seconds,
  violatedRps,
  variation,
}: NonNullable<RankedCandidate['confirmation']>) => ({
  trial,
  met,
  proven,
  rateRps,
  sloMs,
  sloCi95Ms,
  ...(confidence !== undefined && { confidence, seconds }),
  ...(violatedRps !== undefined && { violatedRps }),
  ...(variation && { variation }),
})

function resolveConclusion(
  { provenance, confirm }: RecommendInput,
  best: RankedCandidate | undefined,
  all: readonly RankedCandidate[],
): Conclusion {
  if (!best) return all.every(({ candidate }) => hasNoResult(candidate)) ? 'unknown' : 'none'
  const { status } = best.candidate
  if (provenance === 'simulated' || provenance === 'imported') return provenance
  if (isConfirmed(status)) return 'confirmed'
  return confirm === false && status !== 'refuted' ? 'not asked' : 'unconfirmed'
}

const noSearch = {
  tolerance: 0.05,
  statement: 'not known: there was no search, only imported configurations are compared',
}

/**
 * Selects the cheapest at its safe capacity. A confirmed configuration is replaced only by one that
 * is cheaper by more than the margin, and never by one that failed its confirmation.
 */
function selectBest(all: readonly RankedCandidate[]): RankedCandidate | undefined {
  const feasible = all.filter((j) => j.candidate.feasible)
  const confirmed = feasible.find((j) => isConfirmed(j.candidate.status))
  if (!confirmed) return feasible[0]
  const first = feasible.find((j) => j.candidate.status !== 'refuted')!
  const margin = confirmationMargin * Math.abs(confirmed.candidate.cost)
  return first.candidate.cost < confirmed.candidate.cost - margin ? first : confirmed
}

/**
 * Selects the candidate that comes nearest to the SLO: the cheapest of those that meet it at some
 * rate, else the one with the lowest unloaded latency. Only candidates that served count.
 */
function selectNearest(all: readonly RankedCandidate[]): RankedCandidate | undefined {
  const distance = ({ candidate: c }: RankedCandidate) =>
    c.capacityRps > 0 ? c.pricePerHour - 1e12 : c.sloMsAtCapacity
  const served = all.filter((j) => j.measurement && Number.isFinite(distance(j)))
  return served.sort((a, b) => distance(a) - distance(b))[0]
}

/**
 * The recommendation: trials, an SLO, an objective and prices in; a verdict, its reasons and its
 * rivals out. Pure.
 */

import { computeGainRatio } from '../../search/objective.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import type { MeasuredWith } from '../../trials/measured-with.ts'
import type { FinishedTrial, Provenance } from '../../trials/types.ts'
import { bindingOf } from './binding.ts'
import { caveatsOf } from './caveats.ts'
import { type Judged, judge, type View } from './judged.ts'
import { paretoFront, qualityFronts } from './pareto-front.ts'
import { tellsNothing } from './reasons.ts'
import { confirmationMargin, isConfirmed } from './status.ts'
import type { Conclusion, Recommendation, StopBelief } from './types.ts'
import { confidenceOf, verdictOf, verdictOfNone, verdictOfNothing, whyNot } from './verdict.ts'

export interface RecommendInput extends View {
  readonly experimentId: string
  readonly provenance: Provenance
  readonly seed: number
  /**
   * Every finished trial, confirmations (`purpose: 'confirmation'`) and the default (`purpose:
   * 'default'`) among them, in order.
   */
  readonly trials: readonly FinishedTrial[]
  /** Whether a second measurement of the winner was asked for; default true. */
  readonly confirm?: boolean
  /** Limit of the run; absent: none is known. */
  readonly maxTrials?: number
  /** The stop rule's last assessment, where there is one. */
  readonly stop?: StopBelief
  /** What a trial of a configuration measured. Absent: it is not said. */
  readonly measuredWith?: (configuration: Configuration) => MeasuredWith
  /** Things every reader must know, such as what is emulated and with which error. */
  readonly notices?: readonly string[]
}

/**
 * Ranks what was measured and says what to take. The same trials can be asked under another SLO,
 * objective or price list.
 */
export const recommend = (input: RecommendInput): Recommendation =>
  recommendAmong(judge(input.trials, input), input)

/** The same of what is judged already, best first. */
export function recommendAmong(all: readonly Judged[], input: RecommendInput): Recommendation {
  const { slo, objective } = input
  const best = bestOf(all)
  const conclusion = conclusionOf(input, best, all)
  const nearest = best ? undefined : nearestOf(all)
  const subject = best ?? nearest
  // Of none that ever served, one that cannot says more than one that could not be measured.
  const bound = subject ?? all.find(({ trial }) => trial.state === 'infeasible') ?? all[0]
  const yardstick = input.trials.find((t) => t.purpose === 'default')
  const key = yardstick && configurationKey(yardstick.configuration)
  const fallback = yardstick && all.find((j) => configurationKey(j.trial.configuration) === key)
  const gain =
    best && fallback?.candidate.feasible
      ? computeGainRatio(objective, best.candidate.cost, fallback.candidate.cost)
      : undefined
  const confirmation = best?.second
  const fronts = qualityFronts(all, input)
  return {
    schema: 'tune.recommendation/v1',
    experimentId: input.experimentId,
    provenance: input.provenance,
    slo,
    objective,
    conclusion,
    verdict: best
      ? verdictOf(best.candidate, conclusion, slo, objective, {
          candidate: fallback?.candidate,
          gain,
          variation: confirmation?.variation,
        })
      : conclusion === 'unknown'
        ? verdictOfNothing(all.map((j) => j.candidate))
        : verdictOfNone(
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
    binding: bound
      ? bindingOf(bound, all, slo)
      : { what: 'unknown', evidence: 'no trial has finished' },
    front: paretoFront(all, input),
    ...(fronts ? { qualityFronts: fronts } : {}),
    alternatives: all
      .filter((j) => j !== subject)
      .map(({ candidate }) => ({
        ...candidate,
        whyNot: whyNot(candidate, best?.candidate, objective),
      })),
    ...(fallback ? { defaultCandidate: fallback.candidate } : {}),
    ...(gain === undefined ? {} : { gainOverDefault: gain }),
    ...(confirmation ? { confirmation: figuresOf(confirmation) } : {}),
    confidence: input.provenance === 'imported' ? noSearch : confidenceOf(objective, input.stop),
    caveats: caveatsOf(input, all, best),
    seed: input.seed,
    trials: input.trials.length,
    ...(input.maxTrials !== undefined && { maxTrials: input.maxTrials }),
  }
}

const figuresOf = ({
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
}: NonNullable<Judged['second']>) => ({
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

function conclusionOf(
  { provenance, confirm }: RecommendInput,
  best: Judged | undefined,
  all: readonly Judged[],
): Conclusion {
  if (!best) return all.every(({ candidate }) => tellsNothing(candidate)) ? 'unknown' : 'none'
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
 * The cheapest at its safe capacity. A confirmed configuration gives way only to one that is cheaper
 * by more than the margin, and never to one that failed its confirmation.
 */
function bestOf(all: readonly Judged[]): Judged | undefined {
  const feasible = all.filter((j) => j.candidate.feasible)
  const confirmed = feasible.find((j) => isConfirmed(j.candidate.status))
  if (!confirmed) return feasible[0]
  const first = feasible.find((j) => j.candidate.status !== 'refuted')!
  const margin = confirmationMargin * Math.abs(confirmed.candidate.cost)
  return first.candidate.cost < confirmed.candidate.cost - margin ? first : confirmed
}

/**
 * Of those that serve: the one that is over the price by least, else the fastest when idle. Those
 * that cannot serve come last.
 */
function nearestOf(all: readonly Judged[]): Judged | undefined {
  const distance = ({ candidate: c }: Judged) =>
    c.capacityRps > 0 ? c.pricePerHour - 1e12 : c.sloMsAtCapacity
  const served = all.filter((j) => j.measurement && Number.isFinite(distance(j)))
  return served.sort((a, b) => distance(a) - distance(b))[0]
}

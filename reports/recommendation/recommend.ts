/** The recommendation: trials, an SLO, an objective and prices in; a verdict, its reasons and its rivals out. Pure. */
import { gainOver, orderIsOpen } from '../../search/objective.ts'
import { configurationKey } from '../../search/space.ts'
import type { StopAssessment } from '../../search/types.ts'
import type { FinishedTrial, Provenance } from '../../trials/types.ts'
import { rate, rateInterval, sloFigure } from '../format.ts'
import { bindingOf } from './binding.ts'
import { type Judged, judge, type View } from './judged.ts'
import { paretoFront, qualityFronts } from './pareto-front.ts'
import type { Recommendation } from './types.ts'
import { confidenceOf, verdictOf, verdictOfNone, whyNot } from './verdict.ts'

export interface RecommendInput extends View {
  readonly experimentId: string
  readonly provenance: Provenance
  readonly seed: number
  /** Every finished trial, confirmations (`purpose: 'confirmation'`) and the default (`purpose: 'default'`) among them, in order. */
  readonly trials: readonly FinishedTrial[]
  /** The stop rule's last assessment, where there is one. */
  readonly stop?: StopAssessment
  /** Things every reader must know, such as what is emulated and with which error. */
  readonly notices?: readonly string[]
}

/** Ranks what was measured and says what to take. The same trials can be asked under another SLO, objective or price list. */
export function recommend(input: RecommendInput): Recommendation {
  const all = judge(input.trials, input)
  const { slo, objective } = input
  const best = bestOf(all)
  const nearest = best ? undefined : nearestOf(all)
  const subject = best ?? nearest
  const yardstick = input.trials.find((t) => t.purpose === 'default')
  const fallback = yardstick && all.find((j) => configurationKey(j.trial.configuration) === configurationKey(yardstick.configuration))
  const gain = best && fallback?.candidate.feasible ? gainOver(objective, best.candidate.cost, fallback.candidate.cost) : undefined
  const confirmation = confirmationOf(best)
  const fronts = qualityFronts(all, input)
  return {
    schema: 'tune.recommendation/v1',
    experimentId: input.experimentId,
    provenance: input.provenance,
    slo,
    objective,
    verdict: best
      ? verdictOf(best.candidate, standingOf(best, confirmation), slo, objective, { candidate: fallback?.candidate, gain })
      : verdictOfNone(nearest?.candidate, slo, objective, input.trials.length),
    ...(best ? { best: best.candidate } : {}),
    ...(nearest ? { nearest: nearest.candidate } : {}),
    binding: subject ? bindingOf(subject, all, slo) : { what: 'unknown', evidence: 'no trial has finished' },
    front: paretoFront(all, input),
    ...(fronts ? { qualityFronts: fronts } : {}),
    alternatives: all
      .filter((j) => j !== subject)
      .map(({ candidate }) => ({ ...candidate, whyNot: whyNot(candidate, best?.candidate, objective) })),
    ...(fallback ? { defaultCandidate: fallback.candidate } : {}),
    ...(gain === undefined ? {} : { gainOverDefault: gain }),
    ...(confirmation ? { confirmation } : {}),
    confidence: confidenceOf(input.stop?.probabilityBetterExists, input.stop?.tolerance ?? 0.05),
    caveats: caveatsOf(input, all, best, confirmation),
    seed: input.seed,
    trials: input.trials.length,
  }
}

/**
 * An estimate that was not confirmed is optimistic: winners are winners partly by luck, and a window at the true capacity passes half the time.
 * It must be better by more than this to stand before a confirmed figure.
 */
const confirmationMargin = 0.1

/** The first in rank; a confirmed one where it is not worse by more than the margin. */
function bestOf(all: readonly Judged[]): Judged | undefined {
  const feasible = all.filter((j) => j.candidate.feasible)
  const [first] = feasible
  const confirmed = feasible.find((j) => j.confirmation?.state === 'complete')
  if (!first || !confirmed) return first
  const margin = confirmationMargin * Math.abs(confirmed.candidate.cost)
  return first.candidate.cost < confirmed.candidate.cost - margin ? first : confirmed
}

/** Of those that serve: the one that is over the price by least, else the fastest when idle. Those that cannot serve come last. */
function nearestOf(all: readonly Judged[]): Judged | undefined {
  const distance = ({ candidate: c }: Judged) => (c.capacityRps > 0 ? c.pricePerHour - 1e12 : c.sloMsAtCapacity)
  const served = all.filter((j) => j.measurement && Number.isFinite(distance(j)))
  return served.sort((a, b) => distance(a) - distance(b))[0]
}

function confirmationOf(best: Judged | undefined): Recommendation['confirmation'] {
  const trial = best?.confirmation
  if (trial?.state !== 'complete') return undefined
  const { capacityRps, points } = trial.measurement
  const steady = points.filter((p) => p.load.kind === 'open' && p.load.arrivals.kind !== 'sweep')
  const near = [...(steady.length > 0 ? steady : points)].sort(
    (a, b) => Math.abs(a.offeredRps - capacityRps) - Math.abs(b.offeredRps - capacityRps),
  )[0]
  if (!near) return undefined
  return {
    trial,
    held: capacityRps > 0,
    rateRps: capacityRps > 0 ? capacityRps : near.offeredRps,
    sloMs: near.sloMs,
    sloCi95Ms: near.sloCi95Ms,
  }
}

/** The figures a verdict stands by: the confirmed ones where the SLO is the one that was confirmed. */
function standingOf({ candidate }: Judged, confirmation: Recommendation['confirmation']): { rateRps: number; sloMs: number } {
  return confirmation?.held && !candidate.derived
    ? { rateRps: confirmation.rateRps, sloMs: confirmation.sloMs }
    : { rateRps: candidate.capacityRps, sloMs: candidate.sloMsAtCapacity }
}

function caveatsOf(
  input: RecommendInput,
  all: readonly Judged[],
  best: Judged | undefined,
  confirmation: Recommendation['confirmation'],
): string[] {
  const caveats = [...(input.notices ?? [])]
  if (input.provenance !== 'measured' && !caveats.some((c) => c.toLowerCase().includes(input.provenance))) {
    caveats.push(`the figures are ${input.provenance}, not measured on the hardware they name`)
  }
  if (best) {
    const { candidate } = best
    const [low, high] = candidate.capacityCi90Rps
    if (candidate.derived) caveats.push('read off load curves measured under another SLO: confirm before you rely on it')
    if (candidate.bound === 'lower')
      caveats.push(`the capacity is a lower bound: nothing above ${rate(candidate.capacityRps)} was measured`)
    if (candidate.bound === 'upper')
      caveats.push('the trial of the recommended configuration was cut short: its capacity is an upper bound')
    if (low > 0 && high / low > 1.5)
      caveats.push(`the capacity is uncertain: ${rateInterval(candidate.capacityCi90Rps)} req/s (90 % interval)`)
    if (confirmation && !confirmation.held) {
      caveats.push(`not confirmed: ${sloFigure(input.slo, confirmation.sloMs)} at ${rate(confirmation.rateRps)} in a second measurement`)
    }
    const rivals = all.filter((j) => j !== best && j.candidate.feasible && orderIsOpen(input.objective, j.candidate, candidate))
    if (rivals.length > 0) {
      const named = rivals.slice(0, 3).map((j) => `${j.candidate.label} (trial ${j.candidate.trial})`)
      caveats.push(`within the uncertainty of the best: ${named.join('; ')}${rivals.length > 3 ? ` and ${rivals.length - 3} more` : ''}`)
    }
    caveats.push(...(best.measurement?.caveats ?? []))
  }
  const failed = all.filter((j) => j.trial.state === 'failed').length
  if (failed > 0) caveats.push(`${failed} configuration${failed === 1 ? '' : 's'} could not be measured`)
  return [...new Set(caveats)]
}

/** The verdict in parts, the same on the terminal, the page and in the report. */
import type { Slo } from '../../profiler/model/slo.ts'
import { formatCost, getObjectiveWords } from '../../search/objective.ts'
import { splitConfiguration } from '../../trials/pipeline/stage-configuration.ts'
import { percent, percentileName, sloLimit, writing } from '../format.ts'
import { listCandidates } from './candidates.ts'
import { getOpenRivals } from './open-rivals.ts'
import type { Status } from './status.ts'
import type { Candidate, Recommendation } from './types.ts'
import { formatFigures } from './verdict.ts'
import { formatLatencyAtCapacity, formatRefutation, formatVariation } from './words.ts'

interface VerdictLines {
  /** 'Recommended', 'Best found, NOT confirmed'; absent if nothing meets the SLO. */
  readonly heading?: string
  /** The configuration, or the sentence that says why there is none. */
  readonly subject: string
  /** 'emulated GPU'; absent if the figures were measured. */
  readonly mark?: string
  /** '3,278 req/s at p99 26 ms (SLO 50 ms), $0.079 per million requests, 68 % cheaper than ...' */
  readonly figures?: string
  /** Whether the SLO is met, and how that is known. */
  readonly slo?: string
  /** Whether it is the cheapest, and how certain that is. */
  readonly cheapest?: string
  /** Commands that come next. */
  readonly next: readonly string[]
}

/** Headings of the recommended configuration. */
export const verdictHeadings = {
  found: 'Recommended',
  unconfirmed: 'Best found, NOT confirmed',
} as const

const marks = {
  measured: undefined,
  emulated: 'emulated GPU',
  simulated: 'simulated',
  imported: 'imported',
} as const

/**
 * Below this probability that nothing untried is cheaper by more than the tolerance, `tune resume`
 * is suggested. Assumed.
 */
const minCertainty = 0.8
/** A smaller saving would be printed as 0 %. */
const minSavingShare = 0.0005

export function listVerdictLines(recommendation: Recommendation): VerdictLines {
  const { best, slo, objective, conclusion, provenance } = recommendation
  const mark = marks[provenance]
  if (!best)
    return {
      subject: recommendation.verdict,
      ...(mark && { mark }),
      next: suggestWithoutBest(recommendation),
    }
  const latencies = slo.limits
    ? formatLatencyAtCapacity(slo, best)
    : formatLatencyAtCapacity(slo, best, `SLO ${sloLimit(slo)}`)
  const figures = formatFigures(best, objective, latencies, slo, {
    candidate: recommendation.defaultCandidate,
    gain: recommendation.gainOverDefault,
  })
  return {
    heading: verdictHeadings[conclusion === 'unconfirmed' ? 'unconfirmed' : 'found'],
    subject: best.quality === undefined ? best.label : `${best.label}, quality ${best.quality}`,
    ...(mark && { mark }),
    figures,
    slo: describeSlo(recommendation, best),
    cheapest: describeCheapest(recommendation, best),
    next: listNextCommands(recommendation),
  }
}

/** Whether the SLO is met, how that is known, and how measurements of it disagree. */
function describeSlo(recommendation: Recommendation, best: Candidate): string {
  const { confirmation, slo } = recommendation
  const variation = confirmation?.variation
  const statement = describeConfirmation(recommendation, best)
  return variation ? `${statement}; ${formatVariation(slo, variation)}` : statement
}

function describeConfirmation(
  { conclusion, confirmation, slo }: Recommendation,
  best: Candidate,
): string {
  switch (conclusion) {
    case 'confirmed':
      return confirmation?.proven
        ? 'met in a second, independent load test at this rate'
        : 'met in a second load test at this rate, with too few requests to prove it'
    case 'not asked':
      return 'measured once, as requested; not confirmed'
    case 'simulated':
      return 'simulated: nothing was measured'
    case 'imported':
      return 'as another tool measured it'
    default: {
      const violated = formatRefutation(slo, best)
      return violated
        ? `not confirmed: it ${violated}`
        : 'not confirmed: measured once, no second load test gave a result'
    }
  }
}

function describeCheapest(recommendation: Recommendation, best: Candidate): string {
  const { confidence } = recommendation
  const tied = listTiedRivals(recommendation)
  const [first] = tied
  if (first === undefined) return confidence.statement
  const others = tied.length === 1 ? '' : ` and ${tied.length - 1} more`
  const savingShare = best.cost > 0 && first.cost > 0 ? 1 - first.cost / best.cost : 0
  const { adjective } = getObjectiveWords(recommendation.objective.kind)
  const saving =
    savingShare > minSavingShare
      ? `, which is ${percent(savingShare)} ${adjective} if confirmed`
      : ''
  return `${confidence.statement}; statistically tied with ${first.label} (trial ${first.trial})${others}${saving}`
}

/** Configurations whose order behind the best is open, cheapest first. */
function listTiedRivals(recommendation: Recommendation): readonly Candidate[] {
  const { better, close } = getOpenRivals(recommendation)
  return [...better, ...close].filter(({ feasible }) => feasible).sort((a, b) => a.cost - b.cost)
}

function listNextCommands(recommendation: Recommendation): string[] {
  const { experimentId: id, conclusion, confidence, best } = recommendation
  const { probabilityWithinTolerance: probabilityNothingCheaper = 0 } = confidence
  const resume =
    conclusion !== 'imported' &&
    (conclusion === 'unconfirmed' || probabilityNothingCheaper < minCertainty)
      ? [resumeCommand(recommendation)]
      : []
  // Specs of a pipeline are not written yet.
  const isPipeline = best !== undefined && splitConfiguration(best.configuration) !== undefined
  return [...resume, `tune dashboard ${id}`, ...(isPipeline ? [] : [`tune spec ${id}`])]
}

/**
 * Proposes the trial limit of the run, or twice the trials once it is reached. Only trials with a
 * result count towards the limit.
 */
function resumeCommand(recommendation: Recommendation): string {
  const { experimentId: id, maxTrials = 0 } = recommendation
  const trialsWithResult = listCandidates(recommendation).filter(
    ({ status }) => !statusesWithoutResult.has(status),
  ).length
  const limit = trialsWithResult < maxTrials ? maxTrials : 2 * trialsWithResult
  return limit > 0 ? `tune resume ${id} --max-trials ${limit}` : `tune resume ${id}`
}

const statusesWithoutResult: ReadonlySet<Status> = new Set(['inconclusive', 'failed'])

/**
 * Suggests commands that may lead to a result: a looser SLO, or a repetition of disturbed trials.
 */
function suggestWithoutBest(recommendation: Recommendation): string[] {
  const { experimentId: id, nearest, slo } = recommendation
  const looser = nearest && suggestLooserSlo(nearest, slo)
  const first =
    looser !== undefined
      ? `tune show ${id} --slo ${looser}`
      : nearest?.status === 'inconclusive'
        ? resumeCommand(recommendation)
        : `tune show ${id}`
  return [first, `tune dashboard ${id}`]
}

/**
 * Suggests an SLO of twice the unloaded latency, as a flag's value: '3ms'. Undefined if that
 * latency does not violate the SLO, and for SLOs of more than one limit.
 */
function suggestLooserSlo({ status, sloMsFrom, sloMsAtCapacity: ms }: Candidate, slo: Slo) {
  if (slo.limits || slo.metric || status !== 'infeasible' || sloMsFrom !== 'unloaded')
    return undefined
  if (!Number.isFinite(ms) || ms <= slo.limitMs) return undefined
  const limit = `${Math.ceil(2 * ms)}ms`
  return slo.percentile === 0.99 ? limit : `'${percentileName(slo.percentile)}<${limit}'`
}

/** Describes the recommended row of a table, and why cheaper rows are not recommended. */
export function describeRecommended({ best, conclusion, alternatives }: Recommendation): string {
  const cheaper = alternatives.filter(({ feasible, cost }) => feasible && cost < best!.cost)
  const note = conclusion === 'unconfirmed' ? 'best found, NOT confirmed' : 'recommended'
  if (cheaper.length === 0) return note
  return cheaper.every(({ status }) => status === 'refuted')
    ? `${note} (cheaper ones failed confirmation)`
    : `${note} (statistically tied)`
}

/** '$0.079 per million requests' of a ranked candidate, '$1.20/h' of another. */
export const formatRankedCost = ({ objective }: Recommendation, candidate: Candidate): string =>
  candidate.feasible
    ? formatCost(objective, candidate, writing)
    : `${writing.money(candidate.pricePerHour)}/h`

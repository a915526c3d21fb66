/** Chooses the rates that a confirmation tries, given the results at earlier ones. */
import type { LoadRun } from '../../model/load-run.ts'
import type { PlayedLoad } from '../session.ts'
import type { ConfirmationPlan } from './confirm-options.ts'
import type { RateDecision, RateEvidence } from './rate-evidence.ts'

/**
 * Rates to try in this order, as shares of the first, until one meets the SLO. A window that
 * violates the SLO is cut as soon as that is certain. Assumed.
 */
const lowerRateShares = [1, 0.95, 0.9, 0.82, 0.65, 0.45, 0.25, 0.1]
/**
 * The next rate is at most this factor on a violated one: closer ones would violate the SLO too.
 * Assumed.
 */
const nextLowerFactor = 0.97
/**
 * Factor to the next rate after a rate without valid windows: a host too busy for one rate is too
 * busy for a slightly lower one. Assumed.
 */
const disturbedRetryFactor = 0.85
/**
 * Consecutive rates without a valid window that end the confirmation: lower rates take longer and
 * are disturbed as well. Assumed.
 */
const maxInvalidRates = 3
/**
 * Rates above this factor on the throughput of the overloaded server are skipped. The factor allows
 * for a server that answers less under overload. Assumed.
 */
const servedMargin = 1.1
/**
 * After the first violation, that throughput does not lower the rate below this share: where server
 * and generator share a host, an overloaded server answers far less than one just below overload.
 * Assumed.
 */
const minFirstRetryShare = 0.9
/** Minimum number of answers to estimate a throughput: a standard error of 22 %. */
const minServedAnswers = 20
/**
 * Factor from a rate that met the SLO without proof to the next one that may be proven. Growing
 * steps prove less (docs/research/capacity.md, tried without gain).
 */
export const proofStepFactor = 0.93
/**
 * Where the violated rate exceeds the met one by more than this factor, up to `maxRefinements`
 * rates between them are tried (`npm run bench:confirmation`: without them, rates are 0.3 to 1 %
 * lower).
 */
const minGapToRefine = 1.15
const maxRefinements = 2

/** A rate that was tried, with its evidence. */
export interface TriedRate {
  readonly rps: number
  readonly evidence: RateEvidence
  readonly decision: RateDecision | undefined
  readonly played: PlayedLoad
}

/** Results at the tried rates, requests per second. */
export interface RateHistory {
  /** Highest rate that met the SLO, proven or after its full time. */
  readonly metRate?: TriedRate
  /** Highest rate that met the SLO without proof, while it was given up for a lower one. */
  readonly unprovenRate?: TriedRate
  /** Last rate whose proof was given up. */
  readonly givenUpRps: number
  /** Evidence at that rate, if it met the SLO and no window is set aside for an outage. */
  readonly higherEvidence?: RateEvidence
  /** Lowest rate that violated the SLO. */
  readonly violatedRps: number
  /** Lowest rate that violated the SLO or had no valid window. */
  readonly lowestRps: number
  /** Rate that should be provable, extrapolated from the percentile at the last tried rate. */
  readonly provableRps: number
  /** Throughput at the last violated rate, which bounds the next rates. */
  readonly servedRps: number
  readonly violations: number
  /** Consecutive rates without a valid window. */
  readonly consecutiveInvalidRates: number
  /** Rates tried after the first one that met the SLO. */
  readonly refinements: number
}

export const emptyHistory: RateHistory = {
  givenUpRps: Number.POSITIVE_INFINITY,
  violatedRps: Number.POSITIVE_INFINITY,
  lowestRps: Number.POSITIVE_INFINITY,
  provableRps: Number.POSITIVE_INFINITY,
  servedRps: Number.POSITIVE_INFINITY,
  violations: 0,
  consecutiveInvalidRates: 0,
  refinements: 0,
}

/** Adds a tried rate to the history. */
export function recordRate(before: RateHistory, tried: TriedRate, unloadedMs: number): RateHistory {
  const { rps, evidence, decision, played } = tried
  const history = {
    ...before,
    provableRps: evidence.estimateProvableRps(unloadedMs),
    consecutiveInvalidRates: decision === 'invalid' ? before.consecutiveInvalidRates + 1 : 0,
    refinements: before.refinements + (before.metRate === undefined ? 0 : 1),
  }
  switch (decision) {
    case 'met':
      return { ...history, metRate: tried }
    case 'unproven':
      return {
        ...history,
        givenUpRps: rps,
        unprovenRate: before.unprovenRate ?? (evidence.isMet ? tried : undefined),
        higherEvidence: evidence.isMet && !evidence.hasOutage ? evidence : undefined,
      }
    case 'invalid':
      return { ...history, lowestRps: rps, unprovenRate: undefined, higherEvidence: undefined }
    default:
      return {
        ...history,
        lowestRps: rps,
        unprovenRate: undefined,
        higherEvidence: undefined,
        violatedRps: rps,
        violations: before.violations + 1,
        servedRps: computeServedRps(played.run),
      }
  }
}

/**
 * Chooses the next rate: lower useful ones until one meets the SLO, then rates up to the lowest one
 * that was not met. After a rate that could not be proven, slightly lower ones.
 */
export function chooseNextRate(history: RateHistory, plan: ConfirmationPlan): number | undefined {
  const { metRate, unprovenRate, lowestRps, givenUpRps, provableRps } = history
  if (metRate !== undefined) return chooseBetween(metRate.rps, history)
  if (givenUpRps < lowestRps) {
    const minProvenRps = scaleMinProvenRps(history, plan, unprovenRate?.rps ?? givenUpRps)
    const nextRps = proofStepFactor * givenUpRps
    if (nextRps >= minProvenRps)
      return Math.min(nextRps, Math.max(provableRps, minProvenRps, plan.minRps ?? 0))
    if (unprovenRate !== undefined) return undefined
  }
  return chooseLower(history, plan)
}

/** Chooses a rate between the one that met the SLO and the lowest one that did not. */
function chooseBetween(
  metRps: number,
  { lowestRps, givenUpRps, servedRps, refinements }: RateHistory,
): number | undefined {
  const highestRps = Math.min(lowestRps, givenUpRps, servedMargin * servedRps)
  return highestRps / metRps > minGapToRefine &&
    Number.isFinite(highestRps) &&
    refinements < maxRefinements
    ? Math.sqrt(metRps * highestRps)
    : undefined
}

/** Chooses a rate below those that did not meet the SLO. */
function chooseLower(
  {
    lowestRps,
    givenUpRps,
    servedRps,
    consecutiveInvalidRates,
    provableRps,
    violations,
  }: RateHistory,
  { rateRps, minRps = 0 }: ConfirmationPlan,
): number | undefined {
  if (consecutiveInvalidRates === maxInvalidRates) return undefined
  const belowRps = Math.min(
    consecutiveInvalidRates > 0 ? disturbedRetryFactor * lowestRps : lowestRps,
    givenUpRps,
  )
  const maxNextRps = consecutiveInvalidRates > 0 ? belowRps : nextLowerFactor * belowRps
  const lower = lowerRateShares
    .filter((share) => share * rateRps < belowRps)
    .map((share) => Math.min(share * rateRps, maxNextRps))
  const minFirstRps = violations > 1 ? 0 : minFirstRetryShare * rateRps
  const maxServedRps = Math.max(servedMargin * servedRps, minFirstRps)
  const next = lower.find((rps) => rps <= maxServedRps) ?? lower.at(-1)
  if (next === undefined) return undefined
  // A host too busy for this rate is too busy for another configuration that would win there.
  const isUseful = next === rateRps || next >= minRps || consecutiveInvalidRates > 0
  return isUseful ? Math.min(next, Math.max(provableRps, minFirstRps, minRps)) : undefined
}

/**
 * Computes the lowest rate whose proof is worth more than `metRps` without proof: `minProvenRps` as
 * requested; after a violation, scaled by `metRps` relative to `rateRps`.
 */
export const scaleMinProvenRps = (
  { violatedRps }: RateHistory,
  { minProvenRps = Number.POSITIVE_INFINITY, rateRps }: ConfirmationPlan,
  metRps: number,
): number => (violatedRps > rateRps ? minProvenRps : (minProvenRps * metRps) / rateRps)

/**
 * Computes the answers per second from the first answer to the end of a window; Infinity with too
 * few answers.
 */
function computeServedRps({ sentMs, latencyMs, seconds, cutMs = 1000 * seconds }: LoadRun): number {
  const answeredMs = sentMs.map((atMs, i) => atMs + latencyMs[i]!).filter((ms) => ms < cutMs - 0.01)
  if (answeredMs.length < minServedAnswers) return Number.POSITIVE_INFINITY
  const firstMs = answeredMs.reduce((a, b) => Math.min(a, b))
  return (1000 * (answeredMs.length - 1)) / (cutMs - firstMs)
}

/** Concludes a pass of the search: its outcome, its capacity, and whether another pass follows. */
import { rate } from '../../format.ts'
import { estimateBucketCapacity, fitTokenBucket } from '../admission-limits/token-bucket.ts'
import { computeHalfWidth, type SearchResult, unknownCapacity } from '../capacity-bounds.ts'
import { describeSlowdown } from '../changes/speed-change.ts'
import { computeClosedLoopShare } from '../closed-loop-share.ts'
import { describeDisturbedLoops } from '../host-interference.ts'
import {
  boundByBucket,
  boundByFailures,
  boundByRefusals,
  boundByViolation,
  isContradicted,
} from '../interval.ts'
import type { CapacityPosterior } from '../queue-model/posterior.ts'
import { boundSystemCapacity } from '../service-log/service-log.ts'
import type { SearchPass } from './search-pass.ts'

/**
 * A server is cold where it would gain more than this share of its speed in half as much time as it
 * was under load so far. A smaller gain is within the precision of a thorough measurement.
 */
const maxRemainingGain = 0.02

interface Conclusion {
  readonly result: SearchResult
  /** Reason to repeat the pass. Absent: the result is final. */
  readonly repeat?: 'server is cold' | 'saturation too low'
}

/**
 * Estimates the capacity with the full simulation budget, and chooses the outcome. The first rule
 * that applies decides.
 */
export async function concludePass(pass: SearchPass): Promise<Conclusion> {
  pass.finishEstimate()
  const { posterior, evidence, server } = pass
  const { rates, offered, speed } = evidence
  if (
    !posterior?.refusesWhenFull &&
    hasFailuresBelow(pass, posterior?.capacityRps ?? Number.POSITIVE_INFINITY)
  )
    return { result: concludeByFailures(pass) }
  if (posterior === undefined || posterior.capacityRps > offered.maxGeneratorRps)
    return {
      result: pass.buildResult(
        'generator-limit',
        'the load generator could not sustain the rate: the server may serve more',
        pass.boundByMetRate(),
      ),
    }
  if (pass.isSaturationTooLow) return concludeSaturationTooLow(pass)
  await server.warmUp?.recheckGain()
  const speedRatio = speed.lastGain > 1 ? speed.lastGain : 1 + pass.remainingGain
  if (speedRatio > 1 + maxRemainingGain)
    return { result: concludeSpeedUp(pass, speedRatio), repeat: 'server is cold' }
  if (rates.metRps === 0)
    return {
      result: pass.buildResult(
        'budget',
        'no open window met the SLO',
        boundByViolation(posterior, rates.violatedRps),
      ),
    }
  if (speed.maySlowDown || speed.relativeSpeed < 1) return { result: concludeSlowdown(pass) }
  return { result: concludeByRefusals(pass, posterior) ?? concludeByPrecision(pass, posterior) }
}

/** Concludes without a capacity: host interference disturbed the windows. */
export const concludeDisturbed = (pass: SearchPass, detail: string): SearchResult =>
  pass.buildResult('host-interference', detail, unknownCapacity)

/** Concludes without a capacity: interference slowed the closed loops, and no rate was too high. */
export const concludeSaturationTooLow = (pass: SearchPass): Conclusion => ({
  result: concludeDisturbed(pass, describeDisturbedLoops(pass.loops.saturationRps)),
  repeat: 'saturation too low',
})

function concludeByPrecision(pass: SearchPass, posterior: CapacityPosterior): SearchResult {
  const { evidence, context, relativeHalfWidth } = pass
  const isNarrow =
    relativeHalfWidth < 2 * context.effort.precision &&
    !isContradicted(posterior, evidence.windowRates) &&
    computeClosedLoopShare(posterior, context.session.fastestLoop) === undefined
  return pass.buildResult(
    isNarrow ? 'converged' : 'budget',
    posterior.refusesWhenFull
      ? (describeFailingRate(pass) ?? 'requests are refused once the queue is full')
      : undefined,
  )
}

function concludeSpeedUp(pass: SearchPass, speedRatio: number): SearchResult {
  const percent = ((speedRatio - 1) * 100).toFixed(0)
  const gainText =
    pass.evidence.speed.lastGain > 1
      ? `its last window was served ${percent} % faster than those before it`
      : `${percent} % in half of the time it took so far`
  return {
    ...pass.buildResult('non-stationary', `still speeding up: ${gainText}`, pass.boundByMetRate()),
    speedRatio,
  }
}

/** Reports the capacity of the server at its current speed. It may still get slower. */
function concludeSlowdown(pass: SearchPass): SearchResult {
  const { maySlowDown, relativeSpeed } = pass.evidence.speed
  return {
    ...pass.buildResult('non-stationary', describeSlowdown(relativeSpeed, maySlowDown)),
    speedRatio: relativeSpeed,
  }
}

/**
 * Finds the capacity of the token bucket behind the failures; only for a server that also answered
 * without failures.
 */
function findBucketCapacity(pass: SearchPass) {
  const bucket = pass.evidence.rates.errorFreeRps > 0 ? pass.fitBucket() : undefined
  return bucket && estimateBucketCapacity(bucket, pass.context.session.slo.maxErrorRate)
}

/** Whether requests fail below a rate, by windows or by a token bucket. */
function hasFailuresBelow(pass: SearchPass, rateRps: number): boolean {
  const { failingRps } = pass.evidence.rates
  if (!Number.isFinite(failingRps)) return false
  return Math.min(failingRps, findBucketCapacity(pass)?.rateRps ?? failingRps) < rateRps
}

/**
 * Reports a capacity that failures limit: requests fail at rates whose latency would meet the SLO,
 * by a full queue or a rate limit.
 */
function concludeByFailures(pass: SearchPass): SearchResult {
  const { evidence, posterior, context } = pass
  const { failingRps } = evidence.rates
  const bucket = findBucketCapacity(pass)
  const capacity =
    bucket === undefined
      ? boundByFailures(posterior, evidence.metBelowFailingRps, failingRps, evidence.windowRates)
      : boundByBucket(posterior, bucket, evidence.windowRates)
  const isNarrow = computeHalfWidth(capacity) < 2 * context.effort.precision
  const outcome = capacity.capacityRps > 0 ? (isNarrow ? 'converged' : 'budget') : 'errors'
  return pass.buildResult(outcome, describeFailingRate(pass), capacity)
}

/**
 * Reports a capacity with an unknown limit: requests were refused, but neither by a full queue nor
 * by an identified rate limit. Windows without refusals do not show where refusals begin. So the
 * interval reaches down to the capacity at the smallest system capacity that explains the refusals.
 * Undefined where no refusal is left to explain.
 */
function concludeByRefusals(
  pass: SearchPass,
  posterior: CapacityPosterior,
): SearchResult | undefined {
  if (posterior.refusesWhenFull) return undefined
  const { estimator, evidence, context } = pass
  const runs = [...context.session.loops, ...estimator.collectRunsWithRefusals()].filter(
    ({ errorKinds }) => Object.keys(errorKinds).some((kind) => kind !== 'timeout'),
  )
  const [minPresent] = boundSystemCapacity(runs) ?? []
  // A token bucket also refuses requests at an unloaded server, so it explains them without a
  // queue.
  if (minPresent === undefined || (minPresent < 2 && fitTokenBucket(runs) !== undefined))
    return undefined
  const smallestRps = minPresent > 1 ? estimator.estimateLowerEndRps(minPresent) : 0
  return pass.buildResult(
    'budget',
    'requests are refused under overload, but neither by a full queue nor by an identified rate limit: the rate at which refusals begin is unknown',
    boundByRefusals(posterior, smallestRps, evidence.windowRates),
  )
}

function describeFailingRate({ evidence }: SearchPass): string | undefined {
  const { failingRps } = evidence.rates
  return Number.isFinite(failingRps)
    ? `requests fail from ${rate(failingRps)} on, before they become slow`
    : undefined
}

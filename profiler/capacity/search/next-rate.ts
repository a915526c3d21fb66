/** Chooses the rate of the next window of a pass. */
import { estimateBucketCapacity } from '../admission-limits/token-bucket.ts'
import { chooseNextRate } from '../interval.ts'
import type { SearchPass } from './search-pass.ts'

/**
 * Rate of a window while there is no estimate, as a share of the saturation: most servers meet their
 * SLO there. Assumed.
 */
const startShare = 0.7
/**
 * Factor from a violated or failing rate to the next one, while no window has met the SLO. Assumed.
 */
const retryFactor = 0.9
/**
 * Factor from a failing rate to the next one, where no token bucket explains the failures. With 0.9,
 * two of six rate-limited servers of the release gate (docs/research/gate.md) were measured 5 and 10 % off, not 1 %.
 */
const belowFailingFactor = 0.85

/**
 * Chooses the next rate: the estimated capacity. While windows have violated the SLO and none has
 * met it, the rate is below all violations. It falls by a factor per window at most (`minNextRps`),
 * but stays below rates at which requests fail and rates that the generator cannot sustain.
 */
export function chooseRate(pass: SearchPass): number {
  const { rates, offered } = pass.evidence
  return Math.min(
    Math.max(offered.minNextRps, chooseByLatency(pass)),
    // A model that refuses requests already counts the failures in its estimate.
    pass.posterior?.refusesWhenFull || !Number.isFinite(rates.failingRps)
      ? Number.POSITIVE_INFINITY
      : chooseBelowFailures(pass, rates.failingRps),
    offered.maxGeneratorRps,
  )
}

function chooseByLatency({ posterior, evidence, loops }: SearchPass): number {
  const { metRps, violatedRps } = evidence.rates
  const estimatedRps = posterior
    ? chooseNextRate(posterior, evidence.windowRates)
    : startShare * loops.saturationRps
  return metRps > 0 || !Number.isFinite(violatedRps)
    ? estimatedRps
    : Math.min(posterior?.capacityCi90Rps[0] ?? estimatedRps, retryFactor * violatedRps)
}

function chooseBelowFailures(pass: SearchPass, failingRps: number): number {
  const bucket = pass.fitBucket()
  if (bucket === undefined) return belowFailingFactor * failingRps
  const { slo } = pass.context.session
  const errorFreeRps = estimateBucketCapacity(bucket, slo.maxErrorRate).rateRps
  // Earlier windows have emptied the bucket. It refills only while the load is below its rate.
  return pass.evidence.rates.metRps > 0
    ? errorFreeRps
    : retryFactor * Math.min(errorFreeRps, failingRps)
}

/**
 * Detects that the share of slow hours has risen, hour by hour: a Shiryaev-Roberts e-detector (Shin,
 * Ramdas and Rinaldo, "E-detectors: a nonparametric framework for sequential change detection", New
 * England Journal of Statistics in Data Science 2, 2024). For each hour at which a change may have
 * begun, a gambler bets against "an hour is slow with probability `maxQuietSlowShare` at most,
 * whatever happened before". The sum of their capital is the evidence. For a server that has not
 * changed, it reaches N after at least N hours on average. That holds for every distribution of
 * latencies, because only slow or not slow counts.
 */

/** Highest probability of a slow hour for a server that has not changed, whatever came before. */
export const maxQuietSlowShare = 0.3

/** Shares of slow hours after a change that gamblers bet on: a small change, and a large one. */
const alternativeSlowShares = [0.6, 0.95] as const

/** Capital by alternative share, summed over all hours at which a change may have begun. */
export type Evidence = readonly number[]
export const initialEvidence: Evidence = alternativeSlowShares.map(() => 0)

/**
 * Shiryaev-Roberts update: the previous capital and a new unit stake, which is split over the
 * alternatives, times the likelihood ratio of this hour.
 */
export const updateEvidence = (previous: Evidence, isSlow: boolean): Evidence =>
  alternativeSlowShares.map(
    (share, i) =>
      ((previous[i] ?? 0) + 1 / alternativeSlowShares.length) *
      (isSlow ? share / maxQuietSlowShare : (1 - share) / (1 - maxQuietSlowShare)),
  )

/**
 * Sums the evidence. A server that has not changed reaches a sum of N after at least N hours on
 * average, so the sum is a lower bound of the mean hours between false alarms at that threshold.
 */
export const sumCapital = (evidence: Evidence): number =>
  evidence.reduce((sum, capital) => sum + capital, 0)

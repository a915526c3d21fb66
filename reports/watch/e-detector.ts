/**
 * Detects that the share of slow hours has risen, hour by hour: a Shiryaev-Roberts e-detector (Shin,
 * Ramdas and Rinaldo, "E-detectors: a nonparametric framework for sequential change detection", New
 * England Journal of Statistics in Data Science 2, 2024). For each hour at which a change may have
 * begun, a gambler bets against "an hour is slow with probability `maxQuietSlowShare` at most,
 * whatever happened before". The sum of their capital reaches N no sooner than after N quiet hours on
 * average. That holds for every distribution of latencies, because only slow or not slow counts.
 */

/** Highest probability of a slow hour for a server that has not changed, whatever came before. */
export const maxQuietSlowShare = 0.3

/** Shares of slow hours that gamblers bet on: a change near the noise, and a clear one. */
const slowShares = [0.6, 0.95] as const

/** Capital by share in `slowShares`, summed over all hours at which a change may have begun. */
export type Evidence = readonly number[]
export const initialEvidence: Evidence = slowShares.map(() => 0)

export const updateEvidence = (before: Evidence, slow: boolean): Evidence =>
  slowShares.map(
    (share, i) =>
      ((before[i] ?? 0) + 1 / slowShares.length) *
      (slow ? share / maxQuietSlowShare : (1 - share) / (1 - maxQuietSlowShare)),
  )

/** Mean hours, at least, until a server that has not changed reaches this evidence. */
export const sumCapital = (evidence: Evidence): number =>
  evidence.reduce((sum, capital) => sum + capital, 0)

/**
 * When a share of hours has risen, decided hour by hour: a Shiryaev-Roberts e-detector (Shin,
 * Ramdas and Rinaldo, "E-detectors: a nonparametric framework for sequential change detection", New
 * England Journal of Statistics in Data Science 2, 2024). For each hour at which a change may have
 * begun a gambler bets against "whatever happened before, an hour is slow with probability
 * `quietShare` at most"; the sum of their capitals reaches N no sooner than after N quiet hours on
 * average, whatever the distribution of what the hours are judged by: only that they are slow or
 * not counts, so that no tail, however heavy, does.
 */

/**
 * The most often that an hour of a server that has not changed is slow, whatever the hours before
 * it were.
 */
export const quietShare = 0.3

/**
 * Shares that are bet on: of a change that hides behind noise, and of a clear one. Each has half of
 * the capital.
 */
const bets = [0.6, 0.95] as const

/** Capital of each bet, all beginnings together. */
export type Evidence = readonly number[]
export const noEvidence: Evidence = bets.map(() => 0)

export const afterHour = (before: Evidence, slow: boolean): Evidence =>
  bets.map(
    (share, i) =>
      ((before[i] ?? 0) + 1 / bets.length) *
      (slow ? share / quietShare : (1 - share) / (1 - quietShare)),
  )

/**
 * In hours: of a server that has not changed it is reached once in so many on average, or more
 * rarely.
 */
export const hoursOf = (evidence: Evidence): number =>
  evidence.reduce((sum, capital) => sum + capital, 0)

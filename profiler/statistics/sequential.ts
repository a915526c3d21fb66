/**
 * Deciding while looking. Evidence on the share of requests over a limit that may be looked at
 * after every window, and acted on at once: all the looking does not raise its error rate.
 */

/**
 * Shares that are bet on, as parts of the allowed one, each with its part of the capital: a third
 * of it on the clear cases.
 */
const keepingBets = [
  [0.02, 0.35],
  [0.1, 0.13],
  [0.2, 0.13],
  [0.35, 0.13],
  [0.5, 0.13],
  [0.65, 0.13],
] as const
const missingBets = [
  [1.5, 0.1],
  [2, 0.2],
  [3, 0.2],
  [5, 0.2],
  [10, 0.2],
  [30, 0.1],
] as const
/** No bet is on a share beyond this. */
const mostShare = 0.95

/**
 * E-values of `over` among n independent requests: against "the share over the limit is the allowed
 * one or more" (`kept`), and against "the allowed one or less" (`missed`). Each is a mixture of
 * likelihood ratios, the capital of a gambler who spreads it over these bets: a nonnegative
 * supermartingale under what it speaks against, which ever reaches 1/α with probability α at most,
 * however often it is looked at (Ville 1939). Robbins, Annals of Mathematical Statistics 41 (1970);
 * Howard, Ramdas, McAuliffe and Sekhon, Annals of Statistics 49 (2021); Waudby-Smith and Ramdas,
 * Journal of the Royal Statistical Society B 86 (2024). Neither count need be whole: dependent
 * requests enter as the fewer independent ones that say as much (dependence.ts), which is an
 * estimate, and so is the error rate then.
 */
export function evidenceOn(
  n: number,
  over: number,
  allowed: number,
): { readonly kept: number; readonly missed: number } {
  const against = (bets: readonly (readonly [part: number, capital: number])[]) => {
    const logs = bets.map(([part, capital]) => {
      const share = Math.min(mostShare, part * allowed)
      return (
        Math.log(capital) +
        over * Math.log(share / allowed) +
        (n - over) * (Math.log1p(-share) - Math.log1p(-allowed))
      )
    })
    const most = Math.max(...logs)
    return Math.exp(most) * logs.reduce((sum, log) => sum + Math.exp(log - most), 0)
  }
  return { kept: against(keepingBets), missed: against(missingBets) }
}

/** What an e-value makes sure of, 0 to 1: one of 100 is 99 %. */
export const sureness = (evidence: number): number => Math.max(0, 1 - 1 / evidence)

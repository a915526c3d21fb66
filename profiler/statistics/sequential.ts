/**
 * Sequential test of the share of requests over a limit. It may be evaluated after every window,
 * and the decision taken at once, without a higher error rate.
 */

/**
 * Alternatives of the test: [factor on the allowed share, weight in the mixture]. The weights sum
 * to 1; about a third goes to clear cases. Any choice keeps the error rate; these are assumed to
 * decide soon.
 */
const metAlternatives = [
  [0.02, 0.35],
  [0.1, 0.13],
  [0.2, 0.13],
  [0.35, 0.13],
  [0.5, 0.13],
  [0.65, 0.13],
] as const
const violatedAlternatives = [
  [1.5, 0.1],
  [2, 0.2],
  [3, 0.2],
  [5, 0.2],
  [10, 0.2],
  [30, 0.1],
] as const
/** Limit on the share of an alternative, which is a probability below 1. */
const maxShare = 0.95

/**
 * Computes e-values of a number of violations among n independent requests. `met` is evidence
 * against "the share over the limit is at least the allowed one", `violated` against "at most the
 * allowed one". Each is a mixture of likelihood ratios: a nonnegative supermartingale under the
 * hypothesis it tests, which ever reaches 1/α with probability α at most, however often it is
 * evaluated (Ville 1939). Robbins, Annals of Mathematical Statistics 41 (1970); Howard, Ramdas,
 * McAuliffe and Sekhon, Annals of Statistics 49 (2021); Waudby-Smith and Ramdas, Journal of the
 * Royal Statistical Society B 86 (2024). Counts need not be whole: correlated requests enter by
 * their effective sample size (dependence.ts), which is an estimate, and so is the error rate.
 */
export function computeEValues(
  n: number,
  violations: number,
  allowed: number,
): { readonly met: number; readonly violated: number } {
  const mixRatios = (alternatives: readonly (readonly [factor: number, weight: number])[]) => {
    const logs = alternatives.map(([factor, weight]) => {
      const share = Math.min(maxShare, factor * allowed)
      return (
        Math.log(weight) +
        violations * Math.log(share / allowed) +
        (n - violations) * (Math.log1p(-share) - Math.log1p(-allowed))
      )
    })
    const max = Math.max(...logs)
    return Math.exp(max) * logs.reduce((sum, log) => sum + Math.exp(log - max), 0)
  }
  return { met: mixRatios(metAlternatives), violated: mixRatios(violatedAlternatives) }
}

/** Converts an e-value to a confidence, 0 to 1: an e-value of 100 is 99 %. */
export const convertEValue = (evidence: number): number => Math.max(0, 1 - 1 / evidence)

/** Gain that makes a further trial worthwhile. Pure. */
import { money, percent, significant } from '../../reports/format.ts'
import { getDemand, getMetric } from '../../search/objective.ts'
import type { Outlook } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { Experiment } from '../config/types.ts'

/** Gains are shares of the cost of the best configuration, 0.004 = 0.4 %. */
export interface RequiredGain {
  /** Tolerance of the search. */
  readonly tolerance: number
  /**
   * Gain of the next trial that pays for it within a year, and how it was computed. Absent: the
   * objective is no price.
   */
  readonly payback?: { readonly minGain: number; readonly reason: string }
}

interface Expenses {
  readonly trials: readonly FinishedTrial[]
  /** Price of all trials, $. */
  readonly spentUsd: number
  /** The best so far: its cost by the objective, and the price of one replica, $ per hour. */
  readonly best: { readonly cost: number; readonly pricePerHour: number }
}

const hoursPerYear = 8760
/** Value of the time in which someone waits for the result: a dollar a minute. Assumed. */
const waitingUsdPerHour = 60

/**
 * Minimum expected saving of all further trials together, as a share of the tolerance. Savings
 * within the tolerance count as none (docs/research/search.md, flat optima).
 */
const minRegretShare = 0.4
/**
 * Share of the gain that remains after each trial. `npm run bench:virtual-job -- --gains`
 * shows 0.75 to 0.8.
 */
const remainingGainShare = 0.8

/**
 * Computes two conditions for a further trial; the search ends once either fails. All further
 * trials together must be expected to gain two fifths of the tolerance (expected simple regret:
 * Ishibashi et al., A stopping criterion for Bayesian optimization by the gap of expected minimum
 * simple regrets, AISTATS 2023). The next trial must save its own cost within a year: its price and
 * the waiting time, compared with the yearly bill (Xie et al., Cost-aware stopping for Bayesian
 * optimization, 2025).
 */
export function computeRequiredGain(
  { stop, objective }: Pick<Experiment, 'stop' | 'objective'>,
  { trials, spentUsd, best }: Expenses,
): RequiredGain {
  const { tolerance } = stop
  if (getMetric(objective) !== undefined) return { tolerance }
  const yearlyBill =
    stop.yearlyBill ?? hoursPerYear * (getDemand(objective) ? best.cost : best.pricePerHour)
  const waitingHours = trials.reduce((sum, { seconds }) => sum + seconds, 0) / 3600
  const trialCost = (spentUsd + waitingHours * waitingUsdPerHour) / Math.max(1, trials.length)
  const reason = `it costs ${money(trialCost)} including time, of a yearly bill of ${money(yearlyBill)}`
  return { tolerance, payback: { minGain: trialCost / yearlyBill, reason } }
}

/**
 * Explains why a further trial is not worthwhile. Undefined: it is, or there are too few trials.
 */
export function explainNotWorthwhile(
  outlook: Outlook | undefined,
  { tolerance, payback }: RequiredGain,
): string | undefined {
  if (outlook === undefined || outlook.minTrials > 0) return undefined
  const { gain, regret } = outlook
  const formatShare = (gainShare: number) => `${significant(100 * gainShare)} %`
  if (regret < minRegretShare * tolerance)
    return `the best untried configuration is expected to save ${formatShare(regret)} where a saving within the tolerance of ${percent(tolerance)} counts as none`
  if (payback !== undefined && gain < payback.minGain)
    return `another trial is expected to save ${formatShare(gain)}, less than the ${formatShare(payback.minGain)} that would pay for it (${payback.reason})`
  return undefined
}

/** Estimates the trials until a further one is not worthwhile, if the gain decays geometrically. */
export function estimateTrialsLeft(
  { minTrials, gain, regret }: Outlook,
  { tolerance, payback }: RequiredGain,
): number {
  const countTrialsUntil = (value: number, min: number) =>
    value < min ? 0 : 1 + Math.floor(Math.log(value / min) / -Math.log(remainingGainShare))
  return Math.max(
    minTrials,
    Math.min(
      countTrialsUntil(regret, minRegretShare * tolerance),
      payback ? countTrialsUntil(gain, payback.minGain) : Number.POSITIVE_INFINITY,
    ),
  )
}

/** What another trial has to gain to be worth its while. Pure. */
import { money, percent, significant } from '../../reports/format.ts'
import { getDemand, getMetric } from '../../search/objective.ts'
import type { Outlook } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { Experiment } from '../experiment/types.ts'

export interface Worth {
  /** Of the search: all trials to come together must be expected to gain `idleShare` of it. */
  readonly tolerance: number
  /**
   * What the next one must be expected to gain, of the least cost so far, 0.004 = 0.4 %, and why.
   * Absent: no bill falls with the objective.
   */
  readonly paid?: { readonly leastGain: number; readonly because: string }
}

interface Spending {
  readonly trials: readonly FinishedTrial[]
  /** Price of all of them, $. */
  readonly spent: number
  /** The best so far: what it costs by the objective, and an hour of one replica, $. */
  readonly best: { readonly cost: number; readonly pricePerHour: number }
}

const hoursPerYear = 8760
/** $: what an hour that someone waits for the answer is worth, a dollar a minute. */
const waitingPerHour = 60

/** Of the tolerance: what all the trials to come must be expected to gain together. */
const idleShare = 2 / 3
/**
 * Share of what there is to gain that a trial leaves (`npm run bench:virtual-job -- --gains`: three
 * quarters to four fifths).
 */
const leaves = 0.8

/**
 * Who is content with a tolerance of 5 % has no use for trials that would gain less than two thirds
 * of it together, however many more may run. Where a trial takes long, on dear machines, it must
 * also save what it costs within a year: its price and the wait for it, beside the yearly bill.
 * Stopping where what is expected to be left to gain (the expected simple regret) is small:
 * Ishibashi et al., A stopping criterion for Bayesian optimization by the gap of expected minimum
 * simple regrets, AISTATS 2023; where the expected gain no longer pays for the next evaluation: Xie
 * et al., Cost-aware stopping for Bayesian optimization, 2025.
 */
export function worthOfTrial(
  { stop, objective }: Pick<Experiment, 'stop' | 'objective'>,
  { trials, spent, best }: Spending,
): Worth {
  const { tolerance } = stop
  if (getMetric(objective) !== undefined) return { tolerance }
  const bill =
    stop.yearlyBill ?? hoursPerYear * (getDemand(objective) ? best.cost : best.pricePerHour)
  const waited = trials.reduce((sum, { seconds }) => sum + seconds, 0) / 3600
  const costs = (spent + waited * waitingPerHour) / Math.max(1, trials.length)
  const because = `it costs ${money(costs)} including time, of a yearly bill of ${money(bill)}`
  return { tolerance, paid: { leastGain: costs / bill, because } }
}

/**
 * Why another trial is not worth it; undefined where it is, or where there is too little to go by.
 */
export function notWorth(
  outlook: Outlook | undefined,
  { tolerance, paid }: Worth,
): string | undefined {
  if (outlook === undefined || outlook.minTrials > 0) return undefined
  const { gain, regret } = outlook
  const share = (of: number) => `${significant(100 * of)} %`
  if (regret < idleShare * tolerance)
    return `the best untried configuration is expected to save ${share(regret)}, less than two thirds of the tolerance of ${percent(tolerance)}`
  if (paid !== undefined && gain < paid.leastGain)
    return `another trial is expected to save ${share(gain)}, less than the ${share(paid.leastGain)} that would pay for it (${paid.because})`
  return undefined
}

/**
 * How many more trials there will be until another is not worth it, each leaving its part of what
 * there is to gain.
 */
export function trialsUntilIdle(
  { minTrials, gain, regret }: Outlook,
  { tolerance, paid }: Worth,
): number {
  const until = (now: number, least: number) =>
    now < least ? 0 : 1 + Math.floor(Math.log(now / least) / -Math.log(leaves))
  return Math.max(
    minTrials,
    Math.min(
      until(regret, idleShare * tolerance),
      paid ? until(gain, paid.leastGain) : Number.POSITIVE_INFINITY,
    ),
  )
}

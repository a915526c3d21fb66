/** What another trial has to gain to be worth its while. Pure. */
import { money, percent } from '../../reports/format.ts'
import { demandOf, metricOf } from '../../search/objective.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { Experiment } from '../experiment/types.ts'

export interface Worth {
  /** Of the least cost so far, 0.004 = 0.4 %. */
  readonly leastGain: number
  /** Why so much. */
  readonly because: string
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
/** What all trials to come are expected to gain together, as many times what the next one is: each leaves about half to gain (`npm run bench:virtual-job -- --gains`). */
const allOverNext = 2

/**
 * Who is content with a tolerance of 5 % has no use for trials that would gain less than two thirds of it together, however many more may run. Where a trial takes
 * long, on dear machines, it must also save what it costs within a year: its price and the wait for it, beside the yearly bill. Stopping where the
 * expected gain no longer pays for the next evaluation: Xie et al., Cost-aware stopping for Bayesian optimization, 2025.
 */
export function worthOfTrial({ stop, objective }: Pick<Experiment, 'stop' | 'objective'>, { trials, spent, best }: Spending): Worth {
  const idle = (idleShare * stop.tolerance) / allOverNext
  const bill = stop.yearlyBill ?? hoursPerYear * (demandOf(objective) ? best.cost : best.pricePerHour)
  const waited = trials.reduce((sum, { seconds }) => sum + seconds, 0) / 3600
  const costs = (spent + waited * waitingPerHour) / Math.max(1, trials.length)
  const paid = costs / bill
  // No bill falls with a metric.
  return paid > idle && metricOf(objective) === undefined
    ? { leastGain: paid, because: `it costs ${money(costs)}, its time counted, of a bill of ${money(bill)} a year` }
    : {
        leastGain: idle,
        because: `all that come would gain about ${allOverNext} times as much together: two thirds of a tolerance of ${percent(stop.tolerance)}`,
      }
}

/** How many more trials there will be until another is not worth it, each leaving its part of what there is to gain. */
export const trialsUntilIdle = (expectedGain: number, leastGain: number): number =>
  expectedGain < leastGain ? 0 : 1 + Math.floor(Math.log(expectedGain / leastGain) / -Math.log(1 - 1 / allOverNext))

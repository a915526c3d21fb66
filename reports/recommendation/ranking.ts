/** Ranks configurations by their trials, under an SLO, an objective and prices. */
import { configurationKey } from '../../search/space/space.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { assessCapacity } from './capacity-assessment.ts'
import {
  buildCandidate,
  buildUnservedCandidate,
  type RankedCandidate,
  type RankingCriteria,
} from './ranked-candidate.ts'
import { explainUnserved } from './reasons.ts'

/** One candidate per configuration, best first; those not known to meet the SLO come last. */
export const rankCandidates = (
  trials: readonly FinishedTrial[],
  criteria: RankingCriteria,
): RankedCandidate[] =>
  groupByConfiguration(trials)
    .map((group) => rankConfiguration(group, criteria))
    .sort(compareRank)

function rankConfiguration(
  { trial, confirmations }: ConfigurationTrials,
  criteria: RankingCriteria,
): RankedCandidate {
  if (trial.state !== 'complete')
    return { trial, candidate: buildUnservedCandidate(trial, explainUnserved(trial), criteria) }
  const last = confirmations.at(-1)
  if (last?.state === 'infeasible') {
    return {
      trial,
      candidate: buildUnservedCandidate(
        trial,
        `served once, but not in its second load test: ${explainUnserved(last)}`,
        criteria,
      ),
    }
  }
  const complete = confirmations.filter((c) => c.state === 'complete')
  const assessment = assessCapacity(trial, complete, criteria.slo, criteria.curve)
  const { confirmation, measurement, curve } = assessment
  return {
    trial,
    confirmation,
    measurement,
    curve,
    candidate: buildCandidate([trial, ...complete], assessment, criteria),
  }
}

/** The trials of one configuration. */
interface ConfigurationTrials {
  /**
   * The one that represents it: the last of those with the most information. An inconclusive or
   * failed one counts only where there is nothing better.
   */
  readonly trial: FinishedTrial
  /** Second measurements, in time order, without those that failed. */
  readonly confirmations: readonly FinishedTrial[]
}

export function groupByConfiguration(trials: readonly FinishedTrial[]): ConfigurationTrials[] {
  const groups = new Map<string, ConfigurationTrials>()
  for (const trial of trials) {
    const key = configurationKey(trial.configuration)
    const group = groups.get(key)
    if (trial.purpose === 'confirmation' && group) {
      if (trial.state !== 'failed')
        groups.set(key, { ...group, confirmations: [...group.confirmations, trial] })
    } else if (!group || rankInformation(trial) >= rankInformation(group.trial)) {
      groups.set(key, { confirmations: group?.confirmations ?? [], trial })
    }
  }
  return [...groups.values()]
}

/** 2: informs about its configuration; 1: shows only that it served; 0: nothing. */
const rankInformation = (trial: FinishedTrial): number =>
  trial.state === 'failed'
    ? 0
    : trial.state === 'complete' && trial.measurement.bounds === 'none'
      ? 1
      : 2

/**
 * Feasible before infeasible, lower cost first; equal cost: the higher capacity, then the earlier
 * trial.
 */
export function compareRank(
  { candidate: a }: RankedCandidate,
  { candidate: b }: RankedCandidate,
): number {
  if (a.feasible !== b.feasible) return a.feasible ? -1 : 1
  if (a.cost !== b.cost) return a.cost - b.cost
  return b.capacityRps - a.capacityRps || a.trial - b.trial
}

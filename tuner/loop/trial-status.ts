/** How the loop treats a finished trial: whether it counts, and whether it has a result. */
import { hasNoResult } from '../../profiler/capacity/capacity-bounds.ts'
import type { FinishedTrial, TrialPurpose } from '../../trials/types.ts'

/**
 * Whether other work on the machine kept the server or the load generator from the cores, so that
 * the measurement is invalid.
 */
export const wasDisturbed = (trial: FinishedTrial): boolean =>
  trial.state === 'complete' &&
  (trial.measurement.outcome === 'host-interference' ||
    (trial.measurement.outcome === 'generator-limit' && hasNoResult(trial.measurement)))

/**
 * Whether no node had room for the trial. The failure is final for this run alone, because there may
 * be room when the experiment is resumed.
 */
export const isUnplaced = (trial: FinishedTrial): boolean =>
  trial.state === 'failed' && trial.final === 'run'

/** Whether a trial belongs to the search, as the baseline does. */
export const isSearchTrial = ({ purpose }: { readonly purpose?: TrialPurpose }): boolean =>
  purpose !== 'confirmation'

/**
 * Whether a trial counts towards the maximum number of trials. Confirmations do not, nor do trials
 * that say nothing about their configuration: failed ones and disturbed ones.
 */
export const countsAsTrial = (trial: FinishedTrial): boolean =>
  trial.state !== 'failed' && isSearchTrial(trial) && !wasDisturbed(trial)

/**
 * Whether the stop rule is evaluated after the trial. A failed trial adds no observation, unless
 * it was unplaced: the search avoids its configuration for the rest of this run.
 */
export const isAssessed = (trial: FinishedTrial): boolean =>
  trial.state !== 'failed' || isUnplaced(trial)

/**
 * Re-ranks a stored experiment under its own or another SLO, demand or price book. Runs no trials.
 */
import {
  type Candidate,
  conclusions,
  type Recommendation,
} from '../../../reports/recommendation/types.ts'
import type { Annotations } from '../../../trials/annotation.ts'
import { parseCount } from '../../config/values/units.ts'
import { exitCodes, resolveExitCode, UserError } from '../../exit-codes.ts'
import { type GoalOverrides, type Reevaluation, reevaluate } from '../../loop/reevaluation.ts'
import { findExperiment, openExistingStore } from './open-existing.ts'

/** Flags of all commands on stored experiments. */
export interface ReopenFlags extends GoalOverrides {
  readonly db: string
}

export interface ReopenedExperiment extends Reevaluation {
  /** Annotations of the experiment and its trials. */
  readonly annotations: Annotations
}

/**
 * The experiment of that id, or the newest.
 * @throws UserError, ConfigError and StoreError
 */
export async function reopenExperiment(
  id: string | undefined,
  flags: ReopenFlags,
): Promise<ReopenedExperiment> {
  const store = await openExistingStore(flags.db)
  try {
    const loaded = await findExperiment(store, id)
    const storedAnnotations = await store.annotations(loaded.experiment.id)
    return {
      ...(await reevaluate(loaded, flags)),
      annotations: storedAnnotations.get(loaded.experiment.id) ?? new Map(),
    }
  } finally {
    await store.close()
  }
}

/**
 * Chooses the recommended candidate, or that of a trial.
 * @throws UserError if there is none
 */
export function chooseCandidate(
  recommendation: Recommendation,
  trial: string | undefined,
): Candidate {
  const { best, nearest, alternatives, experimentId, conclusion } = recommendation
  if (trial === undefined) {
    if (best) return best
    throw new UserError(
      `experiment ${experimentId}: ${conclusions[conclusion]}`,
      'choose a trial with --trial, or rank by another SLO: tune show --slo',
      resolveExitCode(recommendation),
    )
  }
  const number = parseCount(trial, 1)
  const match = [best, nearest, ...alternatives].find((c) => c?.trial === number)
  if (match) return match
  const feasibleTrials = [best, ...alternatives].flatMap((c) => (c?.feasible ? [c.trial] : []))
  throw new UserError(
    `experiment ${experimentId} has no trial ${number} that serves`,
    `trials that serve: ${feasibleTrials.join(', ') || 'none'}`,
    exitCodes.usage,
  )
}

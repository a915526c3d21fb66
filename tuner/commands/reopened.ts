/**
 * A stored experiment, seen again under its own or another SLO, demand or price book. Runs nothing.
 */
import type { Annotations } from '../../trials/annotation.ts'
import { type QuestionOverrides, type Reevaluation, reevaluate } from '../loop/reevaluation.ts'
import { loadExperiment as findExperiment, openExisting } from './open-existing.ts'

/** The flags that every command on stored experiments understands. */
export interface ReopenFlags extends QuestionOverrides {
  readonly db: string
}

export interface Reopened extends Reevaluation {
  /** What people wrote beside it and its trials. */
  readonly annotations: Annotations
}

/** The experiment of that id, or the newest. @throws UserError, ConfigError and StoreError. */
export async function reopen(id: string | undefined, flags: ReopenFlags): Promise<Reopened> {
  const store = await openExisting(flags.db)
  try {
    const found = await findExperiment(store, id)
    const written = await store.annotations(found.experiment.id)
    return {
      ...(await reevaluate(found, flags)),
      annotations: written.get(found.experiment.id) ?? new Map(),
    }
  } finally {
    await store.close()
  }
}

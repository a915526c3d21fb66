/** Earlier experiments of the trial store, as the search learns from them. */
import type { PastExperiment, SearchSpace } from '../../search/types.ts'
import type { TrialStore } from '../../trials/types.ts'
import { experimentFromDocument } from '../experiment/load-experiment.ts'
import type { Experiment, ExperimentDocument } from '../experiment/types.ts'
import { provenanceOf } from './notices.ts'
import { observationOf, outdatedReadings, scaleOf } from './observations.ts'
import { onlyLookedAt } from './seen-again.ts'

/** The newest so many are learned from: each costs a fit, and old ones tell of old machines. */
const MOST = 8
/** Fewer trials than this say little of a space. */
const LEAST_TRIALS = 4

/**
 * Experiments begun before this one, of the same provenance, that tuned nothing this one does not:
 * so that resuming finds the same ones. Newest first. Specifications that this version cannot read
 * are left out and named in `unread`.
 */
export async function historyOf(
  experiment: Experiment,
  experimentId: string,
  store: TrialStore,
): Promise<{ past: readonly PastExperiment[]; unread: readonly string[] }> {
  const records = await store.list()
  const begun = records.find((r) => r.id === experimentId)?.createdAt
  if (!experiment.history || begun === undefined) return { past: [], unread: [] }
  const candidates = records
    .filter(
      (r) =>
        r.createdAt < begun &&
        r.provenance === provenanceOf(experiment) &&
        r.trials >= LEAST_TRIALS,
    )
    .sort((a, b) => b.createdAt.localeCompare(a.createdAt))
  const past: PastExperiment[] = []
  const unread: string[] = []
  for (const { id } of candidates) {
    if (past.length === MOST) break
    const found = await store.load(id)
    if (!found) continue
    const space = spaceOf(found.experiment.spec as ExperimentDocument, id)
    if (!space) unread.push(id)
    else if (tunesNothingElse(space, experiment.space)) {
      const scale = scaleOf(found.trials, experiment.objective)
      const outdated = new Set(outdatedReadings(found.trials))
      const standing = found.trials.filter((trial) => !outdated.has(trial))
      const observations = standing.flatMap(
        (trial) => observationOf(trial, experiment.objective, scale) ?? [],
      )
      if (observations.length >= LEAST_TRIALS) past.push({ name: id, space, observations })
    }
  }
  return { past, unread }
}

function spaceOf(document: ExperimentDocument, id: string): SearchSpace | undefined {
  try {
    return experimentFromDocument(document, id, onlyLookedAt()).space
  } catch {
    // Of another version, or of files that are gone: the caller names it.
    return undefined
  }
}

const tunesNothingElse = (past: SearchSpace, space: SearchSpace): boolean => {
  const names = new Set(space.parameters.map((p) => p.name))
  return past.parameters.every((p) => names.has(p.name))
}

/** Trials of earlier experiments with the same model and predictor, for the search to learn from. */
import { validateConfiguration } from '../../search/space/validation.ts'
import type { Configuration, Observation, SearchSpace } from '../../search/types.ts'
import type { TrialStore } from '../../trials/types.ts'
import type { Experiment, ExperimentDocument } from '../experiment/types.ts'
import { provenanceOf } from './notices.ts'
import { observationOf, outdatedReadings, scaleOf } from './observations.ts'

/** Observations beyond the newest so many tell of old machines, and a fit costs their cube. */
const maxObservations = 80

interface History {
  /** Identifiers of the experiments, newest first. */
  readonly experiments: readonly string[]
  readonly observations: readonly Observation[]
}

/**
 * Loads what experiments begun before this one measured of the same model, by the same predictor,
 * with the same provenance, within this one's space. Resuming loads the same.
 */
export async function loadHistory(
  experiment: Experiment,
  experimentId: string,
  store: TrialStore,
): Promise<History> {
  const experiments: string[] = []
  const observations: Observation[] = []
  const records = await store.list()
  const begun = records.find(({ id }) => id === experimentId)?.createdAt
  if (!experiment.history || begun === undefined) return { experiments, observations }
  const { objective, space, document } = experiment
  const earlier = records
    .filter(
      ({ createdAt, provenance, trials }) =>
        createdAt < begun && provenance === provenanceOf(experiment) && trials > 0,
    )
    .sort((a, b) => b.createdAt.localeCompare(a.createdAt))
  for (const { id } of earlier) {
    const room = maxObservations - observations.length
    if (room === 0) break
    const found = await store.load(id)
    if (!found || serverOf(found.experiment.spec as ExperimentDocument) !== serverOf(document))
      continue
    const outdated = new Set(outdatedReadings(found.trials))
    const scale = scaleOf(found.trials, objective)
    const usable = found.trials
      .filter((trial) => !outdated.has(trial) && isWithin(space, trial.configuration))
      .flatMap((trial) => observationOf(trial, objective, scale) ?? [])
      .slice(-room)
    if (usable.length === 0) continue
    experiments.push(id)
    observations.push(...usable)
  }
  return { experiments, observations }
}

const serverOf = ({ model, predictor }: ExperimentDocument): string =>
  JSON.stringify([model, predictor])

/** Whether it has the space's parameters, no others, and values that the space allows. */
const isWithin = (space: SearchSpace, configuration: Configuration): boolean =>
  Object.keys(configuration).length === space.parameters.length &&
  validateConfiguration(space, configuration).length === 0

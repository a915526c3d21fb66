/** Observations of earlier experiments with the same model and predictor. */
import { validateConfiguration } from '../../search/space/validation.ts'
import type { Configuration, Observation, SearchSpace } from '../../search/types.ts'
import type { FinishedTrial, TrialStore } from '../../trials/types.ts'
import type { StageEntry } from '../config/schema/stage-schema.ts'
import type { Experiment, ExperimentDocument } from '../config/types.ts'
import { resolveProvenance } from './notices.ts'
import { computeObjectiveScale, findRefuted, observeTrial } from './observations.ts'

/**
 * Maximum observations, the newest ones: older ones may be of other machines, and the
 * cost of a fit is cubic. Assumed.
 */
const maxObservations = 80

interface History {
  /** Identifiers of the experiments, newest first. */
  readonly experiments: readonly string[]
  readonly observations: readonly Observation[]
  /** All trials of these experiments, of a pipeline: they have measured its stages. */
  readonly stageTrials: readonly FinishedTrial[]
}

/**
 * Loads the observations of experiments that began before this one: the same model, predictor and
 * provenance, within the space of this one. A resumed run loads the same observations.
 */
export async function loadHistory(
  experiment: Experiment,
  experimentId: string,
  store: TrialStore,
): Promise<History> {
  const experiments: string[] = []
  const observations: Observation[] = []
  const stageTrials: FinishedTrial[] = []
  const records = await store.list()
  const experimentCreatedAt = records.find(({ id }) => id === experimentId)?.createdAt
  if (!experiment.history || experimentCreatedAt === undefined)
    return { experiments, observations, stageTrials }
  const { objective, space, document } = experiment
  const earlier = records
    .filter(
      ({ createdAt, provenance, trials }) =>
        createdAt < experimentCreatedAt &&
        provenance === resolveProvenance(experiment) &&
        trials > 0,
    )
    .sort((a, b) => b.createdAt.localeCompare(a.createdAt))
  for (const { id } of earlier) {
    const remaining = maxObservations - observations.length
    if (remaining === 0) break
    const loaded = await store.load(id)
    if (
      !loaded ||
      createServerKey(loaded.experiment.spec as ExperimentDocument) !== createServerKey(document)
    )
      continue
    if (experiment.stages !== undefined) stageTrials.push(...loaded.trials)
    const refutedTrials = new Set(findRefuted(loaded.trials))
    const scale = computeObjectiveScale(loaded.trials, objective)
    const usable = loaded.trials
      .filter((trial) => !refutedTrials.has(trial) && isWithin(space, trial.configuration))
      .flatMap((trial) => observeTrial(trial, objective, scale) ?? [])
      .slice(-remaining)
    if (usable.length === 0) continue
    experiments.push(id)
    observations.push(...usable)
  }
  return { experiments, observations, stageTrials }
}

/** Creates a key of model and predictor, or of those of all stages with their calls. */
const createServerKey = ({ model, predictor, stages }: ExperimentDocument): string =>
  JSON.stringify([
    model,
    predictor,
    Object.entries((stages ?? {}) as Record<string, StageEntry>).map(
      ([name, { model, predictor, calls, parallelCalls }]) => [
        name,
        model,
        predictor,
        calls,
        parallelCalls,
      ],
    ),
  ])

/** Whether a configuration has exactly the parameters of a space, with allowed values. */
const isWithin = (space: SearchSpace, configuration: Configuration): boolean =>
  Object.keys(configuration).length === space.parameters.length &&
  validateConfiguration(space, configuration).length === 0

/**
 * A stored experiment, ranked again under its own or another SLO, demand or price book. Measures
 * nothing.
 */
import { resolve } from 'node:path'
import { recommend } from '../../reports/recommendation/recommend.ts'
import type { Recommendation, StopPosterior } from '../../reports/recommendation/types.ts'
import { defaultObjectiveKind } from '../../search/objective.ts'
import type { Pricing } from '../../search/replica-price.ts'
import type { Configuration } from '../../search/types.ts'
import { gpuCatalogue } from '../../trials/devices/catalogue.ts'
import type { PriceBook } from '../../trials/prices/book.ts'
import { findProviderBook } from '../../trials/prices/providers.ts'
import type { ExperimentRecord, FinishedTrial } from '../../trials/types.ts'
import type { HostContext } from '../config/context.ts'
import { loadExperimentDocument } from '../config/load-experiment.ts'
import { resolveMeasuredWith } from '../config/measured-with.ts'
import type { Experiment, ExperimentDocument } from '../config/types.ts'
import {
  createLabeller,
  createRankingCriteria,
  loadPriceBook,
  priceExperiment,
} from '../problem/problem.ts'
import { listNotices } from './notices.ts'

/** Flags that replace parts of the goal of an experiment. */
export interface GoalOverrides {
  readonly slo?: string
  readonly rps?: string
  readonly headroom?: string
  readonly minQuality?: string
  readonly prices?: string
}

export interface Reevaluation {
  readonly record: ExperimentRecord
  readonly trials: readonly FinishedTrial[]
  readonly experiment: Experiment
  readonly book: PriceBook
  readonly pricePerHour: Pricing<Configuration>
  readonly label: (configuration: Configuration) => string
  readonly recommendation: Recommendation
}

/**
 * Ranks the stored trials again, under the overrides where there are any.
 * @throws UserError and ConfigError
 */
export async function reevaluate(
  {
    experiment: record,
    trials,
  }: { readonly experiment: ExperimentRecord; readonly trials: readonly FinishedTrial[] },
  { slo, rps, headroom, minQuality, prices }: GoalOverrides = {},
): Promise<Reevaluation> {
  const overrides = {
    slo,
    rps,
    // A requested demand (--rps) replaces the objective: configurations are ranked by the price of
    // serving it.
    objective: rps === undefined ? undefined : defaultObjectiveKind.withDemand,
    headroom,
    minQuality,
    prices: prices && (findProviderBook(prices) ? prices : resolve(prices)),
  }
  const experiment = loadExperimentDocument(
    record.spec as ExperimentDocument,
    record.id,
    createReadOnlyHost(),
    overrides,
  )
  const isOriginalGoal = Object.values(overrides).every((override) => override === undefined)
  const book = await loadPriceBook(experiment.pricesPath, experiment.own.gpus)
  const pricePerHour = priceExperiment(experiment, book)
  const label = createLabeller(experiment)
  const recommendation = recommend({
    experimentId: record.id,
    provenance: record.provenance,
    seed: record.seed,
    trials,
    confirm: experiment.confirm,
    maxTrials: experiment.budget.maxTrials,
    notices: listNotices(experiment, record.provenance),
    // The stages of a pipeline run different servers, so no single description applies.
    measuredWith: experiment.stages
      ? undefined
      : (configuration) => resolveMeasuredWith(experiment, record.provenance, configuration),
    // The stored result of the stop rule holds only for the original goal.
    ...(isOriginalGoal && { stop: readStopPosterior(record) }),
    ...createRankingCriteria(experiment, { pricePerHour, label }),
  })
  return { record, trials, experiment, book, pricePerHour, label, recommendation }
}

/**
 * Reads the last result of the stop rule from the recommendation that ended an experiment.
 * Undefined without one.
 */
export function readStopPosterior({ result }: ExperimentRecord): StopPosterior | undefined {
  const confidence = (result as Partial<Recommendation> | undefined)?.confidence
  if (confidence === undefined) return undefined
  const { probabilityWithinTolerance, tooFewTrials, tolerance } = confidence
  // `describeConfidence` reports a probability of exactly 1 as too few trials.
  if (tooFewTrials) return { probabilityBetterExists: 1, tolerance }
  if (probabilityWithinTolerance === undefined) return undefined
  return { probabilityBetterExists: 1 - probabilityWithinTolerance, tolerance }
}

/** Creates a host context in which every experiment is valid. Nothing is started on the host. */
export function createUnlimitedHost(): HostContext {
  const gpus = gpuCatalogue.map((gpu) => gpu.name)
  return { cwd: process.cwd(), machine: { cpuCores: 4096, gpus } }
}

/**
 * Creates a host context to display or rank an experiment again. Files that it names may be
 * missing.
 */
export const createReadOnlyHost = (): HostContext => ({
  ...createUnlimitedHost(),
  isReadOnly: true,
})

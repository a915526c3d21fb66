/**
 * A stored experiment, evaluated again under its own question or under another SLO, demand or price
 * book. Runs nothing.
 */
import { resolve } from 'node:path'
import { recommend } from '../../reports/recommendation/recommend.ts'
import type { Recommendation, StopBelief } from '../../reports/recommendation/types.ts'
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
import { listNotices } from './notices.ts'
import { createLabeller, createRankingCriteria, loadPriceBook, priceExperiment } from './problem.ts'

/** Flags that replace parts of the question that the experiment answers. */
export interface QuestionOverrides {
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
  { slo, rps, headroom, minQuality, prices }: QuestionOverrides = {},
): Promise<Reevaluation> {
  const overrides = {
    slo,
    rps,
    // A demand asks for the price of serving it, whatever the objective of the experiment.
    objective: rps === undefined ? undefined : defaultObjectiveKind.withDemand,
    headroom,
    minQuality,
    prices: prices && (findProviderBook(prices) ? prices : resolve(prices)),
  }
  const experiment = loadExperimentDocument(
    record.spec as ExperimentDocument,
    record.id,
    createReadOnlySurroundings(),
    overrides,
  )
  // The stop rule was not evaluated for another question.
  const isSameQuestion = Object.values(overrides).every((override) => override === undefined)
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
    measuredWith: experiment.stages
      ? undefined
      : (configuration) => resolveMeasuredWith(experiment, record.provenance, configuration),
    ...(isSameQuestion && { stop: readStopBelief(record) }),
    ...createRankingCriteria(experiment, { pricePerHour, label }),
  })
  return { record, trials, experiment, book, pricePerHour, label, recommendation }
}

/**
 * The last result of the stop rule, from the recommendation that ended an experiment. Undefined
 * where the recommendation has none.
 */
export function readStopBelief({ result }: ExperimentRecord): StopBelief | undefined {
  const confidence = (result as Partial<Recommendation> | undefined)?.confidence
  if (confidence === undefined) return undefined
  const { probabilityWithinTolerance, tooFewTrials, tolerance } = confidence
  if (tooFewTrials) return { probabilityBetterExists: 1, tolerance }
  if (probabilityWithinTolerance === undefined) return undefined
  return { probabilityBetterExists: 1 - probabilityWithinTolerance, tolerance }
}

/** A machine on which every experiment is valid. Nothing is started on it. */
export function createUnlimitedMachine(): HostContext {
  const gpus = gpuCatalogue.map((gpu) => gpu.name)
  return { cwd: process.cwd(), machine: { cpuCores: 4096, gpus } }
}

/** For an experiment that is only shown, although its files may be gone. */
export const createReadOnlySurroundings = (): HostContext => ({
  ...createUnlimitedMachine(),
  isReadOnly: true,
})

/**
 * An experiment that was read, seen under its own or another SLO, demand or price book. Runs
 * nothing.
 */
import { resolve } from 'node:path'
import { recommend } from '../../reports/recommendation/recommend.ts'
import type { Recommendation } from '../../reports/recommendation/types.ts'
import { defaultObjectiveKind } from '../../search/objective.ts'
import type { Pricing } from '../../search/replica-price.ts'
import type { Configuration } from '../../search/types.ts'
import { gpuCatalogue } from '../../trials/devices/catalogue.ts'
import type { PriceBook } from '../../trials/prices/book.ts'
import { providerBook } from '../../trials/prices/providers.ts'
import type { ExperimentRecord, FinishedTrial } from '../../trials/types.ts'
import type { Surroundings } from '../experiment/context.ts'
import { experimentFromDocument } from '../experiment/load-experiment.ts'
import { measuredOf } from '../experiment/measured-of.ts'
import type { Experiment, ExperimentDocument } from '../experiment/types.ts'
import { noticesOf } from './notices.ts'
import { labelOf, loadPriceBook, problemOf, viewOf } from './problem.ts'
import { stopOf } from './stored-stop.ts'

/** What is to be asked of it in place of its own question, as flags say it. */
export interface Question {
  readonly slo?: string
  readonly rps?: string
  readonly headroom?: string
  readonly minQuality?: string
  readonly prices?: string
}

export interface SeenAgain {
  readonly record: ExperimentRecord
  readonly trials: readonly FinishedTrial[]
  readonly experiment: Experiment
  readonly book: PriceBook
  readonly pricePerHour: Pricing<Configuration>
  readonly label: (configuration: Configuration) => string
  readonly recommendation: Recommendation
}

/**
 * An experiment that was read, under its own question or that of flags. @throws UserError and
 * ConfigError.
 */
export async function seenAgain(
  {
    experiment: record,
    trials,
  }: { readonly experiment: ExperimentRecord; readonly trials: readonly FinishedTrial[] },
  { slo, rps, headroom, minQuality, prices }: Question = {},
): Promise<SeenAgain> {
  // A demand asks for the price of serving it, whatever the experiment ranked by.
  const objective = rps === undefined ? undefined : defaultObjectiveKind.withDemand
  const flags = {
    slo,
    rps,
    objective,
    headroom,
    minQuality,
    prices: prices && (providerBook(prices) ? prices : resolve(prices)),
  }
  const experiment = experimentFromDocument(
    record.spec as ExperimentDocument,
    record.id,
    onlyLookedAt(),
    flags,
  )
  // Of another question the stop rule was not asked.
  const asksTheSame = Object.values(flags).every((flag) => flag === undefined)
  const book = await loadPriceBook(experiment.pricesPath, experiment.own.gpus)
  const { pricePerHour } = problemOf(experiment, book)
  const label = labelOf(experiment)
  const recommendation = recommend({
    experimentId: record.id,
    provenance: record.provenance,
    seed: record.seed,
    trials,
    confirm: experiment.confirm,
    maxTrials: experiment.budget.maxTrials,
    notices: noticesOf(experiment, record.provenance),
    measuredWith: (configuration) => measuredOf(experiment, record.provenance, configuration),
    ...(asksTheSame && { stop: stopOf(record) }),
    ...viewOf(experiment, { pricePerHour, label }),
  })
  return { record, trials, experiment, book, pricePerHour, label, recommendation }
}

/**
 * Nothing is started here, so an experiment of a larger machine, or of one with GPUs, is as good as
 * one of this machine.
 */
export function anyMachine(): Surroundings {
  const gpus = gpuCatalogue.map((gpu) => gpu.name)
  return { cwd: process.cwd(), machine: { cpuCores: 4096, gpus } }
}

/** Of an experiment that is shown, wherever it was run and whatever became of its files. */
export const onlyLookedAt = (): Surroundings => ({ ...anyMachine(), onlyLookedAt: true })

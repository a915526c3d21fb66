/** Outcomes of experiments, for lists. */
import { isDeepStrictEqual } from 'node:util'
import { isRecord } from '../../profiler/plain-record.ts'
import { rate, sloText, writing } from '../../reports/format.ts'
import type { Candidate, Recommendation } from '../../reports/recommendation/types.ts'
import { formatCost } from '../../search/objective.ts'
import { resolveReplicaPrice } from '../../search/replica-price.ts'
import type { StoreReader } from '../../trials/store/index.ts'
import type { ExperimentRecord } from '../../trials/types.ts'
import { loadExperimentDocument } from '../config/load-experiment.ts'
import type { ExperimentDocument } from '../config/types.ts'
import { loadPriceBook, priceExperiment } from '../problem/problem.ts'
import { createReadOnlyHost, reevaluate } from './reevaluation.ts'

/** @property unreadable why this version cannot read the experiment */
export type Outcome = { readonly recommendation: Recommendation } | { readonly unreadable: string }

/** Formats the SLO of an outcome; '' where the experiment is unreadable. */
export const formatOutcomeSlo = (outcome: Outcome): string =>
  'unreadable' in outcome ? '' : sloText(outcome.recommendation.slo)

/**
 * Formats an outcome: 'confirmed: 1 core, A100-40GB, batch 64, 7,635 req/s, $0.066 per million
 * requests'.
 */
export function formatOutcome(outcome: Outcome): string {
  if ('unreadable' in outcome) return `cannot be read: ${outcome.unreadable}`
  const { best, objective, verdict, conclusion } = outcome.recommendation
  if (!best) return verdict
  const status = conclusion === 'simulated' ? conclusion : best.status
  return `${status}: ${best.label}, ${rate(best.capacityRps)}, ${formatCost(objective, best, writing)}`
}

/**
 * Returns the stored recommendation of an experiment, where all its prices are still current.
 * Otherwise the trials are loaded and ranked again, which takes longer.
 */
export async function resolveOutcome(
  store: Pick<StoreReader, 'load'>,
  record: ExperimentRecord,
): Promise<Outcome> {
  try {
    const current = await findCurrentRecommendation(record)
    if (current) return { recommendation: current }
    const stored = await store.load(record.id)
    return stored
      ? { recommendation: (await reevaluate(stored)).recommendation }
      : { unreadable: 'it was deleted' }
  } catch (error) {
    return { unreadable: (error as Error).message }
  }
}

async function findCurrentRecommendation({
  id,
  spec,
  result,
}: ExperimentRecord): Promise<Recommendation | undefined> {
  if (!isRecommendation(result)) return undefined
  const experiment = loadExperimentDocument(spec as ExperimentDocument, id, createReadOnlyHost())
  const book = await loadPriceBook(experiment.pricesPath, experiment.own.gpus)
  const pricing = priceExperiment(experiment, book)
  const isCurrent = ({ configuration, pricePerHour, bundles }: Candidate) =>
    isDeepStrictEqual(resolveReplicaPrice(pricing, configuration), {
      pricePerHour,
      ...(bundles && { bundles }),
    })
  const { best, nearest, alternatives } = result
  const candidates = [...(best ? [best] : []), ...(nearest ? [nearest] : []), ...alternatives]
  return candidates.every(isCurrent) ? result : undefined
}

const schema: Recommendation['schema'] = 'tune.recommendation/v1'
const isRecommendation = (result: unknown): result is Recommendation =>
  isRecord(result) && result.schema === schema

/** What experiments came to, for lists of many. */
import { isDeepStrictEqual } from 'node:util'
import { isRecord } from '../../profiler/plain-record.ts'
import { rate, sloText, writing } from '../../reports/format.ts'
import type { Candidate, Recommendation } from '../../reports/recommendation/types.ts'
import { formatCost } from '../../search/objective.ts'
import { resolveReplicaPrice } from '../../search/replica-price.ts'
import type { StoreReader } from '../../trials/store/index.ts'
import type { ExperimentRecord } from '../../trials/types.ts'
import { experimentFromDocument } from '../experiment/load-experiment.ts'
import type { ExperimentDocument } from '../experiment/types.ts'
import { loadPriceBook, problemOf } from './problem.ts'
import { onlyLookedAt, seenAgain } from './seen-again.ts'

/** `unreadable`: why this version cannot say. */
export type Outcome = { readonly recommendation: Recommendation } | { readonly unreadable: string }

/** '' where that cannot be said. */
export const outcomeSlo = (outcome: Outcome): string =>
  'unreadable' in outcome ? '' : sloText(outcome.recommendation.slo)

/** 'confirmed: 1 core, A100-40GB, batch 64, 7,635 req/s, $0.066 per million requests'. */
export function outcomeText(outcome: Outcome): string {
  if ('unreadable' in outcome) return `cannot be read: ${outcome.unreadable}`
  const { best, objective, verdict, conclusion } = outcome.recommendation
  if (!best) return verdict
  const status = conclusion === 'simulated' ? conclusion : best.status
  return `${status}: ${best.label}, ${rate(best.capacityRps)}, ${formatCost(objective, best, writing)}`
}

/**
 * The recommendation that ended an experiment, where every configuration in it costs today what it
 * cost then; else the trials are read, and ranked again. A list of many experiments need not read
 * all their trials so.
 */
export async function outcomeOf(
  store: Pick<StoreReader, 'load'>,
  record: ExperimentRecord,
): Promise<Outcome> {
  try {
    const ended = await endedWith(record)
    if (ended) return { recommendation: ended }
    const found = await store.load(record.id)
    return found
      ? { recommendation: (await seenAgain(found)).recommendation }
      : { unreadable: 'it is gone' }
  } catch (error) {
    return { unreadable: (error as Error).message }
  }
}

async function endedWith({
  id,
  spec,
  result,
}: ExperimentRecord): Promise<Recommendation | undefined> {
  if (!isRecommendation(result)) return undefined
  const experiment = experimentFromDocument(spec as ExperimentDocument, id, onlyLookedAt())
  const { pricePerHour } = problemOf(
    experiment,
    await loadPriceBook(experiment.pricesPath, experiment.own.gpus),
  )
  const { best, nearest, alternatives } = result
  const all = [...(best ? [best] : []), ...(nearest ? [nearest] : []), ...alternatives]
  const costsTheSame = ({ configuration, pricePerHour: then, bundles }: Candidate) =>
    isDeepStrictEqual(resolveReplicaPrice(pricePerHour, configuration), {
      pricePerHour: then,
      ...(bundles && { bundles }),
    })
  return all.every(costsTheSame) ? result : undefined
}

const schema: Recommendation['schema'] = 'tune.recommendation/v1'
const isRecommendation = (result: unknown): result is Recommendation =>
  isRecord(result) && result.schema === schema

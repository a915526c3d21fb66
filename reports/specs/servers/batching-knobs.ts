/**
 * Knobs of a server that replaces the built-in predictor: the tuned values, and the batching values
 * that every trial had.
 */
import type { Configuration } from '../../../search/types.ts'
import { Knobs } from '../../../trials/servers/knobs.ts'
import type { Serving } from '../serving.ts'

interface BatchingKnobs {
  readonly knobs: Knobs
  /** The values that were not tuned. */
  readonly notes: readonly string[]
}

/** @param derived values that follow from the others; tuned values override them */
export function resolveBatchingKnobs(
  { configuration, evidence: { batching } }: Serving,
  derived: Configuration = {},
): BatchingKnobs {
  const untuned = Object.entries(batching ?? {})
    .filter(([name]) => !(name in configuration))
    .map(([name, value]) => `${name} = ${value}`)
  return {
    knobs: new Knobs({ ...batching, ...derived, ...configuration }),
    notes: untuned.length === 0 ? [] : [`not tuned, as in every trial: ${untuned.join(', ')}`],
  }
}

/** Resolves the knobs of a server that takes these values only together with a batch size. */
export const resolveBatchSizeKnobs = (serving: Serving): BatchingKnobs =>
  resolveGatheredBatch(serving) === undefined
    ? { knobs: new Knobs(serving.configuration), notes: [] }
    : resolveBatchingKnobs(serving)

/** Resolves the batch size that the built-in predictor gathered; undefined if it did not. */
export const resolveGatheredBatch = ({
  configuration: { batchSize },
  evidence: { batching },
}: Serving): number | undefined =>
  batching !== undefined && typeof batchSize === 'number' && batchSize > 1 ? batchSize : undefined

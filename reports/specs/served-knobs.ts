/**
 * Knobs of a server in place of the built-in predictor: what was tuned, and of its batching what
 * was not, as every trial ran with it.
 */
import type { Configuration } from '../../search/types.ts'
import { Knobs } from '../../trials/servers/knobs.ts'
import type { Serving } from './serving.ts'

interface ServedKnobs {
  readonly knobs: Knobs
  /** Names the values that were not tuned. */
  readonly notes: readonly string[]
}

/** @param more values that follow from these; what was tuned overrides them */
export function servedKnobs(
  { configuration, evidence: { batching } }: Serving,
  more: Configuration = {},
): ServedKnobs {
  const untuned = Object.entries(batching ?? {})
    .filter(([name]) => !(name in configuration))
    .map(([name, value]) => `${name} = ${value}`)
  return {
    knobs: new Knobs({ ...batching, ...more, ...configuration }),
    notes: untuned.length === 0 ? [] : [`not tuned, as in every trial: ${untuned.join(', ')}`],
  }
}

/** For a server that has a place for these values only beside a batch size. */
export const batchKnobs = (serving: Serving): ServedKnobs =>
  gatheredBatch(serving) === undefined
    ? { knobs: new Knobs(serving.configuration), notes: [] }
    : servedKnobs(serving)

/** The batch size that the built-in predictor gathered; undefined where it did not. */
export const gatheredBatch = ({
  configuration: { batchSize },
  evidence: { batching },
}: Serving): number | undefined =>
  batching !== undefined && typeof batchSize === 'number' && batchSize > 1 ? batchSize : undefined

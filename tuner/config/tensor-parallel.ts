/**
 * Over how many GPUs a language model may be split: what its shape allows, and on which GPUs its
 * weights then find a place.
 */
import type { Configuration } from '../../search/types.ts'
import type { Decoder } from '../../trials/devices/architecture.ts'
import type { Gpu } from '../../trials/devices/catalogue.ts'
import { modelLlm } from '../../trials/launchers/simulated/llm-configuration.ts'
import { OutOfMemoryError } from '../../trials/predictor/engine.ts'

/** Whether attention heads and the feed-forward part divide evenly, as the servers ask for. */
const splitsOver = ({ heads, intermediate }: Decoder, gpus: number): boolean =>
  heads % gpus === 0 && intermediate % gpus === 0

/** Tuned where the user names no other values. */
export const usualSplits = (architecture: Decoder): number[] =>
  [1, 2, 4, 8].filter((gpus) => splitsOver(architecture, gpus))

/** Parameters that say over how many GPUs a server is split. */
export const splitParameters = ['gpus', 'decodeGpus'] as const
export type SplitParameter = (typeof splitParameters)[number]

interface Splits {
  readonly name: SplitParameter
  /** Models to choose from. */
  readonly gpus: readonly string[]
  /** Values of the parameter. */
  readonly splits: readonly number[]
  /** Values that every configuration has, e.g. `quantization`. */
  readonly held: Configuration
}

/**
 * Conditions that leave out what cannot start: splits that the shape forbids, GPUs that hold
 * neither the weights nor one sequence.
 */
export function splitConditions(
  architecture: Decoder,
  { name, gpus, splits, held }: Splits,
  ownGpus: readonly Gpu[],
): string[] {
  // Without decode servers it has a value that says nothing.
  const unless = name === 'decodeGpus' ? 'decodeReplicas == 0 or ' : ''
  const uneven = splits
    .filter((split) => !splitsOver(architecture, split))
    .map((split) => `${unless}${name} != ${split}`)
  const even = splits.filter((split) => splitsOver(architecture, split))
  const full = gpus.flatMap((gpu) =>
    even
      .filter((split) => !fits(architecture, { ...held, gpu, gpus: split }, ownGpus))
      .map((split) => `${unless}not (gpu == '${gpu}' and ${name} == ${split})`),
  )
  return [...uneven, ...full]
}

/** What the model of the server says otherwise of a configuration is said by its trial. */
function fits(
  architecture: Decoder,
  configuration: Configuration,
  ownGpus: readonly Gpu[],
): boolean {
  try {
    modelLlm(architecture, { maxNumBatchedTokens: 1, ...configuration }, { ownGpus })
    return true
  } catch (error) {
    return !(error instanceof OutOfMemoryError)
  }
}

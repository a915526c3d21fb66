/** Over how many GPUs a language model may be split: what its shape allows, and on which GPUs its weights then find a place. */
import type { Configuration } from '../../search/types.ts'
import type { Decoder } from '../../trials/devices/architecture.ts'
import type { Gpu } from '../../trials/devices/catalogue.ts'
import { modelledLlm } from '../../trials/launchers/simulated/llm-configuration.ts'
import { OutOfMemoryError } from '../../trials/predictor/engine.ts'

/** Whether attention heads and the feed-forward part divide evenly, as the servers ask for. */
const splitsOver = ({ heads, intermediate }: Decoder, gpus: number): boolean => heads % gpus === 0 && intermediate % gpus === 0

/** Tuned where the user names no other values. */
export const usualSplits = (architecture: Decoder): number[] => [1, 2, 4, 8].filter((gpus) => splitsOver(architecture, gpus))

/**
 * Conditions that leave out what cannot start: splits that the shape forbids, GPUs that hold neither the weights nor one sequence.
 * @param held values that every configuration has, e.g. `quantization`
 */
export function splitConditions(
  architecture: Decoder,
  { gpus, splits, held }: { readonly gpus: readonly string[]; readonly splits: readonly number[]; readonly held: Configuration },
  ownGpus: readonly Gpu[],
): string[] {
  const uneven = splits.filter((split) => !splitsOver(architecture, split)).map((split) => `gpus != ${split}`)
  const even = splits.filter((split) => splitsOver(architecture, split))
  const full = gpus.flatMap((gpu) =>
    even
      .filter((split) => !fits(architecture, { ...held, gpu, gpus: split }, ownGpus))
      .map((split) => `not (gpu == '${gpu}' and gpus == ${split})`),
  )
  return [...uneven, ...full]
}

/** What the model of the server says otherwise of a configuration is said by its trial. */
function fits(architecture: Decoder, configuration: Configuration, ownGpus: readonly Gpu[]): boolean {
  try {
    modelledLlm(architecture, { maxNumBatchedTokens: 1, ...configuration }, { ownGpus })
    return true
  } catch (error) {
    return !(error instanceof OutOfMemoryError)
  }
}

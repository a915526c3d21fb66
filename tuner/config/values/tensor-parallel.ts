/**
 * Tensor parallelism: over how many GPUs a language model can be split by its shape and by its
 * memory demand.
 */
import type { Configuration } from '../../../search/types.ts'
import type { Decoder } from '../../../trials/devices/architecture.ts'
import type { Gpu } from '../../../trials/devices/catalogue.ts'
import { buildLlmModel } from '../../../trials/launchers/simulated/llm-configuration.ts'
import { OutOfMemoryError } from '../../../trials/predictor/engine.ts'

/** Whether attention heads and feed-forward dimension divide evenly, as servers require. */
const dividesEvenly = ({ heads, intermediate }: Decoder, gpus: number): boolean =>
  heads % gpus === 0 && intermediate % gpus === 0

/** Splits that are tried by default. */
export const listDefaultSplits = (architecture: Decoder): number[] =>
  [1, 2, 4, 8].filter((gpus) => dividesEvenly(architecture, gpus))

/** Parameters that set the number of GPUs of a server. */
export const splitParameters = ['gpus', 'decodeGpus'] as const
export type SplitParameter = (typeof splitParameters)[number]

interface SplitChoice {
  readonly name: SplitParameter
  /** Models to choose from. */
  readonly gpus: readonly string[]
  /** Values of the parameter. */
  readonly splits: readonly number[]
  /** Values that every configuration has, e.g. `quantization`. */
  readonly fixed: Configuration
}

/**
 * Conditions that exclude servers which cannot start: uneven splits, and GPUs without memory for
 * the weights and one sequence.
 */
export function splitConditions(
  architecture: Decoder,
  { name, gpus, splits, fixed }: SplitChoice,
  ownGpus: readonly Gpu[],
): string[] {
  // Without decode servers, decodeGpus has no effect.
  const unless = name === 'decodeGpus' ? 'decodeReplicas == 0 or ' : ''
  const uneven = splits
    .filter((split) => !dividesEvenly(architecture, split))
    .map((split) => `${unless}${name} != ${split}`)
  const even = splits.filter((split) => dividesEvenly(architecture, split))
  const full = gpus.flatMap((gpu) =>
    even
      .filter((split) => !fitsMemory(architecture, { ...fixed, gpu, gpus: split }, ownGpus))
      .map((split) => `${unless}not (gpu == '${gpu}' and ${name} == ${split})`),
  )
  return [...uneven, ...full]
}

/** Only out-of-memory counts here; other problems of a configuration are found by its trial. */
function fitsMemory(
  architecture: Decoder,
  configuration: Configuration,
  ownGpus: readonly Gpu[],
): boolean {
  try {
    buildLlmModel(architecture, { maxNumBatchedTokens: 1, ...configuration }, { ownGpus })
    return true
  } catch (error) {
    return !(error instanceof OutOfMemoryError)
  }
}

/** Prompt and answer lengths of a load, summarised for the closed-form capacity. */

import type { LlmRequest } from './llm-configuration.ts'
import { countCachedTokens } from './prefix-cache.ts'

/** Lengths of the requests in tokens, each ascending. */
export interface Lengths {
  /** Prompt tokens that are computed: those without a prefix-cache hit. */
  readonly prompts: Float64Array
  readonly outputs: Float64Array
}

export interface LlmLoad extends Lengths {
  readonly meanPromptTokens: number
  /** Squared coefficient of variation of the prompt lengths. */
  readonly promptCv2: number
  readonly meanOutputTokens: number
  /** Cache tokens of a decoding sequence, averaged over its time. */
  readonly meanCacheTokens: number
  /** Cache tokens of a decoding sequence once its answer is complete. */
  readonly meanFinalCacheTokens: number
  readonly classes: readonly (Lengths & { readonly name: string })[]
}

/** @param caches whether the server has a prefix cache */
export function summariseLlmLoad(requests: readonly LlmRequest[], caches = true): LlmLoad {
  const cachedTokens = caches ? countCachedTokens(requests) : []
  const listLengths = (isIncluded: (request: LlmRequest) => boolean): Lengths => {
    const included = requests.flatMap((request, i) =>
      isIncluded(request) ? [{ ...request, cached: cachedTokens[i] ?? 0 }] : [],
    )
    // The last prompt token is always computed: the first token of the answer follows from it.
    const prompts = Float64Array.from(
      included,
      ({ promptTokens, cached }) => promptTokens - Math.min(cached, promptTokens - 1),
    )
    const outputs = Float64Array.from(included, ({ outputTokens }) => outputTokens)
    return { prompts: prompts.sort(), outputs: outputs.sort() }
  }
  const { prompts, outputs } = listLengths(() => true)
  const classNames = [...new Set(requests.flatMap(({ requestClass }) => requestClass ?? []))]
  const average = (read: (request: LlmRequest) => number) =>
    requests.reduce((sum, request) => sum + read(request), 0) / requests.length
  const meanPromptTokens = prompts.reduce((sum, tokens) => sum + tokens, 0) / prompts.length
  const meanOutputTokens = average(({ outputTokens }) => outputTokens)
  // A sequence decodes for as long as its answer, so long answers weigh more.
  const averageOverTime = (read: (request: LlmRequest) => number) =>
    average((request) => request.outputTokens * read(request)) / meanOutputTokens
  const promptVariance =
    prompts.reduce((sum, tokens) => sum + (tokens - meanPromptTokens) ** 2, 0) / prompts.length
  return {
    prompts,
    outputs,
    meanPromptTokens,
    promptCv2: promptVariance / meanPromptTokens ** 2,
    meanOutputTokens,
    // On average, half of the answer exists.
    meanCacheTokens: averageOverTime(
      ({ promptTokens, outputTokens }) => promptTokens + outputTokens / 2,
    ),
    meanFinalCacheTokens: averageOverTime(
      ({ promptTokens, outputTokens }) => promptTokens + outputTokens,
    ),
    classes: classNames.map((name) => ({
      name,
      ...listLengths(({ requestClass }) => requestClass === name),
    })),
  }
}

export const getQuantile = (ascending: Float64Array, q: number): number =>
  ascending[Math.min(ascending.length - 1, Math.floor(q * ascending.length))]!

/**
 * Prefix-cache hits in a load that repeats a list of requests. Repetitions represent new requests,
 * so a prompt is a hit only for requests soon after it.
 */
import { blockTokens } from '../../predictor/llm/scheduler.ts'
import type { LlmRequest } from './llm-configuration.ts'

/**
 * Counts the blocks of each request that are prefix-cache hits when the list is repeated: those of
 * requests at most half the list earlier. So the next turn of a conversation has hits, but a
 * repetition of the conversation has none.
 */
function countCachedBlocks(requests: readonly LlmRequest[]): number[] {
  const lastUse = new Map<number, number>()
  const maxAge = Math.max(1, requests.length / 2)
  const sendList = (firstNumber: number) =>
    requests.map(({ prefix }, i) => {
      const firstMiss = prefix.findIndex(
        (hash) => !(firstNumber + i - (lastUse.get(hash) ?? Number.NEGATIVE_INFINITY) <= maxAge),
      )
      for (const hash of prefix) lastUse.set(hash, firstNumber + i)
      return firstMiss < 0 ? prefix.length : firstMiss
    })
  sendList(0)
  return sendList(requests.length)
}

/** Counts the prefix-cache hits of each request, in tokens. */
export const countCachedTokens = (requests: readonly LlmRequest[]): number[] =>
  countCachedBlocks(requests).map((blocks) => blocks * blockTokens)

/**
 * Renames the blocks of each sent request, so that only recent ones are hits: a repeated
 * conversation is a new one to the cache, and windows of a search have no more hits than their own
 * load.
 */
export class PrefixRenamer {
  /** Number of cached blocks by index of the request in the list. */
  readonly #cachedBlocks: readonly number[]
  /** New names of blocks by their hash. */
  readonly #names = new Map<number, number>()
  #nameCount = 0

  constructor(requests: readonly LlmRequest[]) {
    this.#cachedBlocks = countCachedBlocks(requests)
  }

  /** @param index index of the request in the list that is sent repeatedly */
  renamePrefix({ prefix }: LlmRequest, index: number): number[] {
    const cachedBlocks = this.#cachedBlocks[index]!
    return prefix.map((hash, i) => {
      const cachedName = i < cachedBlocks ? this.#names.get(hash) : undefined
      const name = cachedName ?? this.#nameCount++
      this.#names.set(hash, name)
      return name
    })
  }
}

/**
 * Prefix-cache hits in a load that repeats a list of requests. Repetitions represent new requests,
 * so a prompt is a hit only for requests soon after it.
 */
import { blockTokens } from '../../predictor/llm/scheduler.ts'
import type { LlmRequest } from './llm-configuration.ts'

/**
 * Blocks of each request that are prefix-cache hits when the list is repeated: blocks of requests
 * at most half the list earlier. So the next turn of a conversation has hits, but a repetition of
 * the conversation has none.
 */
function countCachedBlocks(requests: readonly LlmRequest[]): number[] {
  const lastUse = new Map<number, number>()
  const longAgo = Math.max(1, requests.length / 2)
  const play = (from: number) =>
    requests.map(({ prefix }, i) => {
      const unknown = prefix.findIndex(
        (hash) => !(from + i - (lastUse.get(hash) ?? Number.NEGATIVE_INFINITY) <= longAgo),
      )
      for (const hash of prefix) lastUse.set(hash, from + i)
      return unknown < 0 ? prefix.length : unknown
    })
  play(0)
  return play(requests.length)
}

/** Prefix-cache hits of each request, in tokens. */
export const countCachedTokens = (requests: readonly LlmRequest[]): number[] =>
  countCachedBlocks(requests).map((blocks) => blocks * blockTokens)

/**
 * Renames the blocks of each sent request, so that only recent ones are hits: a repeated
 * conversation is a new one to the cache, and windows of a search have no more hits than their own
 * load.
 */
export class SeenBeginnings {
  readonly #found: readonly number[]
  readonly #names = new Map<number, number>()
  #named = 0

  constructor(requests: readonly LlmRequest[]) {
    this.#found = countCachedBlocks(requests)
  }

  /** @param number of the request in the list that is sent over and over */
  prefixOf({ prefix }: LlmRequest, number: number): number[] {
    const found = this.#found[number]!
    return prefix.map((hash, i) => {
      const known = i < found ? this.#names.get(hash) : undefined
      const name = known ?? this.#named++
      this.#names.set(hash, name)
      return name
    })
  }
}

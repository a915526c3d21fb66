/**
 * Prefix-cache hits in a load that repeats a list of requests. The repetitions stand for new requests,
 * so that a prompt is found only by requests that follow it closely.
 */
import { blockTokens } from '../../predictor/llm/scheduler.ts'
import type { LlmRequest } from './llm-configuration.ts'

/**
 * Blocks that each request finds in a cache of beginnings when all are sent over and over: those
 * that one had before it, at most half of all requests ago. So what a conversation said is found by
 * its next turn, and not when it begins anew.
 */
function foundBlocks(requests: readonly LlmRequest[]): number[] {
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

/** Tokens of it, of each request. */
export const foundTokens = (requests: readonly LlmRequest[]): number[] =>
  foundBlocks(requests).map((blocks) => blocks * blockTokens)

/**
 * What names the blocks of each request that is sent, so that a cache knows them again only where
 * they were said lately: a conversation that is sent again is another one to it, and the windows of
 * a search find no more than their own load does.
 */
export class SeenBeginnings {
  readonly #found: readonly number[]
  readonly #names = new Map<number, number>()
  #named = 0

  constructor(requests: readonly LlmRequest[]) {
    this.#found = foundBlocks(requests)
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

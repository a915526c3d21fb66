import type { WarmUpByNumber } from './warm-up.ts'

export interface OpenSearchOptions {
  readonly seed: number
  readonly capacityToBeatRps?: number
  /** What is believed of the capacity beforehand. */
  readonly expectedRps?: number
  /** What a server that refuses a closed loop was seen to answer: none is put on it then. */
  readonly refusesBeyondRps?: number
  /** Of as many connections as the search for the saturation begins with. */
  readonly warmUp?: WarmUpByNumber
  /**
   * Where the machine spoils the closed loops, there is no other search: its windows go on until
   * one misses, or the time is up.
   */
  readonly isLast?: boolean
}

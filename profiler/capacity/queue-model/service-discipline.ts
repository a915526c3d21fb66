/** How a server was identified to serve its requests. */
import type { Steps } from '../service-log/service-log.ts'
import type { Batching } from './batching.ts'

/** What open windows and closed loops showed of such a server. */
export interface WorkersSeen {
  readonly workers: number
  /** What each request takes beside the workers, on its way to them and back, ms. */
  readonly besideMs: number
  /** They work on all requests at once, and what follows is the work of each. */
  readonly shared?: boolean
  /** They serve batches, and what follows is how long each was served. */
  readonly batching?: Batching
  /**
   * Service times of each open window, as steps of one request each, in the order in which they
   * began.
   */
  readonly windows: readonly Steps[]
  /** Of the closed loops that were served alike. */
  readonly loops: readonly Steps[]
  /** Of all closed loops. */
  readonly history?: readonly Steps[]
}

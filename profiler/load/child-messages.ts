/**
 * Messages between the parent and the child process of the generator, over the process channel
 * (structured clone).
 */

import type { Load } from '../model/load.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { HttpTarget } from '../model/target.ts'

export type ToChild =
  | { readonly type: 'target'; readonly target: HttpTarget }
  | { readonly type: 'play'; readonly load: Load }
  /** Ends the running load at once; the reply is 'aborted'. */
  | { readonly type: 'abort' }

export type FromChild =
  /** The child has started and waits for messages. */
  | { readonly type: 'ready' }
  | { readonly type: 'played'; readonly run: LoadRun }
  | { readonly type: 'aborted' }
  | { readonly type: 'failed'; readonly message: string }

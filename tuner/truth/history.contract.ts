/** An invented history of trials, and what it comes to. */
import type { Status } from '../../reports/recommendation/status.ts'
import type { Conclusion } from '../../reports/recommendation/types.ts'
import type { FinishedTrial, Provenance } from '../../trials/types.ts'

export interface History {
  readonly what: string
  readonly trials: readonly FinishedTrial[]
  /** Of the run. */
  readonly flags?: Readonly<Record<string, unknown>>
  /** What is asked of it afterwards. */
  readonly asked?: { readonly slo?: string; readonly rps?: string }
  readonly provenance?: Provenance
  readonly conclusion: Conclusion
  readonly exit: number
  /** Status by trial. */
  readonly statuses: Readonly<Record<number, Status>>
  readonly best?: { readonly trial: number; readonly capacityRps: number; readonly sloMs?: number }
  /** A caveat says so. */
  readonly caveat?: RegExp
}

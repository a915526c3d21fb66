import type { Conclusion, Recommendation } from '../reports/recommendation/types.ts'

/** Exit codes of every `tune` command. `tune --help` and the reference list them. */
export const exitCodes = {
  /** The SLO is met and confirmed; the command did what it was asked. */
  ok: 0,
  /** Something failed: a predictor, a store, the machine. */
  failure: 1,
  /** The command line or the experiment file is wrong. */
  usage: 2,
  /** Every configuration that was tried misses the SLO. */
  sloUnmet: 3,
  /** A configuration was found, and no second measurement confirms it. */
  unconfirmed: 4,
  /** `tune watch --once`: what was recommended no longer holds. */
  offPlan: 5,
  /** `tune ci`: it costs more than the baseline by more than is allowed. */
  regressed: 6,
  /** Ctrl-C or SIGTERM; what was measured is kept, `tune resume` continues. */
  interrupted: 130,
} as const

/** What a recommendation means for whoever runs the command. */
export const exitCodeOf = ({ conclusion }: Pick<Recommendation, 'conclusion'>): number =>
  byConclusion[conclusion]

const byConclusion: Readonly<Record<Conclusion, number>> = {
  confirmed: exitCodes.ok,
  unconfirmed: exitCodes.unconfirmed,
  'not asked': exitCodes.ok,
  simulated: exitCodes.ok,
  imported: exitCodes.unconfirmed,
  none: exitCodes.sloUnmet,
  unknown: exitCodes.failure,
}

/** An error whose message is meant for the user as it stands: what, where, and a hint. */
export class UserError extends Error {
  constructor(
    message: string,
    readonly hint?: string,
    readonly exitCode: number = exitCodes.failure,
  ) {
    super(message)
    this.name = 'UserError'
  }
}

/** The command line, or a file that it names, is wrong. */
export const usageError = (message: string, hint: string): UserError =>
  new UserError(message, hint, exitCodes.usage)

import type { Conclusion, Recommendation } from '../reports/recommendation/types.ts'

/** Exit codes of every `tune` command. `tune --help` and the reference list them. */
export const exitCodes = {
  ok: 0,
  failure: 1,
  usage: 2,
  sloUnmet: 3,
  unconfirmed: 4,
  offPlan: 5,
  regressed: 6,
  interrupted: 130,
} as const

/** Meaning of each exit code, as a sentence of the reference. */
export const exitCodeMeanings: Readonly<Record<keyof typeof exitCodes, string>> = {
  ok: 'The SLO is met and confirmed, or the command did what it was asked to do.',
  failure: 'A predictor, a store or the machine failed, or no trial gave a result.',
  usage: 'The command line, the experiment file or another input is wrong; nothing was started.',
  sloUnmet: 'No configuration is known to meet the SLO. The nearest one is named.',
  unconfirmed: 'A configuration was found, and no second load test confirms it.',
  offPlan: '`tune watch --once`: the recommendation no longer holds.',
  regressed: '`tune ci`: serving became more expensive than the build allows.',
  interrupted: 'Ctrl-C or SIGTERM. Finished trials are kept, and `tune resume` continues.',
}

/** Exit code of a recommendation. */
export const resolveExitCode = ({ conclusion }: Pick<Recommendation, 'conclusion'>): number =>
  exitCodeByConclusion[conclusion]

const exitCodeByConclusion: Readonly<Record<Conclusion, number>> = {
  confirmed: exitCodes.ok,
  unconfirmed: exitCodes.unconfirmed,
  'not asked': exitCodes.ok,
  simulated: exitCodes.ok,
  imported: exitCodes.unconfirmed,
  none: exitCodes.sloUnmet,
  unknown: exitCodes.failure,
}

/** An error whose message and hint are shown to the user as they are. */
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

/** An invalid command line, or an invalid file that it names. */
export const createUsageError = (message: string, hint: string): UserError =>
  new UserError(message, hint, exitCodes.usage)

import {
  type Candidate,
  conclusions,
  type Recommendation,
} from '../../reports/recommendation/types.ts'
import { parseCount } from '../config/units.ts'
import { exitCodeOf, exitCodes, UserError } from '../exit-codes.ts'

/** The recommended candidate, or that of a trial. @throws UserError where there is none */
export function candidateOf(recommendation: Recommendation, trial: string | undefined): Candidate {
  const { best, nearest, alternatives, experimentId, conclusion } = recommendation
  if (trial === undefined) {
    if (best) return best
    throw new UserError(
      `experiment ${experimentId}: ${conclusions[conclusion]}`,
      'choose a trial with --trial, or rank by another SLO: tune show --slo',
      exitCodeOf(recommendation),
    )
  }
  const number = parseCount(trial, 1)
  const found = [best, nearest, ...alternatives].find((c) => c?.trial === number)
  if (found) return found
  const known = [best, ...alternatives].flatMap((c) => (c?.feasible ? [c.trial] : []))
  throw new UserError(
    `experiment ${experimentId} has no trial ${number} that serves`,
    `trials that serve: ${known.join(', ') || 'none'}`,
    exitCodes.usage,
  )
}

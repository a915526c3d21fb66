/** Caveats that a reader must know before relying on a recommendation. */
import { configurationKey } from '../../search/space/space.ts'
import type { FinishedTrial, Provenance } from '../../trials/types.ts'
import { rate, rateInterval } from '../format.ts'
import { findOpenRivals } from './open-rivals.ts'
import type { RankedCandidate, RankingCriteria } from './ranked-candidate.ts'
import type { Candidate } from './types.ts'
import { formatRefutation } from './words.ts'

interface CaveatInput extends RankingCriteria {
  readonly provenance: Provenance
  readonly trials: readonly FinishedTrial[]
  readonly notices?: readonly string[]
}

/** Maximum number of rivals that are named; further ones are counted. */
const maxNamed = 3

export function listCaveats(
  input: CaveatInput,
  all: readonly RankedCandidate[],
  best: RankedCandidate | undefined,
): string[] {
  const caveats = [...(input.notices ?? [])]
  if (
    input.provenance !== 'measured' &&
    !caveats.some((c) => c.toLowerCase().includes(input.provenance))
  ) {
    caveats.push(`the figures are ${input.provenance}, not measured on the hardware they name`)
  }
  if (best)
    caveats.push(
      ...describeBest(input, best),
      ...describeRivals(input, all, best.candidate),
      ...(best.measurement?.caveats ?? []),
    )
  const inconclusive = all.map((j) => j.candidate).filter(({ status }) => status === 'inconclusive')
  caveats.push(
    ...nameCandidates('no result, other work on this machine disturbed every trial', inconclusive),
  )
  const failed = all.filter((j) => j.trial.state === 'failed').length
  if (failed > 0)
    caveats.push(`${failed} configuration${failed === 1 ? '' : 's'} could not be measured`)
  return [...new Set(caveats)]
}

function describeBest(
  { slo, trials }: CaveatInput,
  { candidate, confirmation, trial }: RankedCandidate,
): string[] {
  const [low, high] = candidate.capacityCi90Rps
  const refutation = formatRefutation(slo, candidate)
  return [
    ...(candidate.derived
      ? ['derived from load curves measured under another SLO: confirm it before you rely on it']
      : []),
    ...(candidate.bound === 'lower'
      ? [
          `the capacity is a lower bound: nothing above ${rate(candidate.estimateRps ?? candidate.capacityRps)} was ${candidate.status === 'imported' ? 'imported' : 'measured'}`,
        ]
      : []),
    ...(candidate.status !== 'imported' && low > 0 && high / low > 1.5
      ? [
          `the capacity is uncertain: ${rateInterval(candidate.capacityCi90Rps)} req/s (90 % interval)`,
        ]
      : []),
    ...(refutation
      ? [`not confirmed: it ${refutation}; ${rate(candidate.capacityRps)} met it`]
      : []),
    ...(!confirmation && trials.some((t) => isConfirmationOf(t, trial))
      ? ['its second load test is inconclusive: the machine or the load generator was too busy']
      : []),
  ]
}

const isConfirmationOf = (t: FinishedTrial, of: FinishedTrial): boolean =>
  t.purpose === 'confirmation' &&
  t.state === 'complete' &&
  configurationKey(t.configuration) === configurationKey(of.configuration)

function describeRivals(
  { objective }: CaveatInput,
  all: readonly RankedCandidate[],
  best: Candidate,
): string[] {
  const { better, close } = findOpenRivals(
    all.map((j) => j.candidate),
    best,
    objective,
  )
  return [
    ...nameCandidates('could beat the best if confirmed', better),
    ...nameCandidates('statistically tied with the best', close),
  ]
}

function nameCandidates(what: string, candidates: readonly Candidate[]): string[] {
  if (candidates.length === 0) return []
  const first = candidates.slice(0, maxNamed).map((c) => `${c.label} (trial ${c.trial})`)
  return [
    `${what}: ${first.join('; ')}${candidates.length > maxNamed ? ` and ${candidates.length - maxNamed} more` : ''}`,
  ]
}

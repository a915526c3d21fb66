/** What a reader must know before relying on a recommendation. */
import { configurationKey } from '../../search/space/space.ts'
import type { FinishedTrial, Provenance } from '../../trials/types.ts'
import { rate, rateInterval } from '../format.ts'
import type { Judged, View } from './judged.ts'
import type { Candidate } from './types.ts'
import { openRivals } from './unsettled.ts'
import { missedText } from './words.ts'

interface Told extends View {
  readonly provenance: Provenance
  readonly trials: readonly FinishedTrial[]
  readonly notices?: readonly string[]
}

/** Rivals named one by one. */
const named = 3

export function caveatsOf(input: Told, all: readonly Judged[], best: Judged | undefined): string[] {
  const caveats = [...(input.notices ?? [])]
  if (
    input.provenance !== 'measured' &&
    !caveats.some((c) => c.toLowerCase().includes(input.provenance))
  ) {
    caveats.push(`the figures are ${input.provenance}, not measured on the hardware they name`)
  }
  if (best)
    caveats.push(
      ...ofTheBest(input, best),
      ...ofRivals(input, all, best.candidate),
      ...(best.measurement?.caveats ?? []),
    )
  const spoilt = all.map((j) => j.candidate).filter(({ status }) => status === 'inconclusive')
  caveats.push(...naming('no result, other work on this machine disturbed every trial', spoilt))
  const failed = all.filter((j) => j.trial.state === 'failed').length
  if (failed > 0)
    caveats.push(`${failed} configuration${failed === 1 ? '' : 's'} could not be measured`)
  return [...new Set(caveats)]
}

function ofTheBest({ slo, trials }: Told, { candidate, second, trial }: Judged): string[] {
  const [low, high] = candidate.capacityCi90Rps
  const missed = missedText(slo, candidate)
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
    ...(missed ? [`not confirmed: it ${missed}; ${rate(candidate.capacityRps)} met it`] : []),
    ...(!second && trials.some((t) => isSecondOf(t, trial))
      ? ['its second load test is inconclusive: the machine or the load generator was too busy']
      : []),
  ]
}

const isSecondOf = (t: FinishedTrial, of: FinishedTrial): boolean =>
  t.purpose === 'confirmation' &&
  t.state === 'complete' &&
  configurationKey(t.configuration) === configurationKey(of.configuration)

function ofRivals({ objective }: Told, all: readonly Judged[], best: Candidate): string[] {
  const { better, close } = openRivals(
    all.map((j) => j.candidate),
    best,
    objective,
  )
  return [
    ...naming('could beat the best if confirmed', better),
    ...naming('statistically tied with the best', close),
  ]
}

function naming(what: string, candidates: readonly Candidate[]): string[] {
  if (candidates.length === 0) return []
  const first = candidates.slice(0, named).map((c) => `${c.label} (trial ${c.trial})`)
  return [
    `${what}: ${first.join('; ')}${candidates.length > named ? ` and ${candidates.length - named} more` : ''}`,
  ]
}

/** Sentences: the verdict, and why the others were not chosen. */
import type { Slo, Variation } from '../../profiler/types.ts'
import {
  cost,
  costText,
  gainOver,
  isTooDear,
  metricOf,
  orderIsOpen,
  partWorse,
  priceBoundOf,
  shownCost,
  verdictText,
  wordsOf,
} from '../../search/objective.ts'
import type { Objective } from '../../search/types.ts'
import {
  certaintyPercent,
  money,
  percent,
  rate,
  sloText,
  sloValue,
  times,
  writing,
} from '../format.ts'
import { tellsNothing } from './reasons.ts'
import type { Status } from './status.ts'
import { tokensInBrief } from './token-figures.ts'
import type { Candidate, Conclusion, Recommendation, StopBelief } from './types.ts'
import { isUnsettled } from './unsettled.ts'
import { atCapacityText, capacityText, missedText, variationText } from './words.ts'

/** What stands before a verdict that a second measurement does not bear out. */
const preamble: Readonly<Partial<Record<Conclusion, string>>> = {
  unconfirmed: 'Best found, NOT confirmed: ',
  'not asked': 'Best found, measured once as asked: ',
  simulated: 'Simulated, nothing measured: ',
  imported: 'Imported, not measured by tune: ',
}

/**
 * '2 cores, 1/4 T4 (4 GiB), batch 8: 212 req/s at p99 43 ms, $0.11 per million requests, 2.3x
 * cheaper than the default'
 */
export function verdictOf(
  best: Candidate,
  conclusion: Conclusion,
  slo: Slo,
  objective: Objective,
  beside: {
    /** The default. */
    readonly candidate?: Candidate
    readonly gain?: number
    readonly variation?: Variation
  },
): string {
  const figures = `${capacityText(best)} ${slo.limits ? 'with' : 'at'} ${atCapacityText(slo, best)}`
  const gain = gainPhrase(best, objective, beside)
  const more = [missedText(slo, best), beside.variation && variationText(slo, beside.variation)]
  const tokens = best.tokens ? [tokensInBrief(best.tokens)] : []
  const said = [
    figures,
    verdictText(objective, best, writing),
    ...tokens,
    ...(gain ? [gain] : []),
  ].join(', ')
  const sentence = [said, ...more.filter((text) => text !== undefined)].join('; ')
  return `${preamble[conclusion] ?? ''}${best.label}: ${sentence}`
}

function gainPhrase(
  best: Candidate,
  objective: Objective,
  { candidate, gain }: { candidate?: Candidate; gain?: number },
): string | undefined {
  if (!candidate) return undefined
  if (candidate.trial === best.trial) return 'which is the default itself'
  if (!candidate.feasible) return besideNoCandidate(candidate, best, objective)
  if (gain === undefined && metricOf(objective) === undefined) return undefined
  if (gain === undefined) return `against ${costText(objective, candidate, writing)} of the default`
  const { better, noBetter } = wordsOf(objective.kind)
  return gain < 1.005 ? noBetter : `${times(gain)} ${better} the default`
}

/** Beside a default that is no candidate: what is known of it, and no more. */
function besideNoCandidate(fallback: Candidate, best: Candidate, objective: Objective): string {
  if (tellsNothing(fallback)) return 'where nothing is known of the default'
  if (isTooDear(objective, fallback.pricePerHour))
    return 'where the default costs more than is allowed'
  if (fallback.bound === 'upper' && fallback.capacityRps > 0) {
    const least = gainOver(objective, best.cost, cost(objective, fallback)) ?? 0
    return least >= 1.005
      ? `at least ${times(least)} ${wordsOf(objective.kind).better} the default`
      : 'not settled against the default'
  }
  if (fallback.capacityRps > 0) return 'where the default is no candidate'
  if (fallback.status === 'infeasible') return 'where the default does not meet the SLO'
  return fallback.missed
    ? `where the default violated the SLO at ${rate(fallback.missed.rateRps)} and lower rates were not tried`
    : 'where the default is not known to meet the SLO'
}

/** Of these it is not known that they meet the SLO at no rate: only some were tried. */
const undecided: readonly Status[] = ['bound', 'refuted', 'disturbed']

/** The verdict when nothing meets the SLO, as far as is known. */
export function verdictOfNone(
  nearest: Candidate | undefined,
  all: readonly Candidate[],
  slo: Slo,
  objective: Objective,
): string {
  const wanted = sloText(slo)
  if (!nearest) return `No configuration meets ${wanted}: none of those tried could serve`
  const bound = priceBoundOf(objective)
  if (
    nearest.capacityRps > 0 &&
    bound !== undefined &&
    isTooDear(objective, nearest.pricePerHour)
  ) {
    return `No configuration meets ${wanted} within ${money(bound)} per hour: the nearest, ${nearest.label}, costs ${money(nearest.pricePerHour)}`
  }
  const over = nearest.sloMsAtCapacity / slo.limitMs
  const isDecided = nearest.sloMsFrom === 'idle' && Number.isFinite(over) && over > 1
  if (!isDecided || nearest.status !== 'infeasible') {
    return `No configuration is known to meet ${wanted}: the nearest, ${nearest.label}, ${nearest.reason}`
  }
  const known = all.some(({ status }) => undecided.includes(status)) ? 'is known to meet' : 'meets'
  return `No configuration ${known} ${wanted}: the nearest, ${nearest.label}, takes ${sloValue(slo, nearest.sloMsAtCapacity)} for one request at a time${slo.limits ? '' : `, ${times(over)} the limit`}`
}

/** The verdict when no trial tells anything of its configuration. */
export function verdictOfNothing(all: readonly Candidate[]): string {
  const [first] = all
  if (first === undefined) return 'Nothing has been measured yet'
  const { label, reason = '' } = first
  if (all.length === 1) return `${reason.charAt(0).toUpperCase()}${reason.slice(1)}`
  return `Nothing is known of any of the ${all.length} configurations tried: ${label}: ${reason}`
}

/**
 * Why an alternative was not chosen: '12 % dearer', '3 % dearer, within the uncertainty', or why it
 * cannot serve.
 */
export function whyNot(
  candidate: Candidate,
  best: Candidate | undefined,
  objective: Objective,
): string {
  if (!candidate.feasible || !best)
    return atLeastDearer(candidate, best, objective) ?? candidate.reason ?? 'not chosen'
  const part = partWorse(objective, candidate.cost, best.cost)
  const equal = part !== undefined && Math.abs(part) < 0.0005
  if (isUnsettled(candidate, best, objective))
    return equal
      ? 'not settled: equal by one measurement'
      : `not settled: better by one measurement`
  if (equal)
    return candidate.capacityRps < best.capacityRps ? 'equal, with a lower capacity' : 'equal'
  if (candidate.cost < best.cost) return 'no better at the rate that it would be confirmed at'
  const unsure = orderIsOpen(objective, candidate, best) ? ', within the uncertainty' : ''
  return `${worseText(objective, candidate, best, part)}${unsure}`
}

/** '12 % dearer'; of what has no shares 'queue_depth 5 against 3'. */
function worseText(
  objective: Objective,
  candidate: Candidate,
  best: Candidate,
  part: number | undefined,
): string {
  if (part !== undefined) return `${percent(Math.abs(part))} ${wordsOf(objective.kind).worse}`
  return `${costText(objective, candidate, writing)} against ${writing.plain(shownCost(objective, best.cost))}`
}

/** Of a trial that was cut short: '12 % dearer at least: serves at most 891 req/s'. */
function atLeastDearer(
  candidate: Candidate,
  best: Candidate | undefined,
  objective: Objective,
): string | undefined {
  if (!best || candidate.bound !== 'upper' || !(candidate.capacityRps > 0)) return undefined
  const worse = partWorse(objective, cost(objective, candidate), best.cost)
  return worse !== undefined && worse > 0.0005
    ? `${percent(worse)} ${wordsOf(objective.kind).worse} at least: ${candidate.reason}`
    : `not settled: ${candidate.reason}`
}

/** What the stop rule allows to be said. */
export function confidenceOf({
  probabilityBetterExists: p,
  tolerance,
}: Partial<StopBelief> = {}): Recommendation['confidence'] {
  const within = tolerance ?? 0.05
  if (p === undefined)
    return { tolerance: within, statement: 'How sure the search is was not assessed.' }
  // The rule gives exactly 1 where it has nothing to go by: any finite number of draws comes to
  // less.
  if (p >= 1) {
    const statement =
      'Whether something untried is better is not known: there are too few trials to tell.'
    return { tooFewTrials: true, tolerance: within, statement }
  }
  const probability = 1 - p
  const shown = certaintyPercent(probability)
  return {
    probabilityWithinTolerance: probability,
    tolerance: within,
    statement:
      probability < 0.5
        ? `The search stopped before it could be sure: with ${100 - shown} % probability, something untried is more than ${percent(within)} better (by the search's own model).`
        : `With ${shown} % probability, nothing untried in the search space is more than ${percent(within)} better (by the search's own model).`,
  }
}

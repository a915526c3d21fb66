/** A configuration's figures in words, the same on the terminal, the page and in the report. */
import type { Variation } from '../../profiler/model/measurement.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import {
  computeCertaintyPercent,
  latency,
  rate,
  rateInterval,
  significant,
  sloFigure,
  sloName,
  sloValue,
} from '../format.ts'
import type { Candidate, Recommendation } from './types.ts'
import type { findLowestViolation } from './windows.ts'

/**
 * Safe capacity: '212 req/s', 'at most 891 req/s'; 'below 250 req/s' where the SLO was met at no
 * rate tried.
 */
export function formatCapacity({
  capacityRps,
  estimateRps,
  capacityCi90Rps: [, high],
  bound,
}: Pick<Candidate, 'capacityRps' | 'estimateRps' | 'capacityCi90Rps' | 'bound'>): string {
  if (capacityRps === 0 && bound === 'upper')
    return Number.isFinite(high) ? `below ${rate(high)}` : 'not known'
  // A lower bound is that of the estimate, where one is shown: `estimateText` says so.
  const isPlain = bound === undefined || estimateRps !== undefined || capacityRps === 0
  return `${isPlain ? '' : bound === 'lower' ? 'at least ' : 'at most '}${rate(capacityRps)}`
}

/**
 * The estimate before its discount: '236 [221 to 249]', 'at least 236'; '-' where there is none.
 */
export const estimateText = ({
  estimateRps,
  bound,
  capacityCi90Rps,
}: Pick<Candidate, 'estimateRps' | 'bound' | 'capacityCi90Rps'>): string =>
  estimateRps === undefined
    ? '-'
    : bound === 'lower'
      ? `at least ${significant(estimateRps)}`
      : `${significant(estimateRps)} [${rateInterval(capacityCi90Rps)}]`

/**
 * Formats the lowest violation, where no tried rate met the SLO: 'violated the SLO at 250 req/s
 * (p99 163 ms); lower rates were not tried'.
 */
export function formatLowestViolation(
  slo: Slo,
  { rateRps, sloMs, invalidBelow }: NonNullable<ReturnType<typeof findLowestViolation>>,
): string {
  const figure = Number.isFinite(sloMs) ? sloFigure(slo, sloMs) : latency(sloMs)
  const below = invalidBelow
    ? 'windows at lower rates are inconclusive'
    : 'lower rates were not tried'
  return `violated the SLO at ${rate(rateRps)} (${figure}); ${below}`
}

/**
 * Name of the interval around a capacity. For imported results its ends are the loads that met and
 * violated the SLO, which is no confidence interval.
 */
export const nameInterval = ({ status }: Pick<Candidate, 'status'>): string =>
  status === 'imported' ? 'loads' : '90 %'

/** Notes on a latency that was not measured at the rate that it is shown with. */
const latencyNotes = { measured: [], model: ['estimated'], unloaded: ['unloaded'] } as const
const formatNotes = (notes: readonly string[]) => (notes.length > 0 ? ` (${notes.join('; ')})` : '')

/**
 * Formats the latency that goes with the capacity: 'p99 43 ms', 'p99 41 ms (estimated)', 'p99 73 ms
 * (unloaded; SLO 50 ms)'.
 */
export const formatLatencyAtCapacity = (
  slo: Slo,
  { sloMsAtCapacity, sloMsFrom }: Candidate,
  ...notes: readonly string[]
): string =>
  `${sloFigure(slo, sloMsAtCapacity)}${formatNotes([...latencyNotes[sloMsFrom], ...notes])}`

/** Formats the latency like `formatLatencyAtCapacity`, without the name of the percentile. */
export const formatLatencyValue = (slo: Slo, { sloMsAtCapacity, sloMsFrom }: Candidate): string =>
  `${sloValue(slo, sloMsAtCapacity)}${formatNotes(latencyNotes[sloMsFrom])}`

/** 'violated the SLO at 512 req/s in its second load test (p99 65 ms)' */
export const formatRefutation = (slo: Slo, { missed }: Candidate): string | undefined =>
  missed &&
  `violated the SLO at ${rate(missed.rateRps)} in its second load test (${Number.isFinite(missed.sloMs) ? sloFigure(slo, missed.sloMs) : latency(missed.sloMs)})`

/**
 * How measurements of a configuration disagree: 'its speed moved: the server ran at 0.71 to 1.00
 * times the speed of its first window; p99 57 ms to 163 ms in 7 windows over 62 s'.
 */
export const formatVariation = (
  slo: Slo,
  { found, windows, spanS, sloMs: [low, high] }: Variation,
): string =>
  `measurements of it disagree: ${found.join('; ')}; ${sloName(slo)} was ${sloValue(slo, low)} to ${sloValue(slo, high)} in ${windows} window${windows === 1 ? '' : 's'} over ${Math.round(spanS)} s`

/**
 * What a confirmation proves and does not prove: 'Meets the SLO at 2,140 req/s (99 % confidence),
 * violates it at 2,300 req/s; outages rarer than one per 20 s would go unnoticed'. Undefined if
 * its confidence is not known, or the run was simulated.
 */
export function formatProof({
  confirmation,
  provenance,
}: Pick<Recommendation, 'confirmation' | 'provenance'>): string | undefined {
  if (!confirmation || provenance === 'simulated') return undefined
  const { met, rateRps, confidence, seconds, violatedRps } = confirmation
  if (!met || confidence === undefined || seconds === undefined) return undefined
  const proof =
    confidence >= 0.5
      ? `${computeCertaintyPercent(Math.min(confidence, 0.999))} % confidence`
      : 'not proven'
  const beyond = violatedRps === undefined ? '' : `, violates it at ${rate(violatedRps)}`
  return `Meets the SLO at ${rate(rateRps)} (${proof})${beyond}; outages rarer than one per ${Math.round(seconds)} s would go unnoticed`
}

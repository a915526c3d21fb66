/** A configuration's figures in words, the same wherever they stand. */
import type { Slo, Variation } from '../../profiler/types.ts'
import { certaintyPercent, latency, rate, sloFigure, sloName, sloValue } from '../format.ts'
import type { Candidate, Recommendation } from './types.ts'
import type { lowestViolation } from './windows.ts'

/** '212 req/s', 'at most 891 req/s'; of what met the SLO at no rate that was tried 'below 250 req/s'. */
export function capacityText({
  capacityRps,
  capacityCi90Rps: [, high],
  bound,
}: Pick<Candidate, 'capacityRps' | 'capacityCi90Rps' | 'bound'>): string {
  if (capacityRps === 0 && bound === 'upper')
    return Number.isFinite(high) ? `below ${rate(high)}` : 'not known'
  return `${bound === undefined || capacityRps === 0 ? '' : bound === 'lower' ? 'at least ' : 'at most '}${rate(capacityRps)}`
}

/**
 * What is known where no rate that was tried met the SLO: 'violated the SLO at 250 req/s (p99 163
 * ms); lower rates were not tried'.
 */
export function violatedText(
  slo: Slo,
  { rateRps, sloMs, invalidBelow }: NonNullable<ReturnType<typeof lowestViolation>>,
): string {
  const figure = Number.isFinite(sloMs) ? sloFigure(slo, sloMs) : latency(sloMs)
  const below = invalidBelow ? 'windows at lower rates say nothing' : 'lower rates were not tried'
  return `violated the SLO at ${rate(rateRps)} (${figure}); ${below}`
}

/**
 * What stands on both sides of a capacity: of imported results the loads that kept the SLO and
 * missed it, which is no interval of confidence.
 */
export const intervalName = ({ status }: Pick<Candidate, 'status'>): string =>
  status === 'imported' ? 'loads' : '90 %'

/** What stands after a latency that was not measured at the rate beside it. */
const source = { measured: '', model: ' by the model', idle: ' when idle' } as const

/**
 * The latency that goes with the capacity: 'p99 43 ms', 'p99 50 ms by the model', 'p99 73 ms when
 * idle'.
 */
export const atCapacityText = (slo: Slo, { sloMsAtCapacity, sloMsFrom }: Candidate): string =>
  `${sloFigure(slo, sloMsAtCapacity)}${source[sloMsFrom]}`

/** The same without the percentile's name. */
export const atCapacityValue = (slo: Slo, { sloMsAtCapacity, sloMsFrom }: Candidate): string =>
  `${sloValue(slo, sloMsAtCapacity)}${source[sloMsFrom]}`

/**
 * What a second measurement missed: 'measured again it missed the SLO at 512 req/s (p99 65 ms)'.
 */
export const missedText = (slo: Slo, { missed }: Candidate): string | undefined =>
  missed &&
  `measured again it missed the SLO at ${rate(missed.rateRps)} (${Number.isFinite(missed.sloMs) ? sloFigure(slo, missed.sloMs) : latency(missed.sloMs)})`

/**
 * How measurements of a configuration disagree: 'its speed moved: the server ran at 0.71 to 1.00
 * times the speed of its first window; p99 57 ms to 163 ms in 7 windows over 62 s'.
 */
export const variationText = (
  slo: Slo,
  { found, windows, spanS, sloMs: [low, high] }: Variation,
): string =>
  `measurements of it disagree: ${found.join('; ')}; ${sloName(slo)} was ${sloValue(slo, low)} to ${sloValue(slo, high)} in ${windows} window${windows === 1 ? '' : 's'} over ${Math.round(spanS)} s`

/**
 * What a confirmation proves, and what it does not: '2140 req/s holds (99 % sure), 2300 req/s does
 * not; a stall that comes more seldom than every 20 s was not looked for'. Undefined where its
 * certainty is not known.
 */
export function proofText({
  held,
  rateRps,
  sure,
  seconds,
  missedRps,
}: NonNullable<Recommendation['confirmation']>): string | undefined {
  if (!held || sure === undefined || seconds === undefined) return undefined
  const holds = `${rate(rateRps)} holds (${sure >= 0.5 ? `${certaintyPercent(Math.min(sure, 0.999))} % sure` : 'not proven'})`
  const beyond = missedRps === undefined ? '' : `, ${rate(missedRps)} does not`
  return `${holds}${beyond}; a stall that comes more seldom than every ${Math.round(seconds)} s was not looked for`
}

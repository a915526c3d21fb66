/**
 * Whether a canary keeps the SLO, decided while looking: nothing is read here. Probes that arrive
 * at random see the canary as requests do (Wolff, "Poisson arrivals see time averages", Operations
 * Research 30, 1982), with what production sends it beside them.
 */
import { percentileName } from '../../profiler/slo.ts'
import { overShare } from '../../profiler/statistics/dependence.ts'
import { evidenceOn } from '../../profiler/statistics/sequential.ts'
import type { Slo } from '../../profiler/types.ts'
import { percent } from '../format.ts'

export interface CanaryQuestion {
  readonly slo: Slo
  /**
   * At most so often is a canary kept whose share of requests over the limit is more than the SLO
   * allows, and at most so often is one that keeps the SLO sent back: each by itself, however often
   * it is looked at.
   */
  readonly risk: number
  /** It is judged for so long at least, and left undecided no longer than `mostS`. */
  readonly leastS: number
  readonly mostS: number
}

/** Of all probes so far, in their order, what the SLO counts, ms; NaN where none was answered. */
interface Probed {
  readonly latencyMs: readonly number[]
  readonly seconds: number
}

export type CanaryVerdict =
  | { readonly kind: 'undecided' }
  | { readonly kind: 'keeps'; readonly text: string }
  | { readonly kind: 'misses' | 'in doubt'; readonly text: string }

/**
 * Sequential: evidence on the share over the limit from as many independent probes as these are
 * worth (dependence.ts), on failures beside it. Latency and failures share the risk of a canary
 * that is sent back though it keeps the SLO.
 */
export function judgeCanary(
  { latencyMs, seconds }: Probed,
  { slo, risk, leastS, mostS }: CanaryQuestion,
): CanaryVerdict {
  const { n, over, nEff } = overShare(Float64Array.from(latencyMs), slo.limitMs)
  if (n === 0)
    return seconds < mostS
      ? { kind: 'undecided' }
      : { kind: 'in doubt', text: 'no probe could be sent' }
  const failed = latencyMs.filter(Number.isNaN).length
  const share = n / nEff
  const { kept, missed } = evidenceOn(nEff, over / share, 1 - slo.percentile)
  const seen = `${n} probes, ${over} over ${slo.limitMs} ms or failed (${percent(over / n)}, and ${percentileName(slo.percentile)} allows ${percent(1 - slo.percentile)}), ${failed} failed`
  if (missed >= 2 / risk) return { kind: 'misses', text: seen }
  if (failsMore(n, failed, slo.maxErrorRate, risk))
    return { kind: 'misses', text: `${seen}, where ${percent(slo.maxErrorRate)} may fail` }
  if (kept >= 1 / risk && seconds >= leastS) return { kind: 'keeps', text: seen }
  if (seconds >= mostS) return { kind: 'in doubt', text: `${seen}: too few to be sure of either` }
  return { kind: 'undecided' }
}

const failsMore = (n: number, failed: number, allowed: number, risk: number): boolean =>
  allowed > 0 ? evidenceOn(n, failed, allowed).missed >= 2 / risk : failed > 0

/** Probes, none of them over the limit, before a canary can be kept. */
export function leastProbes({ percentile }: Pick<Slo, 'percentile'>, risk: number): number {
  let n = 1
  while (evidenceOn(n, 0, 1 - percentile).kept < 1 / risk) n = Math.ceil(n * 1.02)
  return n
}

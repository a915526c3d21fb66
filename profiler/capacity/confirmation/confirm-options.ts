/** Input and result of a confirmation. */
import type { Arrivals, Phase } from '../../model/load.ts'
import type { LoadGenerator } from '../../model/load-generator.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { Measurement } from '../../model/measurement.ts'
import type { Slo } from '../../model/slo.ts'
import type { Target } from '../../model/target.ts'
import type { EarlierMeasurement } from './agreement.ts'

export interface ConfirmOptions {
  readonly target: Target
  readonly slo: Slo
  /** Rate at which the SLO is to be confirmed. */
  readonly rateRps: number
  /** Lowest rate of use to the caller; below it another configuration is better. Absent: any. */
  readonly minRps?: number
  /** Lowest rate that is worth more, once proven, than `rateRps` without proof. Absent: none. */
  readonly minProvenRps?: number
  /**
   * Requests after which servers of this type were steady (`estimateRequestsUntilSteady`). Absent:
   * unknown.
   */
  readonly warmUpRequests?: number
  /**
   * Earlier measurements of the same configuration. Where measurements disagree, the confirmation
   * does not end early. Absent: none.
   */
  readonly earlier?: readonly EarlierMeasurement[]
  /**
   * Time at one rate after which the evidence decides, default 30. A clear case takes a third of
   * it; a case that may still be proven takes up to twice of it. Where measurements disagree, the
   * windows take all of it, spread over twice the time.
   */
  readonly seconds?: number
  /** Default Poisson. */
  readonly arrivals?: Arrivals
  readonly seed?: number
  readonly signal: AbortSignal
  readonly onStep?: (point: LoadPoint, phase: Phase) => void
  /** Default: a new generator, which is closed at the end. A given one stays open. */
  readonly generator?: LoadGenerator
  /** Absent: an interrupted confirmation is lost. */
  readonly windows?: ConfirmationWindows
}

/** Windows stored outside the process: an interrupted confirmation resumes after them. */
export interface ConfirmationWindows {
  /** Windows of the interrupted confirmation at the same rate, in time order. */
  readonly earlier: readonly LoadRun[]
  /**
   * Awaited after each played window.
   * @param position index among all windows, from 0
   */
  store(window: LoadRun, position: number): Promise<void>
}

/**
 * A measurement whose capacity is the highest rate that met the SLO, 0 without one. Its points are
 * the rates tried, with the windows of each concatenated.
 */
export interface Confirmation extends Measurement {
  /** Whether `rateRps` itself met the SLO. */
  readonly met: boolean
  readonly rateRps: number
  /** All windows at the highest rate that met the SLO, else at the last rate. */
  readonly point: LoadPoint
  /** Effective sample size of these windows. */
  readonly nEff: number
  /** Whether the windows alone prove the percentile at 95 %. */
  readonly proven: boolean
}

/** Options with their defaults. */
export type ConfirmationPlan = ConfirmOptions &
  Required<Pick<ConfirmOptions, 'arrivals' | 'seconds' | 'seed'>>

export const resolvePlan = (options: ConfirmOptions): ConfirmationPlan => ({
  ...options,
  arrivals: options.arrivals ?? { kind: 'poisson' },
  seconds: options.seconds ?? 30,
  seed: options.seed ?? 1,
})

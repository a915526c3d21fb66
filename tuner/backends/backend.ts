/**
 * The seam of measuring: what starts predictors and what measures them, the same wherever trials
 * run. `backend.contract.ts` says what each keeps.
 */
import type {
  CapacitySearchOptions,
  ConfirmationWindows,
  EarlierMeasurement,
} from '../../profiler/index.ts'
import type { Phase } from '../../profiler/model/load.ts'
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import type { Configuration, SearchSpace } from '../../search/types.ts'
import type { Launcher, Predictor } from '../../trials/types.ts'

/** Its capacity under the SLO, as well as it must be known. */
export interface TrialTask extends CapacitySearchOptions {
  readonly kind: 'trial'
  /**
   * Half width of the capacity's interval, as a share of it, that is narrow enough. Absent: as the
   * time under load allows.
   */
  readonly precision?: number
}

/** What is asked of a predictor that serves. */
export type MeasureTask =
  | TrialTask
  /**
   * Whether the SLO holds at a rate, and at lower ones where not: of a winner just found, or of a
   * recommendation made at any time before.
   */
  | {
      readonly kind: 'confirmation' | 'verification'
      readonly rateRps: number
      /** Rates below this are of no use: another would be better. */
      readonly minRps?: number
      /** Where the SLO holds at the rate without proof: the lowest that, proven, is worth more. */
      readonly minProvenRps?: number
      /** Requests after which its kind of server was steady, by what other trials of it showed. */
      readonly warmUpRequests?: number
      /** Of the same configuration. Absent: there are none that this one has to agree with. */
      readonly earlier?: readonly EarlierMeasurement[]
    }

export interface MeasureOptions {
  /** Of the trial: it seeds arrivals of its own. */
  readonly number: number
  readonly onStep: (point: LoadPoint, phase: Phase) => void
  /**
   * Of a confirmation. A backend that cannot keep windows plays all of them again: in virtual time
   * they cost nothing, and a load generator inside the cluster prints its result alone.
   */
  readonly windows?: ConfirmationWindows
  /** @param what the load generator waits for, in words */
  readonly onWaiting?: (what: string) => void
}

export interface Backend {
  readonly launcher: Launcher
  /** The experiment's, held to what there is here. */
  readonly space: SearchSpace
  /** What a reader of the figures must know. */
  readonly notices: readonly string[]
  /**
   * Measures a predictor of this backend's launcher. What a predictor does wrong is a measurement,
   * also its end.
   * @throws InfeasibleError where its answers under load are not those that they should be; the
   * signal's reason; what keeps load from being applied at all
   */
  measure(
    predictor: Predictor,
    task: MeasureTask,
    options: MeasureOptions,
    signal: AbortSignal,
  ): Promise<Measurement>
  /**
   * Whether a predictor may start while others are measured without taking anything of theirs. What
   * it says yes to may still find no place. Absent: never.
   */
  launchesBeside?(measured: readonly Configuration[], next: Configuration): boolean
  /** Ends what is kept between trials: generators, connections, predictors. Idempotent. */
  close(): Promise<void>
}

/**
 * Interface between the loop and wherever trials run: starts predictors and measures them.
 * `backend.contract.ts` tests what every backend must do.
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

/** Find the capacity under the SLO, to the required precision. */
export interface TrialTask extends CapacitySearchOptions {
  readonly kind: 'trial'
  /**
   * Required half width of the capacity's interval, as a share of the capacity. Absent: as narrow
   * as the load time allows.
   */
  readonly precision?: number
}

/** A measurement of a ready predictor. */
export type MeasureTask =
  | TrialTask
  /**
   * Whether the SLO is met at a rate, and at lower rates if not. A confirmation tests a new winner,
   * a verification an earlier recommendation.
   */
  | {
      readonly kind: 'confirmation' | 'verification'
      readonly rateRps: number
      /** Rates below this are not tried: another configuration would be better. */
      readonly minRps?: number
      /** A proven rate down to this one is preferred to the requested rate met without proof. */
      readonly minProvenRps?: number
      /** Requests after which comparable servers were steady in other trials. */
      readonly warmUpRequests?: number
      /** Earlier measurements of the configuration that this one must agree with. */
      readonly earlier?: readonly EarlierMeasurement[]
    }

export interface MeasureOptions {
  /** Number of the trial, which seeds its arrivals. */
  readonly number: number
  readonly onStep: (point: LoadPoint, phase: Phase) => void
  /**
   * Windows of an interrupted confirmation. Backends that cannot store windows repeat all: in
   * virtual time they are free, and a load generator inside the cluster only prints its result.
   */
  readonly windows?: ConfirmationWindows
  /** @param what the load generator waits for */
  readonly onWaiting?: (what: string) => void
}

export interface Backend {
  readonly launcher: Launcher
  /** The experiment's space, restricted to what this backend offers. */
  readonly space: SearchSpace
  /** Notices for readers of the figures. */
  readonly notices: readonly string[]
  /**
   * Measures a predictor of this backend's launcher. Faults of the predictor, even its exit, are
   * part of the measurement.
   * @throws InfeasibleError for wrong answers under load; the signal's reason; errors that prevent
   * any load
   */
  measure(
    predictor: Predictor,
    task: MeasureTask,
    options: MeasureOptions,
    signal: AbortSignal,
  ): Promise<Measurement>
  /**
   * Whether a predictor may start during other measurements without disturbing them. The launch may
   * still fail for lack of room. Absent: never.
   */
  canLaunchAlongside?(measured: readonly Configuration[], next: Configuration): boolean
  /**
   * Ends everything that is reused between trials: generators, connections, predictors. Idempotent.
   */
  close(): Promise<void>
}

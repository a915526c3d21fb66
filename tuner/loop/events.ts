/** The stream of typed events that terminal, logs, dashboard and outputs consume. */

import type { Phase } from '../../profiler/model/load.ts'
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import type { Recommendation } from '../../reports/recommendation/types.ts'
import type { Configuration, StopAssessment, Suggestion } from '../../search/types.ts'
import type { FinishedTrial, Provenance } from '../../trials/types.ts'

/** `at`: ISO 8601. `label`: a configuration in words, '2 cores, 1/4 T4 (4 GiB), batch 8'. */
export type TuneEvent = { readonly at: string } & (
  | {
      readonly type: 'experiment-started'
      readonly experimentId: string
      readonly name: string
      readonly provenance: Provenance
      readonly seed: number
      readonly slo: Slo
      readonly maxTrials: number
      /** Configurations in the space, null for a continuous one. */
      readonly spaceSize: number
      /** Notices to show first: what is emulated, from which data, with which error. */
      readonly notices: readonly string[]
      /** Trials of an earlier run of the experiment. */
      readonly resumedTrials: number
      /** Those of them that count towards `maxTrials`: failed ones and confirmations do not. */
      readonly countedTrials: number
      /** Seconds of a confirmation; absent without one, and in virtual time. */
      readonly confirmSeconds?: number
    }
  | {
      readonly type: 'trial-started'
      readonly number: number
      readonly suggestion: Suggestion
      /** 1 for the first attempt at the configuration. */
      readonly attempt: number
      readonly label: string
      readonly pricePerHour: number
    }
  | {
      readonly type: 'predictor-ready'
      readonly number: number
      readonly isolation: string
      /** Since the trial started, including the `prepare` step. */
      readonly seconds: number
      /** Absent without a `prepare` step. */
      readonly prepared?: { readonly seconds: number; readonly reused: boolean }
      /** The predictor was launched while another trial was measured. */
      readonly ahead?: true
    }
  | {
      readonly type: 'load-step'
      readonly number: number
      readonly point: LoadPoint
      readonly sloMs: number
      readonly phase: Phase
    }
  | {
      readonly type: 'trial-finished'
      readonly trial: FinishedTrial
      readonly label: string
      readonly pricePerHour: number
      /** The trial has no result and runs again next. */
      readonly retry: boolean
      /** Price of all trials so far, $. */
      readonly spent: number
    }
  | {
      readonly type: 'best-changed'
      readonly number: number
      readonly label: string
      readonly costLabel: string
    }
  | {
      readonly type: 'stop-assessed'
      readonly assessment: StopAssessment
      readonly afterTrials: number
      /** Predicted number of further trials; absent: it cannot be predicted. */
      readonly trialsLeft?: number
    }
  | {
      readonly type: 'confirming'
      readonly number: number
      readonly configuration: Configuration
      readonly label: string
    }
  | {
      readonly type: 'confirmed'
      readonly number: number
      readonly met: boolean
      readonly rateRps: number
      readonly sloMs: number
    }
  | { readonly type: 'warning'; readonly message: string }
  | { readonly type: 'stopped'; readonly reason: StopReason; readonly detail: string }
  | {
      readonly type: 'recommended'
      readonly recommendation: Recommendation
      readonly files: readonly string[]
    }
)

export type StopReason =
  | 'certain'
  | 'not-worthwhile'
  | 'max-trials'
  | 'time-limit'
  | 'budget'
  | 'space-exhausted'
  | 'slo-unattainable'
  | 'machine-busy'
  | 'interrupted'
  | 'failed'

/** An event before it gets its time. */
export type EventBody = TuneEvent extends infer E
  ? E extends TuneEvent
    ? Omit<E, 'at'>
    : never
  : never

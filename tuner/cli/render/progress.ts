/** Folds events into the state that every renderer shows. Independent of a terminal. */
import { estimateConfirmationS } from '../../../profiler/index.ts'
import type { Phase } from '../../../profiler/model/load.ts'
import type { LoadPoint } from '../../../profiler/model/load-point.ts'
import type { Slo } from '../../../profiler/model/slo.ts'
import type { Recommendation } from '../../../reports/recommendation/types.ts'
import type { Suggestion } from '../../../search/types.ts'
import type { FinishedTrial, Provenance } from '../../../trials/types.ts'
import type { StopReason, TuneEvent } from '../../loop/events.ts'
import { countsAsTrial } from '../../loop/trial-status.ts'

export interface RunningTrial {
  readonly number: number
  readonly label: string
  readonly suggestion: Suggestion
  /** 1 for the first attempt at the configuration. */
  readonly attempt: number
  readonly startedAtMs: number
  readonly isolation?: string
  readonly prepared?: Extract<TuneEvent, { type: 'predictor-ready' }>['prepared']
  readonly steps: readonly { readonly point: LoadPoint; readonly phase: Phase }[]
  readonly confirming: boolean
}

export interface Row {
  readonly trial: FinishedTrial
  readonly label: string
  readonly pricePerHour: number
  /** 1 for the first attempt at the configuration. */
  readonly attempt: number
  /** Since its slot began; its server may have started earlier. */
  readonly turnSeconds: number
}

export interface Progress {
  readonly experimentId: string
  readonly name: string
  readonly provenance: Provenance
  readonly seed: number
  readonly slo?: Slo
  readonly maxTrials: number
  readonly spaceSize: number
  /** Trials of an earlier run that count towards `maxTrials`. */
  readonly countedTrials: number
  readonly confirmSeconds?: number
  readonly startedAtMs: number
  readonly notices: readonly string[]
  readonly warnings: readonly string[]
  readonly running: readonly RunningTrial[]
  /** Maximum number of concurrent trials so far. */
  readonly maxParallel: number
  /** Duration of the last server start. */
  readonly startSeconds?: number
  readonly rows: readonly Row[]
  readonly best?: { readonly number: number; readonly label: string; readonly costLabel: string }
  readonly probabilityBetterExists?: number
  /** Expected total number of trials, if it could be estimated. */
  readonly expectedTrials?: number
  readonly spent: number
  readonly stopped?: { readonly reason: StopReason; readonly detail: string }
  readonly recommendation?: Recommendation
  readonly files: readonly string[]
}

export const initialProgress: Progress = {
  experimentId: '',
  name: '',
  provenance: 'measured',
  seed: 0,
  maxTrials: 0,
  spaceSize: 0,
  countedTrials: 0,
  startedAtMs: 0,
  notices: [],
  warnings: [],
  running: [],
  maxParallel: 1,
  rows: [],
  spent: 0,
  files: [],
}

/** The state after one more event. */
export function applyEvent(state: Progress, event: TuneEvent): Progress {
  const atMs = Date.parse(event.at)
  const running = (number: number, change: (trial: RunningTrial) => RunningTrial) =>
    state.running.map((trial) => (trial.number === number ? change(trial) : trial))
  switch (event.type) {
    case 'experiment-started':
      return {
        ...state,
        experimentId: event.experimentId,
        name: event.name,
        provenance: event.provenance,
        seed: event.seed,
        slo: event.slo,
        maxTrials: event.maxTrials,
        spaceSize: event.spaceSize,
        countedTrials: event.countedTrials,
        confirmSeconds: event.confirmSeconds,
        notices: event.notices,
        startedAtMs: atMs,
      }
    case 'trial-started':
    case 'confirming':
      return {
        ...state,
        maxParallel: Math.max(state.maxParallel, state.running.length + 1),
        running: [
          ...state.running,
          {
            number: event.number,
            label: event.label,
            suggestion:
              event.type === 'trial-started'
                ? event.suggestion
                : { configuration: event.configuration, why: 'confirmation' },
            attempt: event.type === 'trial-started' ? event.attempt : 1,
            startedAtMs: atMs,
            steps: [],
            confirming: event.type === 'confirming',
          },
        ],
      }
    case 'predictor-ready':
      return {
        ...state,
        startSeconds: event.ahead ? state.startSeconds : event.seconds,
        running: running(event.number, (trial) => ({
          ...trial,
          isolation: event.isolation,
          prepared: event.prepared,
        })),
      }
    case 'load-step':
      return {
        ...state,
        running: running(event.number, (trial) => ({
          ...trial,
          steps: [...trial.steps, { point: event.point, phase: event.phase }],
        })),
      }
    case 'trial-finished':
      return {
        ...state,
        running: state.running.filter((trial) => trial.number !== event.trial.number),
        rows: [...state.rows, createRow(state, event, atMs)],
        spent: event.spent,
      }
    case 'confirmed':
      return { ...state, running: state.running.filter((trial) => trial.number !== event.number) }
    case 'best-changed':
      return {
        ...state,
        best: { number: event.number, label: event.label, costLabel: event.costLabel },
      }
    case 'stop-assessed':
      return {
        ...state,
        probabilityBetterExists: event.assessment.probabilityBetterExists,
        expectedTrials:
          event.trialsLeft === undefined ? undefined : event.afterTrials + event.trialsLeft,
      }
    case 'warning':
      return { ...state, warnings: [...state.warnings, event.message] }
    case 'stopped':
      return { ...state, running: [], stopped: { reason: event.reason, detail: event.detail } }
    case 'recommended':
      return { ...state, recommendation: event.recommendation, files: event.files }
  }
}

function createRow(
  { running }: Progress,
  { trial, label, pricePerHour }: Extract<TuneEvent, { type: 'trial-finished' }>,
  atMs: number,
): Row {
  const begun = running.find(({ number }) => number === trial.number)
  const turnSeconds = (atMs - (begun?.startedAtMs ?? atMs)) / 1000
  return { trial, label, pricePerHour, attempt: begun?.attempt ?? 1, turnSeconds }
}

/** Finished trials that count towards `maxTrials`. */
export const countTrials = (state: Progress): number =>
  state.countedTrials + state.rows.filter(({ trial }) => countsAsTrial(trial)).length

/**
 * Warm-up and unloaded latency of a confirmation, and its launch until one was measured, seconds.
 */
const confirmLoopsS = 2
const defaultStartS = 2

/** Including the launch; 0 without a confirmation. */
function estimateConfirmationSeconds({
  slo,
  confirmSeconds,
  best,
  rows,
  startSeconds = defaultStartS,
}: Progress): number {
  if (slo === undefined || confirmSeconds === undefined) return 0
  const trial = best && rows.find((row) => row.trial.number === best.number)?.trial
  const rateRps = trial?.state === 'complete' ? trial.measurement.capacityRps : undefined
  return estimateConfirmationS(slo, confirmSeconds, rateRps) + confirmLoopsS + startSeconds
}

/**
 * Estimated seconds for the remaining trials and one confirmation. Undefined before the first trial
 * ends, and once the confirmation exceeds its estimate.
 */
export function estimateRemainingSeconds(state: Progress, nowMs: number): number | undefined {
  const done = state.rows.length
  if (done === 0 || state.stopped) return undefined
  const [first] = state.running
  const inFlight = first ? (nowMs - first.startedAtMs) / 1000 : 0
  const confirmation = estimateConfirmationSeconds(state)
  if (first?.confirming) return confirmation > inFlight ? confirmation - inFlight : undefined
  const mean = state.rows.reduce((sum, row) => sum + row.turnSeconds, 0) / done
  const remainingTrials = Math.max(
    0,
    Math.min(state.maxTrials, state.expectedTrials ?? state.maxTrials) - countTrials(state),
  )
  return Math.max(0, (remainingTrials * mean) / state.maxParallel - inFlight) + confirmation
}

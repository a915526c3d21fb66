/** Runs one trial: launches a predictor, measures it, stops it, and classifies the outcome. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Phase } from '../../profiler/model/load.ts'
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { formatEnergy, rate } from '../../reports/format.ts'
import { failsAllRequests } from '../../reports/recommendation/status.ts'
import { computeJoulesPerRequest } from '../../search/objective.ts'
import type { Configuration } from '../../search/types.ts'
import {
  type FinishedTrial,
  InfeasibleError,
  type Launcher,
  type OnWaiting,
  type Prediction,
  type Predictor,
  type RunningTrial,
  type TrialPurpose,
  type Usage,
} from '../../trials/types.ts'
import type { Backend, MeasureOptions, MeasureTask } from '../backends/backend.ts'
import {
  classifyFailure,
  makeMeasurementPrintable,
  type PredictorState,
  RequestsFailedError,
} from './trial-failure.ts'

export interface TrialRequest {
  readonly number: number
  readonly configuration: Configuration
  readonly why: string
  readonly predicted?: Prediction
  readonly purpose?: TrialPurpose
  /** 1 for the first attempt at a configuration. */
  readonly attempt: number
  /** When the predictor was launched, if that was before the trial started; ms of `now`. */
  readonly launchedMs?: number
  /**
   * Bound on the energy per request, J. A predictor above it, or without reported power, is
   * infeasible.
   */
  readonly maxJoulesPerRequest?: number
}

export interface TrialHooks {
  readonly now: () => number
  /** @param ready how its resources are enforced, and the seconds since the trial started */
  readonly onReady: (
    ready: Pick<Predictor, 'isolation' | 'prepared'> & { readonly seconds: number },
  ) => void
  readonly onStep: (point: LoadPoint, phase: Phase) => void
  readonly onWaiting?: OnWaiting
  /** Windows of a confirmation, to continue an interrupted one. */
  readonly windows?: MeasureOptions['windows']
  /** Resolves once the predictor may be measured. @throws the signal's reason */
  readonly waitForSlot?: (signal: AbortSignal) => Promise<void>
}

/** Creates a trial as the store has it until it has finished. */
export const createRunningTrial = (
  { number, configuration, why, purpose, predicted }: Omit<TrialRequest, 'attempt'>,
  startedMs: number,
): RunningTrial => ({
  number,
  configuration,
  why,
  ...(purpose && { purpose }),
  ...(predicted && { predicted }),
  startedAt: new Date(startedMs).toISOString(),
  state: 'running',
})

/**
 * Maximum wait for the launcher to notice that the process ended, ms. On a busy machine the load
 * generator notices first. Assumed.
 */
const deathNoticeMs = 1_000

/**
 * Runs one trial to its end. The predictor is stopped in every case.
 * @throws the signal's reason when it aborts; every other outcome is a finished trial
 */
export async function runTrial(
  backend: { readonly launcher: Pick<Launcher, 'launch'>; readonly measure: Backend['measure'] },
  task: MeasureTask,
  request: TrialRequest,
  hooks: TrialHooks,
  signal: AbortSignal,
): Promise<FinishedTrial> {
  const { configuration, number, maxJoulesPerRequest } = request
  const startedMs = hooks.now()
  const launchedMs = request.launchedMs ?? startedMs
  const computeSecondsSince = (ms: number) => (hooks.now() - ms) / 1000
  const { state: _, ...base } = createRunningTrial(request, launchedMs)
  const state: PredictorState = {}
  try {
    const predictor = await backend.launcher.launch(configuration, number, signal, hooks.onWaiting)
    state.predictor = predictor
    await hooks.waitForSlot?.(signal)
    const { isolation, prepared } = predictor
    hooks.onReady({
      isolation,
      seconds: computeSecondsSince(startedMs),
      ...(prepared && { prepared }),
    })
    const options: MeasureOptions = {
      number,
      onStep: hooks.onStep,
      // 'room': the load waits for room in the cluster, and the trial keeps its slot meanwhile.
      onWaiting: (reason) => hooks.onWaiting?.(reason, 'room'),
      windows: hooks.windows,
    }
    const measurement = await measureUntilDeath(predictor, state, signal, (eitherSignal) =>
      backend.measure(predictor, task, options, eitherSignal),
    )
    const hasOnlyFailures =
      task.kind === 'trial' && measurement.outcome === 'errors' && failsAllRequests(measurement)
    if (hasOnlyFailures) throw new RequestsFailedError(measurement)
    const usage = await predictor.usage()
    await predictor.stop()
    checkEnergy(measurement.capacityRps, usage, maxJoulesPerRequest, predictor.logPath)
    return {
      ...base,
      state: 'complete',
      measurement: makeMeasurementPrintable(measurement),
      usage,
      logPath: predictor.logPath,
      seconds: computeSecondsSince(launchedMs),
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason
    const seconds = computeSecondsSince(launchedMs)
    return { ...base, ...classifyFailure(error, state, request.attempt, seconds) }
  } finally {
    await state.predictor?.stop()
  }
}

/**
 * Measures a predictor, and aborts the measurement when the predictor dies.
 * @throws an error if it dies before the measurement ends
 */
async function measureUntilDeath(
  { died }: Predictor,
  state: PredictorState,
  signal: AbortSignal,
  measure: (signal: AbortSignal) => Promise<Measurement>,
): Promise<Measurement> {
  const death = new AbortController()
  died?.then((cause) => {
    state.death = cause
    death.abort(new Error(cause.what))
  })
  const measurement = await measure(AbortSignal.any([signal, death.signal]))
  if (measurement.outcome === 'server-died') {
    await Promise.race([died, sleep(deathNoticeMs)])
    // The process may live on: one of its workers died, it closed its port, or it is remote.
    state.death ??= { what: measurement.detail ?? 'it no longer listens', outOfMemory: false }
  }
  if (state.death) throw new Error(state.death.what)
  return measurement
}

/**
 * Checks the energy per request against its bound.
 * @throws InfeasibleError if it exceeds the bound, or is unknown
 */
function checkEnergy(
  capacityRps: number,
  usage: Usage,
  maxJoules: number | undefined,
  logPath: string | undefined,
): void {
  if (maxJoules === undefined || !(capacityRps > 0)) return
  const joules = computeJoulesPerRequest(usage, capacityRps)
  if (joules !== undefined && joules <= maxJoules) return
  const detail =
    joules === undefined
      ? `the energy per request cannot be compared with its bound of ${formatEnergy(maxJoules)}: neither nvidia-smi nor RAPL reports power`
      : `${formatEnergy(joules)} per request at ${rate(capacityRps)}, over its bound of ${formatEnergy(maxJoules)}`
  throw new InfeasibleError('over-bound', detail, logPath)
}

/** One trial: launch, load-test, stop, and say what became of it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describeErrors } from '../../profiler/capacity/session.ts'
import type { Phase } from '../../profiler/model/load.ts'
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { plainText } from '../../profiler/plain-text.ts'
import { energy, rate } from '../../reports/format.ts'
import { answersNothing } from '../../reports/recommendation/status.ts'
import { computeJoulesPerRequest } from '../../search/objective.ts'
import type { Configuration } from '../../search/types.ts'
import { finalityOf } from '../../trials/launchers/readiness.ts'
import { withoutSecrets } from '../../trials/secrets.ts'
import {
  type Finality,
  type FinishedTrial,
  InfeasibleError,
  type InfeasibleReason,
  LaunchError,
  type Launcher,
  type OnWaiting,
  type Prediction,
  type Predictor,
  type PredictorDeath,
  type RunningTrial,
  type TrialPurpose,
  type Usage,
} from '../../trials/types.ts'
import type { Backend, MeasureOptions, MeasureTask } from '../backends/backend.ts'

export interface TrialRequest {
  readonly number: number
  readonly configuration: Configuration
  readonly why: string
  readonly predicted?: Prediction
  readonly purpose?: TrialPurpose
  /** 1 for the first try of a configuration. */
  readonly attempt: number
  /** When its predictor was started, where that was before its turn; ms as `now` tells. */
  readonly launchedMs?: number
  /** Of what tells its power; a trial over it is infeasible. */
  readonly maxJoulesPerRequest?: number
}

interface TrialHooks {
  readonly now: () => number
  /** @param ready how it is held, and the seconds since the trial began */
  readonly onReady: (
    ready: Pick<Predictor, 'isolation' | 'prepared'> & { readonly seconds: number },
  ) => void
  readonly onStep: (point: LoadPoint, phase: Phase) => void
  /** It waits for what no other trial holds. */
  readonly onWaiting?: OnWaiting
  /** Of a confirmation. */
  readonly windows?: MeasureOptions['windows']
  /** Resolves once it may be measured. @throws the signal's reason */
  readonly turn?: (signal: AbortSignal) => Promise<void>
}

/** As the store has a trial until it has finished. */
export const runningTrial = (
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
 * A predictor that dies under load this often with one configuration cannot serve it; nor can one
 * whose requests fail at any load.
 */
const deathsThatCondemn = 2
/**
 * On a busy machine the load sees that nothing listens any more before the launcher hears that the
 * process ended.
 */
const deathNoticeMs = 1_000

/**
 * Runs one trial to its end. The predictor is stopped whatever happens.
 * @throws the signal's reason when it aborts; nothing else: every other outcome is a finished
 * trial.
 */
export async function runTrial(
  {
    launcher,
    measure,
  }: { readonly launcher: Pick<Launcher, 'launch'>; readonly measure: Backend['measure'] },
  task: MeasureTask,
  request: TrialRequest,
  hooks: TrialHooks,
  signal: AbortSignal,
): Promise<FinishedTrial> {
  const { number, configuration, why, purpose, predicted } = request
  const turnMs = hooks.now()
  const startedMs = request.launchedMs ?? turnMs
  const base = {
    number,
    configuration,
    why,
    ...(purpose && { purpose }),
    ...(predicted && { predicted }),
    startedAt: new Date(startedMs).toISOString(),
  }
  const seconds = () => (hooks.now() - startedMs) / 1000
  const infeasible = (
    reason: InfeasibleReason,
    detail: string,
    logPath?: string,
  ): FinishedTrial => ({
    ...base,
    state: 'infeasible',
    reason,
    detail: shown(detail),
    seconds: seconds(),
    logPath,
    ...served(),
  })
  const served = () => (predictor === undefined ? {} : { served: true as const })

  let predictor: Predictor | undefined
  let death: PredictorDeath | undefined
  let refusal: string | undefined
  try {
    predictor = await launcher.launch(configuration, number, signal, hooks.onWaiting)
    await hooks.turn?.(signal)
    const { isolation, prepared } = predictor
    hooks.onReady({
      isolation,
      seconds: (hooks.now() - turnMs) / 1000,
      ...(prepared && { prepared }),
    })
    const died = new AbortController()
    predictor.died?.then((what) => {
      death = what
      died.abort(new Error(what.what))
    })
    const measurement = await measure(
      predictor,
      task,
      {
        number,
        onStep: hooks.onStep,
        onWaiting: (what) => hooks.onWaiting?.(what, 'room'),
        windows: hooks.windows,
      },
      AbortSignal.any([signal, died.signal]),
    )
    if (measurement.outcome === 'server-died') {
      await Promise.race([predictor.died, sleep(deathNoticeMs)])
      // Its process may live on: one of its workers ended, it left its port, or it is nobody's
      // here.
      death ??= { what: measurement.detail ?? 'it no longer listens', outOfMemory: false }
    }
    if (death) throw new Error(death.what)
    if (task.kind === 'trial' && measurement.outcome === 'errors' && answersNothing(measurement)) {
      refusal = refusedAll(measurement)
      throw new Error(refusal)
    }
    const usage = await predictor.usage()
    await predictor.stop()
    const over = overEnergy(measurement.capacityRps, usage, request.maxJoulesPerRequest)
    if (over !== undefined) throw new InfeasibleError('over-bound', over, predictor.logPath)
    return {
      ...base,
      state: 'complete',
      measurement: speakable(measurement),
      usage,
      logPath: predictor.logPath,
      seconds: seconds(),
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason
    if (error instanceof InfeasibleError)
      return infeasible(error.reason, error.message, error.logPath)
    if (death?.outOfMemory)
      return infeasible('out-of-memory', `under load: ${death.what}`, predictor?.logPath)
    if (death && !death.external && request.attempt >= deathsThatCondemn) {
      return infeasible(
        'crashed',
        `died under load ${request.attempt} times: ${death.what}`,
        predictor?.logPath,
      )
    }
    if (refusal !== undefined && request.attempt >= deathsThatCondemn) {
      return infeasible(
        'requests-fail',
        `in ${request.attempt} trials: ${refusal}${lastLogLines(predictor)}`,
        predictor?.logPath,
      )
    }
    const failedSeconds = seconds()
    return {
      ...base,
      state: 'failed',
      error: describeFailure(error, predictor),
      ...finality(error),
      ...(error instanceof LaunchError &&
        error.unplaced && { usage: { nodeWaitSeconds: failedSeconds } }),
      ...served(),
      logPath: predictor?.logPath,
      seconds: failedSeconds,
    }
  } finally {
    await predictor?.stop()
  }
}

/** What a server that answered before the load did with its requests under it. */
function refusedAll({ points, detail }: Measurement): string {
  const errorKinds: Record<string, number> = {}
  for (const point of points)
    for (const [kind, count] of Object.entries(point.errorKinds))
      errorKinds[kind] = (errorKinds[kind] ?? 0) + count
  const sum = (count: 'errors' | 'requests') => points.reduce((all, point) => all + point[count], 0)
  const counted = describeErrors({ errors: sum('errors'), requests: sum('requests'), errorKinds })
  return `its requests fail under load: ${counted}${detail === undefined ? '' : `; ${detail}`}`
}

/** Why a configuration that serves may not for its energy; undefined where it may. */
function overEnergy(
  capacityRps: number,
  usage: Usage,
  max: number | undefined,
): string | undefined {
  if (max === undefined || !(capacityRps > 0)) return undefined
  const joules = computeJoulesPerRequest(usage, capacityRps)
  if (joules === undefined)
    return `the energy per request cannot be compared with its bound of ${energy(max)}: neither nvidia-smi nor RAPL reports power`
  return joules <= max
    ? undefined
    : `${energy(joules)} per request at ${rate(capacityRps)}, over its bound of ${energy(max)}`
}

/** What a server says may repeat what it was sent, and move the cursor of whoever reads it. */
const shown = (text: string): string => plainText(withoutSecrets(text))

const speakable = (measurement: Measurement): Measurement => ({
  ...measurement,
  ...(measurement.detail !== undefined && { detail: shown(measurement.detail) }),
  caveats: measurement.caveats.map(shown),
})

/** Launchers say so of their errors; a payload that cannot be used is the same for every trial. */
function finality(error: unknown): { final?: Finality } {
  if (error instanceof LaunchError) return error.final === undefined ? {} : { final: error.final }
  const final = error instanceof Error ? finalityOf(error) : undefined
  return final === undefined ? {} : { final }
}

function describeFailure(error: unknown, predictor: Predictor | undefined): string {
  const message = error instanceof Error ? error.message : String(error)
  const hint =
    error instanceof Error && 'hint' in error && typeof error.hint === 'string'
      ? ` (${error.hint})`
      : ''
  return shown(`${message}${hint}${lastLogLines(predictor)}`)
}

/** For the end of a message; '' where the server printed nothing. */
function lastLogLines(predictor: Predictor | undefined): string {
  const tail = predictor?.logTail().trim().split('\n').slice(-3).join(' | ')
  return tail ? `; last log lines: ${tail}` : ''
}

/**
 * The confirmation race: second, independent measurements of the candidates that may be the best,
 * until the cheapest one is confirmed.
 */
import { isImported } from '../../profiler/capacity/rederive/imported-loads.ts'
import { type EarlierMeasurement, extractEarlierMeasurement } from '../../profiler/index.ts'
import { areSameSlo, type Slo } from '../../profiler/model/slo.ts'
import { chooseConfirmationRound } from '../../reports/recommendation/confirmation-round.ts'
import type { Candidate } from '../../reports/recommendation/types.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { MeasureTask } from '../backends/backend.ts'
import type { Experiment } from '../config/types.ts'
import { describeWaiting } from '../waiting-text.ts'
import type { EventBody } from './events.ts'
import type { Ledger } from './ledger.ts'
import type { LoopParts } from './parts.ts'
import { createRunningTrial, runTrial, type TrialHooks } from './trial-runner.ts'
import { isSearchTrial } from './trial-status.ts'
import { estimateSteadyRequests } from './trial-task.ts'

/**
 * Maximum confirmations of a run. With up to four, 93 to 94 % of the searches that stop name the
 * best configuration (docs/research/search.md, the stop rule).
 */
export const maxConfirmationRounds = 4
/**
 * Maximum confirmations of one configuration. Two, because a refuted candidate may lead again at a
 * lower rate, and a failed or disturbed confirmation is no evidence. Assumed.
 */
const maxRoundsPerConfiguration = 2

type RateTask = Extract<MeasureTask, { rateRps: number }>

/**
 * Confirms candidates, the cheapest first, until the best one is confirmed or no round is left.
 * Rounds before an interruption count.
 * @throws the signal's reason when it aborts
 */
export async function confirmCandidates(
  experiment: Experiment,
  parts: LoopParts,
  ledger: Ledger,
  emit: (event: EventBody) => void,
  signal: AbortSignal,
): Promise<void> {
  const finishedConfirmations = ledger.trialsOfRun.filter((trial) => !isSearchTrial(trial))
  if (finishedConfirmations.some(isFinalForAll)) return
  /** Keys of the confirmed configurations, one per confirmation. */
  const confirmedKeys = finishedConfirmations.map(({ configuration }) =>
    configurationKey(configuration),
  )
  const isExhausted = ({ configuration }: Candidate) => {
    const candidateKey = configurationKey(configuration)
    return confirmedKeys.filter((key) => key === candidateKey).length >= maxRoundsPerConfiguration
  }
  while (confirmedKeys.length < maxConfirmationRounds) {
    const recommendation = parts.recommend(ledger.trials, undefined)
    const plannedRound = chooseConfirmationRound(
      recommendation,
      isExhausted,
      experiment.stop.tolerance,
    )
    if (!plannedRound) return
    const { configuration } = plannedRound.candidate
    confirmedKeys.push(configurationKey(configuration))
    // The last round accepts any rate that meets the SLO, so that the run ends with a confirmed
    // one.
    const isLast = confirmedKeys.length === maxConfirmationRounds
    const task: RateTask = {
      kind: 'confirmation',
      rateRps: plannedRound.rateRps,
      minProvenRps: plannedRound.minProvenRps,
      warmUpRequests: estimateSteadyRequests(configuration, experiment.space, ledger.trials),
      earlier: findEarlierMeasurements(configuration, ledger.trials, experiment.slo),
      ...(!isLast && { minRps: plannedRound.minRps }),
    }
    const trial = await measureAtRate(
      experiment,
      parts,
      ledger,
      emit,
      task,
      plannedRound.candidate,
      signal,
    )
    if (isFinalForAll(trial)) return
  }
}

/** Measurements of a configuration by this experiment under its SLO, without imported ones. */
function findEarlierMeasurements(
  configuration: Configuration,
  trials: readonly FinishedTrial[],
  slo: Slo,
): EarlierMeasurement[] {
  const key = configurationKey(configuration)
  return trials.flatMap((trial) =>
    trial.state === 'complete' &&
    configurationKey(trial.configuration) === key &&
    !isImported(trial.measurement) &&
    areSameSlo(trial.measurement.slo, slo)
      ? [extractEarlierMeasurement(trial.measurement)]
      : [],
  )
}

/** Whether a trial failed with finality 'experiment': every other trial would fail like it. */
const isFinalForAll = (trial: FinishedTrial): boolean =>
  trial.state === 'failed' && trial.final === 'experiment'

/**
 * Confirms or verifies a candidate at a rate, and records the result. An interrupted confirmation
 * resumes with its number and its windows; a verification starts anew.
 */
export async function measureAtRate(
  experiment: Experiment,
  parts: Pick<LoopParts, 'backend' | 'label' | 'now' | 'store' | 'experimentId'>,
  ledger: Ledger,
  emit: (event: EventBody) => void,
  task: RateTask,
  { configuration, trial: candidateTrial }: Pick<Candidate, 'configuration' | 'trial'>,
  signal: AbortSignal,
): Promise<FinishedTrial> {
  const { store, experimentId, now } = parts
  const isConfirmation = task.kind === 'confirmation'
  const interrupted = isConfirmation ? takeInterrupted(ledger, configuration) : undefined
  const number = interrupted?.number ?? ledger.allocateNumber()
  emit({ type: 'confirming', number, configuration, label: parts.label(configuration) })
  const why = `${task.kind} of trial ${candidateTrial}`
  const request = { number, configuration, why, purpose: 'confirmation', attempt: 1 } as const
  if (isConfirmation) await store.start(experimentId, createRunningTrial(request, now()))
  const windows: TrialHooks['windows'] = {
    earlier: interrupted?.windows ?? [],
    store: (window, position) => store.addWindow(experimentId, number, position, window),
  }
  const hooks: TrialHooks = {
    ...(isConfirmation && { windows }),
    now,
    onReady: (ready) => emit({ type: 'predictor-ready', number, ...ready }),
    onStep: (point, phase) =>
      emit({ type: 'load-step', number, point, sloMs: experiment.slo.limitMs, phase }),
    // 'room': the trial waits for resources of the cluster.
    onWaiting: (reason, waitKind = 'room') =>
      emit({ type: 'warning', message: describeWaiting(number, reason, waitKind) }),
  }
  const trial = await runTrial(parts.backend, task, request, hooks, signal)
  await store.append(experimentId, trial)
  ledger.record(trial)
  reportConfirmation(trial, emit)
  return trial
}

const takeInterrupted = (ledger: Ledger, configuration: Configuration) =>
  ledger.takeInterrupted(
    (trial) =>
      !isSearchTrial(trial) &&
      configurationKey(trial.configuration) === configurationKey(configuration),
  )

function reportConfirmation(trial: FinishedTrial, emit: (event: EventBody) => void): void {
  const measurement = trial.state === 'complete' ? trial.measurement : undefined
  const rateRps = measurement?.capacityRps ?? 0
  // Infinity: no window was measured.
  const sloMs = measurement?.points.at(-1)?.sloMs ?? Number.POSITIVE_INFINITY
  emit({ type: 'confirmed', number: trial.number, met: rateRps > 0, rateRps, sloMs })
  if (trial.state === 'complete') return
  const cause = trial.state === 'failed' ? trial.error : trial.detail
  emit({ type: 'warning', message: `the ${trial.why} did not complete: ${cause}` })
}

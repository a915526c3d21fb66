/**
 * The race of those that may be the best: second, independent measurements at rates that hold if
 * they are what they seem, until the cheapest at the rate that it was measured at is one that held.
 */
import { isImported } from '../../profiler/capacity/rederive/imported-loads.ts'
import { extractEarlierMeasurement } from '../../profiler/index.ts'
import { areSameSlo, type Slo } from '../../profiler/model/slo.ts'
import type { Candidate } from '../../reports/recommendation/types.ts'
import { nextHeat } from '../../reports/recommendation/unsettled.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { MeasureTask } from '../backends/backend.ts'
import type { Experiment } from '../experiment/types.ts'
import { waitingWords } from '../not-ready-yet.ts'
import type { EventBody } from './events.ts'
import type { LoopParts } from './parts.ts'
import type { TrialLog } from './trial-log.ts'
import { runningTrial, runTrial } from './trial-runner.ts'
import { steadyRequestsFor } from './trial-task.ts'

/** A winner that is missed gives way to the next at once; more heats than this there are not. */
export const mostHeats = 4
/**
 * Of one configuration: one that was missed may lead again at a lower rate; a confirmation that
 * failed, or that the machine disturbed, says nothing of it.
 */
const maxTries = 2

/**
 * Confirms what is still open, in the order in which it matters, until nothing is. What was
 * confirmed before, or could not be, is not asked again.
 * @throws the signal's reason when it aborts.
 */
export async function confirmAsNeeded(
  experiment: Experiment,
  parts: LoopParts,
  log: TrialLog,
  emit: (event: EventBody) => void,
  signal: AbortSignal,
): Promise<void> {
  const confirmed = log.ofRun.filter(({ purpose }) => purpose === 'confirmation')
  if (confirmed.some(startsNothing)) return
  const tries = new Map<string, number>()
  for (const { configuration } of confirmed) count(tries, configurationKey(configuration))
  for (let heat = confirmed.length + 1; heat <= mostHeats; heat++) {
    const recommendation = parts.recommend(log.trials, undefined)
    const isOut = ({ configuration }: Candidate) =>
      (tries.get(configurationKey(configuration)) ?? 0) >= maxTries
    const next = nextHeat(recommendation, isOut, experiment.stop.tolerance)
    if (!next) return
    const { rateRps, leastRps, leastProvenRps } = next
    // The last one goes down until a rate holds: a run that found something ends with something
    // that holds.
    const { configuration } = next.candidate
    count(tries, configurationKey(configuration))
    const warmUpRequests = steadyRequestsFor(configuration, experiment.space, log.trials)
    const task = {
      kind: 'confirmation',
      rateRps,
      leastProvenRps,
      warmUpRequests,
      earlier: earlierOf(configuration, log.trials, experiment.slo),
      ...(heat < mostHeats && { leastRps }),
    } as const
    const trial = await measureAgain(experiment, parts, log, emit, task, next.candidate, signal)
    if (startsNothing(trial)) return
  }
}

/** What this experiment measured of a configuration under its SLO; imported loads are another's. */
function earlierOf(configuration: Configuration, trials: readonly FinishedTrial[], slo: Slo) {
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

/** Where nothing starts any more, trying the rest shows nothing new. */
const startsNothing = (trial: FinishedTrial): boolean =>
  trial.state === 'failed' && trial.final === 'experiment'

const count = (of: Map<string, number>, key: string) => of.set(key, (of.get(key) ?? 0) + 1)

/**
 * Measures a candidate at a rate once more and records it as a confirmation. One that was
 * interrupted keeps its number and its windows.
 */
export async function measureAgain(
  experiment: Experiment,
  parts: Pick<LoopParts, 'backend' | 'label' | 'now' | 'store' | 'experimentId'>,
  log: TrialLog,
  emit: (event: EventBody) => void,
  task: Extract<MeasureTask, { rateRps: number }>,
  { configuration, trial: of }: Pick<Candidate, 'configuration' | 'trial'>,
  signal: AbortSignal,
): Promise<FinishedTrial> {
  const key = configurationKey(configuration)
  const isConfirmation = task.kind === 'confirmation'
  const interrupted = isConfirmation
    ? log.takeInterrupted(
        (one) => one.purpose === 'confirmation' && configurationKey(one.configuration) === key,
      )
    : undefined
  const number = interrupted?.number ?? log.nextNumber()
  emit({ type: 'confirming', number, configuration, label: parts.label(configuration) })
  const request = {
    number,
    configuration,
    why: `${task.kind} of trial ${of}`,
    purpose: 'confirmation',
  } as const
  const { store, experimentId } = parts
  if (isConfirmation) await store.start(experimentId, runningTrial(request, parts.now()))
  const trial = await runTrial(
    parts.backend,
    task,
    { ...request, attempt: 1 },
    {
      ...(isConfirmation && {
        windows: {
          earlier: interrupted?.windows ?? [],
          keep: (window, position) => store.addWindow(experimentId, number, position, window),
        },
      }),
      now: parts.now,
      onReady: (ready) => emit({ type: 'predictor-ready', number, ...ready }),
      onStep: (point, phase) =>
        emit({ type: 'load-step', number, point, sloMs: experiment.slo.limitMs, phase }),
      onWaiting: (what, how = 'room') =>
        emit({ type: 'warning', message: waitingWords(number, what, how) }),
    },
    signal,
  )
  await store.append(experimentId, trial)
  log.add(trial)
  const measured = trial.state === 'complete' ? trial.measurement : undefined
  const rateRps = measured?.capacityRps ?? 0
  const sloMs = measured?.points.at(-1)?.sloMs ?? Number.POSITIVE_INFINITY
  emit({ type: 'confirmed', number, met: rateRps > 0, rateRps, sloMs })
  const why =
    trial.state === 'complete' ? undefined : trial.state === 'failed' ? trial.error : trial.detail
  if (why !== undefined)
    emit({ type: 'warning', message: `the ${task.kind} of trial ${of} did not complete: ${why}` })
  return trial
}

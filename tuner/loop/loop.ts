/**
 * The tuning loop: suggest, launch, measure, record; then confirm and recommend.
 *
 * The policy decides what to try next and when to stop. The scheduler bounds what runs at a time.
 * The ledger holds the finished trials. One AbortSignal ends everything, and one stream of events
 * reports it.
 */
import { writing } from '../../reports/format.ts'
import type { Recommendation } from '../../reports/recommendation/types.ts'
import { formatCost } from '../../search/objective.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { Experiment } from '../config/types.ts'
import { describeWaiting } from '../waiting-text.ts'
import { confirmCandidates } from './confirmation.ts'
import type { EventBody, StopReason, TuneEvent } from './events.ts'
import { Ledger } from './ledger.ts'
import { addExclusionReason } from './out-of-memory.ts'
import type { LoopParts } from './parts.ts'
import { Policy } from './policy.ts'
import { Scheduler } from './scheduler.ts'
import { addUnplacedCount, type Ending } from './stop-reasons.ts'
import { createRunningTrial, runTrial, type TrialHooks, type TrialRequest } from './trial-runner.ts'
import { isAssessed, isSearchTrial, wasDisturbed } from './trial-status.ts'
import { createTrialTask } from './trial-task.ts'

export interface LoopResult extends Ending {
  readonly recommendation: Recommendation
  readonly trials: readonly FinishedTrial[]
  /** Paths of the result files. */
  readonly files: readonly string[]
}

interface Run {
  readonly experiment: Experiment
  readonly parts: LoopParts
  readonly ledger: Ledger
  readonly policy: Policy
  readonly scheduler: Scheduler
  readonly emit: (event: EventBody) => void
  readonly signal: AbortSignal
  /** Number of the trial that was last announced as the best. */
  announcedBest: number | undefined
}

/**
 * Runs an experiment, or continues one.
 * @param earlier trials of the experiment that have finished
 * @throws what store, sampler and stop rule throw, once all predictors have stopped. A bad
 * predictor throws nothing: it makes its trial infeasible or failed.
 */
export async function runLoop(
  experiment: Experiment,
  parts: LoopParts,
  earlier: readonly FinishedTrial[],
  listener: (event: TuneEvent) => void,
  signal: AbortSignal,
): Promise<LoopResult> {
  const emit = (body: EventBody) =>
    listener({ ...body, at: new Date(parts.now()).toISOString() } as TuneEvent)
  const ledger = new Ledger({
    ...parts,
    earlier: experiment.parallel > 1 ? sortByEnd(earlier) : earlier,
    ownGpus: experiment.own.gpus,
  })
  emit(describeStart(experiment, parts, ledger))
  const policy = new Policy(experiment, parts, ledger, emit)
  const scheduler = new Scheduler(experiment.parallel, signal)
  const announcedBest = ledger.best?.trial
  const run = { experiment, parts, ledger, policy, scheduler, emit, signal, announcedBest }

  const ending = await searchAndConfirm(run)
  emit({ type: 'stopped', ...ending })
  return recommend(run, ending)
}

/**
 * Alternates search and confirmation. An interrupt is an ending; any other error passes through.
 */
async function searchAndConfirm(run: Run): Promise<Ending> {
  const { experiment, parts, ledger, policy, scheduler, emit, signal } = run
  try {
    policy.restore()
    for (;;) {
      const ending = await search(run)
      if (!experiment.confirm || ending.reason === 'failed') return ending
      await confirmCandidates(experiment, parts, ledger, emit, signal)
      if (!policy.shouldContinueAfterConfirmation()) return ending
    }
  } catch (error) {
    const finishedCount = await scheduler.abandon(error)
    if (!signal.aborted) throw error
    const finishedNote = finishedCount > 0 ? `, ${finishedCount} of them just now` : ''
    return {
      reason: 'interrupted',
      detail: `${ledger.trials.length} finished trials are saved${finishedNote}`,
    }
  }
}

/** Runs trials until there is a reason to stop. @throws the signal's reason */
async function search(run: Run): Promise<Ending> {
  const { ledger, policy, scheduler, signal } = run
  for (;;) {
    signal.throwIfAborted()
    while (scheduler.hasFreeSlot) {
      const request = chooseTrial(run)
      if (!request) break
      startTrial(run, request)
    }
    if (scheduler.isIdle) {
      // The search is over. A missing baseline runs as the last trial; the next pass returns.
      const ending = policy.endSearch()
      const unusedRequest = await scheduler.cancelLaunchAhead()
      if (unusedRequest) ledger.releaseNumber(unusedRequest.number)
      const baseline = policy.chooseFinalBaseline(ending)
      if (!baseline) return addUnplacedCount(ending, ledger.trialsOfProcess)
      startTrial(run, baseline)
    }
    launchAhead(run)
    await scheduler.waitForChange()
  }
}

/**
 * Chooses the next trial: an interrupted one first, then the one launched ahead, then the choice of
 * the policy.
 */
function chooseTrial({ policy, scheduler }: Run): TrialRequest | undefined {
  const interrupted = policy.resumeInterrupted()
  if (interrupted || policy.shouldStop(scheduler.runningConfigurations)) return interrupted
  return scheduler.launchAheadRequest ?? policy.chooseNext(scheduler.runningConfigurations)
}

/**
 * Starts a trial in a free slot: launch, measure and stop its predictor, then record the result.
 */
function startTrial(run: Run, request: TrialRequest): void {
  const { experiment, parts, ledger, scheduler, emit } = run
  const { configuration, why, predicted, attempt } = request
  const launchedAhead = scheduler.takeLaunchAhead(request)
  emit({
    type: 'trial-started',
    number: request.number,
    suggestion: {
      configuration,
      why,
      ...(predicted && { predicted }),
    },
    attempt,
    label: parts.label(configuration),
    pricePerHour: parts.problem.pricePerHour(configuration),
  })
  const task = createTrialTask(request, experiment, parts, ledger)
  scheduler.start(request, async (signal) => {
    await parts.store.start(parts.experimentId, createRunningTrial(request, parts.now()))
    // Launches the predictor, measures it and stops it.
    const trial = await runTrial(
      {
        launcher: launchedAhead?.launcher ?? parts.backend.launcher,
        measure: parts.backend.measure,
      },
      task,
      { ...request, maxJoulesPerRequest: experiment.maxJoulesPerRequest },
      createTrialHooks(run, request.number, launchedAhead !== undefined),
      signal,
    )
    await recordTrial(run, trial)
  })
}

/** Reports what happens in a trial, and notifies the scheduler when it is under load or waits. */
function createTrialHooks(
  { experiment, parts, scheduler, emit }: Run,
  number: number,
  wasLaunchedAhead: boolean,
): TrialHooks {
  return {
    now: parts.now,
    waitForSlot: (signal) => scheduler.resume(number, signal),
    onReady: (ready) =>
      emit({
        type: 'predictor-ready',
        number,
        ...ready,
        ...(wasLaunchedAhead && { ahead: true }),
      }),
    onStep: (point, phase) => {
      emit({ type: 'load-step', number, point, sloMs: experiment.slo.limitMs, phase })
      scheduler.markUnderLoad(number)
    },
    onWaiting: (reason, waitKind) => {
      // Without a kind, other trials may run meanwhile, so the trial gives up its slot.
      if (waitKind !== undefined)
        emit({ type: 'warning', message: describeWaiting(number, reason, waitKind) })
      else if (scheduler.suspend(number))
        emit({
          type: 'warning',
          message: `trial ${number} waits for ${reason}; others run meanwhile`,
        })
    },
  }
}

/** Stores a finished trial before anything else depends on it, then reports and assesses it. */
async function recordTrial(run: Run, finished: FinishedTrial): Promise<void> {
  const { experiment, parts, ledger, policy, scheduler, emit } = run
  const { problem, store, experimentId, label } = parts
  const trial = addExclusionReason(finished, problem, ledger.trials, experiment.own.gpus)
  await store.append(experimentId, trial)
  scheduler.finish(trial.number)
  ledger.record(trial)
  emit({
    type: 'trial-finished',
    trial,
    label: label(trial.configuration),
    pricePerHour: problem.pricePerHour(trial.configuration),
    retry: ledger.isRetriedNext(trial),
    spent: ledger.spentUsd,
  })
  warnOfBusyMachine(run, trial)
  announceBest(run)
  if (isAssessed(trial)) policy.assess(scheduler.runningConfigurations)
}

/** Warns once, after the second disturbed trial. */
function warnOfBusyMachine({ ledger, emit }: Run, trial: FinishedTrial): void {
  if (!wasDisturbed(trial)) return
  const disturbedTrials = ledger.trialsOfProcess.filter(wasDisturbed).filter(isSearchTrial)
  if (disturbedTrials.length === 2)
    emit({
      type: 'warning',
      message:
        'other work keeps this machine busy: disturbed trials are repeated, so this run will be slow; end that work, or run tune elsewhere',
    })
}

function announceBest(run: Run): void {
  const { best } = run.ledger
  if (!best || best.trial === run.announcedBest) return
  run.announcedBest = best.trial
  const costLabel = formatCost(run.experiment.objective, best, writing)
  run.emit({ type: 'best-changed', number: best.trial, label: best.label, costLabel })
}

/**
 * Launches the predictor of the next trial while the running trials are measured, where possible.
 */
function launchAhead({ parts, policy, scheduler }: Run): void {
  const { canLaunchAlongside, launcher } = parts.backend
  if (!canLaunchAlongside || !scheduler.canLaunchAhead) return
  const running = scheduler.runningConfigurations
  const suggestion = policy.suggestLaunchAhead(running)
  if (!suggestion || !canLaunchAlongside(running, suggestion.configuration)) return
  scheduler.launchAhead(launcher, { ...policy.createRequest(suggestion), launchedMs: parts.now() })
}

/** Stores and reports the recommendation. A failure to write the result files does not undo it. */
async function recommend(
  { parts, ledger, policy, emit }: Run,
  ending: Ending,
): Promise<LoopResult> {
  const { trials } = ledger
  const stop = ending.reason === 'failed' ? undefined : policy.assessment
  const recommendation = parts.recommend(trials, stop)
  await parts.store.finish(parts.experimentId, resolveFinalState(ending.reason), recommendation)
  const [written] = await Promise.allSettled([
    ending.reason === 'interrupted' ? [] : parts.write(recommendation, trials),
  ])
  const files = written.status === 'fulfilled' ? written.value : []
  emit({ type: 'recommended', recommendation, files })
  if (written.status === 'rejected') throw written.reason
  return { ...ending, recommendation, trials, files }
}

const resolveFinalState = (reason: StopReason): 'interrupted' | 'failed' | 'done' =>
  reason === 'interrupted' || reason === 'failed' ? reason : 'done'

/** Sorts trials by their end. The store sorts by number, but parallel trials may end otherwise. */
function sortByEnd(trials: readonly FinishedTrial[]): readonly FinishedTrial[] {
  const computeEndMs = ({ startedAt, seconds }: FinishedTrial) =>
    Date.parse(startedAt) + 1000 * seconds
  return trials.toSorted((a, b) => computeEndMs(a) - computeEndMs(b))
}

function describeStart(experiment: Experiment, parts: LoopParts, ledger: Ledger): EventBody {
  const { name, seed, slo, budget, confirm, load } = experiment
  const { experimentId, provenance, spaceSize, notices } = parts
  return {
    type: 'experiment-started',
    experimentId,
    name,
    provenance,
    seed,
    slo,
    maxTrials: Math.min(budget.maxTrials, spaceSize),
    spaceSize,
    notices,
    resumedTrials: ledger.trials.length,
    countedTrials: ledger.countedTrials,
    confirmSeconds: confirm && provenance !== 'simulated' ? load.confirmSeconds : undefined,
  }
}

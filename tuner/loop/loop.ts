/** The loop: suggest, launch, load-test, record; then confirm and recommend. One way, one AbortSignal, one stream of events. */
import { writing } from '../../reports/format.ts'
import type { Recommendation } from '../../reports/recommendation/types.ts'
import { capacityToBeatRps, costText } from '../../search/objective.ts'
import type { Configuration, Observation, StopAssessment, Suggestion } from '../../search/types.ts'
import type { FinishedTrial, TrialPurpose } from '../../trials/types.ts'
import type { Experiment } from '../experiment/types.ts'
import { confirmWinner } from './confirmation.ts'
import type { EventBody, StopReason, TuneEvent } from './events.ts'
import { observationOf } from './observations.ts'
import type { LoopParts } from './parts.ts'
import { runTrial, type TrialRequest } from './trial-runner.ts'

export interface LoopResult {
  readonly reason: StopReason
  readonly recommendation: Recommendation
  readonly trials: readonly FinishedTrial[]
}

/** Tries of one configuration before it is given up, and failed trials in a row before the experiment is. */
const maxAttempts = 3
const maxFailuresInRow = 4

/**
 * Runs an experiment from wherever `earlier` trials left it.
 * @throws nothing for bad predictors, which are trials; store and sampler errors pass through after all predictors have stopped.
 */
export async function runLoop(
  experiment: Experiment,
  parts: LoopParts,
  earlier: readonly FinishedTrial[],
  listener: (event: TuneEvent) => void,
  signal: AbortSignal,
): Promise<LoopResult> {
  const { problem, now } = parts
  const emit = (body: EventBody) => listener({ ...body, at: new Date(now()).toISOString() } as TuneEvent)
  const startedMs = now()
  const fault = new AbortController()
  const anyEnd = AbortSignal.any([signal, fault.signal])
  const trials: FinishedTrial[] = [...earlier]
  const pending = new Map<number, { configuration: Configuration; done: Promise<FinishedTrial> }>()
  const retries: TrialRequest[] = []
  const givenUp: Configuration[] = []
  let number = Math.max(parts.lastNumber ?? 0, ...trials.map((trial) => trial.number))
  let assessment: StopAssessment | undefined
  let bestNumber = parts.recommend(trials, undefined).best?.trial

  /** The same object for a trial each time: the stop rule remembers by it. */
  const observed = new WeakMap<FinishedTrial, Observation | undefined>()
  const observations = () =>
    trials.flatMap((trial) => {
      if (!observed.has(trial)) observed.set(trial, observationOf(trial, experiment.objective))
      return observed.get(trial) ?? []
    })
  const counted = () => trials.filter((trial) => trial.state !== 'failed' && trial.purpose !== 'confirmation').length
  const spent = () => trials.reduce((sum, t) => sum + (problem.pricePerHour(t.configuration) * t.seconds) / 3600, 0)
  const elapsedS = () => (now() - startedMs) / 1000

  emit({
    type: 'experiment-started',
    experimentId: parts.experimentId,
    name: experiment.name,
    provenance: parts.provenance,
    seed: experiment.seed,
    slo: experiment.slo,
    maxTrials: experiment.budget.maxTrials,
    spaceSize: parts.spaceSize,
    notices: parts.notices,
    resumedTrials: earlier.length,
    confirmSeconds: experiment.confirm && parts.provenance !== 'simulated' ? experiment.load.confirmSeconds : undefined,
  })

  function whyStop(): { reason: StopReason; detail: string } | undefined {
    const { budget } = experiment
    // What failed in an earlier run may have been mended since.
    const fresh = trials.slice(earlier.length)
    const hopeless = fresh.find((trial) => trial.state === 'failed' && trial.final === 'experiment')
    if (hopeless !== undefined) return { reason: 'failed', detail: `every other trial would fail like trial ${hopeless.number}` }
    const last = fresh.slice(-maxFailuresInRow)
    if (last.length === maxFailuresInRow && last.every((trial) => trial.state === 'failed')) {
      return { reason: 'failed', detail: `${maxFailuresInRow} trials failed in a row; the last: ${whatWentWrong(last)}` }
    }
    if (fresh.length >= maxFailuresInRow && trials.every(neverServed)) {
      return { reason: 'failed', detail: `none of ${trials.length} predictors ever served; the last: ${whatWentWrong(last)}` }
    }
    if (assessment?.stop) {
      const certainty = Math.floor((1 - assessment.probabilityBetterExists) * 100)
      const tolerance = Math.round(assessment.tolerance * 100)
      return { reason: 'certain', detail: `with ${certainty} % probability nothing untried is more than ${tolerance} % better` }
    }
    if (counted() + pending.size >= budget.maxTrials) return { reason: 'max-trials', detail: `${counted() + pending.size} trials` }
    if (budget.timeLimitS !== undefined && elapsedS() >= budget.timeLimitS) {
      return { reason: 'time-limit', detail: `${Math.round(elapsedS())} s of ${budget.timeLimitS} s` }
    }
    if (budget.maxCost !== undefined && spent() >= budget.maxCost) {
      return { reason: 'budget', detail: `$${spent().toFixed(4)} of $${budget.maxCost} spent on trials` }
    }
    return undefined
  }

  function nextRequest(): TrialRequest | undefined {
    const retry = retries.shift()
    if (retry) return { ...retry, number: ++number }
    const inFlight = [...pending.values()].map((p) => p.configuration)
    if (number === 0 && parts.defaultConfiguration) {
      return request({ configuration: parts.defaultConfiguration, why: 'default configuration, the yardstick' }, 'default')
    }
    const suggestion = parts.sampler.suggest(problem, observations(), [...inFlight, ...givenUp], parts.rng)
    if (suggestion?.warning) emit({ type: 'warning', message: suggestion.warning })
    return suggestion && request(suggestion)
  }

  function request(suggestion: Suggestion, purpose?: TrialPurpose): TrialRequest {
    number += 1
    suggestions.set(number, suggestion)
    const { configuration, why, predicted } = suggestion
    return { number, configuration, why, predicted, purpose, attempt: 1 }
  }
  const suggestions = new Map<number, Suggestion>()

  function start(req: TrialRequest): void {
    const { configuration } = req
    const pricePerHour = problem.pricePerHour(configuration)
    const suggestion = suggestions.get(req.number) ?? { configuration, why: `${req.why} (attempt ${req.attempt})` }
    emit({ type: 'trial-started', number: req.number, suggestion, label: parts.label(configuration), pricePerHour })
    const best = parts.recommend(trials, undefined).best
    const toBeat = req.purpose === 'default' ? undefined : capacityToBeatRps(experiment.objective, pricePerHour, best?.cost)
    const done = runTrial(
      parts.backend,
      { kind: 'trial', capacityToBeatRps: toBeat },
      req,
      {
        now,
        onReady: (predictor, seconds) => emit({ type: 'predictor-ready', number: req.number, isolation: predictor.isolation, seconds }),
        onStep: (point, phase) => emit({ type: 'load-step', number: req.number, point, sloMs: experiment.slo.limitMs, phase }),
      },
      anyEnd,
    )
    const recorded = done.then((trial) => record(trial, req))
    // The loop takes up the first rejection; this keeps those of the other trials from being unhandled.
    recorded.catch(() => undefined)
    pending.set(req.number, { configuration, done: recorded })
  }

  async function record(trial: FinishedTrial, req: TrialRequest): Promise<FinishedTrial> {
    await parts.store.append(parts.experimentId, trial)
    pending.delete(trial.number)
    trials.push(trial)
    const retry = trial.state === 'failed' && trial.final === undefined && req.attempt < maxAttempts
    if (retry) retries.push({ ...req, attempt: req.attempt + 1 })
    else if (trial.state === 'failed') givenUp.push(trial.configuration)
    const pricePerHour = problem.pricePerHour(trial.configuration)
    emit({ type: 'trial-finished', trial, label: parts.label(trial.configuration), pricePerHour, retry, spent: spent() })
    announceBest()
    if (trial.state !== 'failed') {
      assessment = parts.assessStop(observations(), parts.rng)
      emit({ type: 'stop-assessed', assessment, afterTrials: counted() })
    }
    return trial
  }

  function announceBest(): void {
    const { best } = parts.recommend(trials, undefined)
    if (!best || best.trial === bestNumber) return
    bestNumber = best.trial
    emit({ type: 'best-changed', number: best.trial, label: best.label, costLabel: costText(experiment.objective, best, writing) })
  }

  async function search(): Promise<{ reason: StopReason; detail: string }> {
    for (;;) {
      signal.throwIfAborted()
      const stop = whyStop()
      while (!stop && pending.size < experiment.parallel && !whyStop()) {
        const next = nextRequest()
        if (!next) break
        start(next)
      }
      if (pending.size === 0) return stop ?? whyStop() ?? { reason: 'space-exhausted', detail: `all ${counted()} configurations tried` }
      await Promise.race([...pending.values()].map((p) => p.done))
    }
  }

  let ending: { reason: StopReason; detail: string }
  try {
    ending = await search()
    if (experiment.confirm && ending.reason !== 'failed') {
      await confirmWinner(experiment, parts, trials, () => ++number, { emit, spent }, signal)
    }
  } catch (error) {
    fault.abort(error)
    const settled = await Promise.allSettled([...pending.values()].map((p) => p.done))
    if (!signal.aborted) throw error
    const kept = settled.filter((s) => s.status === 'fulfilled').length
    ending = { reason: 'interrupted', detail: `${trials.length} finished trials are kept${kept ? `, ${kept} of them just now` : ''}` }
  }
  emit({ type: 'stopped', ...ending })
  const recommendation = parts.recommend(trials, assessment)
  const files = ending.reason === 'interrupted' ? [] : await parts.write(recommendation, trials)
  const state = ending.reason === 'interrupted' ? 'interrupted' : ending.reason === 'failed' ? 'failed' : 'done'
  await parts.store.finish(parts.experimentId, state, recommendation)
  emit({ type: 'recommended', recommendation, files })
  return { reason: ending.reason, recommendation, trials }
}

/** A predictor that does not even start says more of the template than of the configuration. */
const neverServed = (trial: FinishedTrial): boolean =>
  trial.state === 'failed' || (trial.state === 'infeasible' && (trial.reason === 'crashed' || trial.reason === 'never-ready'))

function whatWentWrong(trials: readonly FinishedTrial[]): string {
  const last = trials.at(-1)
  return last?.state === 'failed' ? last.error : last?.state === 'infeasible' ? last.detail : ''
}

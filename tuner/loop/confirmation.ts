/** The winner's confirmation: a second, longer, independent measurement, at a rate the recommendation can stand by. */
import { configurationKey } from '../../search/space.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { Experiment } from '../experiment/types.ts'
import type { EventBody } from './events.ts'
import type { LoopParts } from './parts.ts'
import { runTrial } from './trial-runner.ts'

/** A winner that loses its place when confirmed hands over to the next; more than this many are not chased. */
const maxConfirmations = 3

/** How the loop hears of it. */
export interface ConfirmationHooks {
  readonly emit: (event: EventBody) => void
  readonly spent: () => number
}

/**
 * Confirms the best candidate and appends the confirmation to `trials` and the store. When the confirmed rate makes another candidate
 * the best, that one is confirmed too.
 * @throws the signal's reason when it aborts.
 */
export async function confirmWinner(
  experiment: Experiment,
  parts: LoopParts,
  trials: FinishedTrial[],
  nextNumber: () => number,
  hooks: ConfirmationHooks,
  signal: AbortSignal,
): Promise<void> {
  const confirmed = new Set(
    trials.filter((t) => t.purpose === 'confirmation' && t.state !== 'failed').map((t) => configurationKey(t.configuration)),
  )
  for (let round = 0; round < maxConfirmations; round++) {
    const { best } = parts.recommend(trials, undefined)
    if (!best || confirmed.has(configurationKey(best.configuration))) return
    const { configuration } = best
    confirmed.add(configurationKey(configuration))
    const number = nextNumber()
    const label = parts.label(configuration)
    hooks.emit({ type: 'confirming', number, configuration, label })
    const rateRps = confirmationRateRps(best.capacityRps, best.capacityCi90Rps)
    const trial = await runTrial(
      parts.backend,
      { kind: 'confirmation', rateRps },
      { number, configuration, why: `confirmation of trial ${best.trial}`, purpose: 'confirmation', attempt: 1 },
      {
        now: parts.now,
        onReady: (predictor, seconds) => hooks.emit({ type: 'predictor-ready', number, isolation: predictor.isolation, seconds }),
        onStep: (point, phase) => hooks.emit({ type: 'load-step', number, point, sloMs: experiment.slo.limitMs, phase }),
      },
      signal,
    )
    await parts.store.append(parts.experimentId, trial)
    trials.push(trial)
    const last = trial.state === 'complete' ? trial.measurement.points.at(-1) : undefined
    hooks.emit({
      type: 'confirmed',
      number,
      held: trial.state === 'complete' && trial.measurement.capacityRps > 0,
      rateRps: trial.state === 'complete' ? trial.measurement.capacityRps : 0,
      sloMs: last?.sloMs ?? Number.POSITIVE_INFINITY,
    })
    if (trial.state !== 'complete') {
      hooks.emit({
        type: 'warning',
        message: `the confirmation of trial ${best.trial} did not complete: ${'error' in trial ? trial.error : trial.detail}`,
      })
    }
  }
}

/** At exactly the true capacity a window passes about half the time: confirmed is a rate a little below the estimate, or its lower bound where that is near. */
const derating = 0.97

export function confirmationRateRps(capacityRps: number, [low]: readonly [number, number]): number {
  return low > 0 && low < capacityRps ? Math.min(derating * capacityRps, Math.sqrt(low * capacityRps)) : derating * capacityRps
}

/** Expected duration of a trial where configurations can share a running server. Pure. */
import { mean } from 'simple-statistics'
import { createKeyWithout } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { Ledger } from './ledger.ts'

/**
 * Starts that take a smaller share of a measurement do not affect the choice of a trial. Assumed.
 */
const minStartShare = 0.1

interface MeasuredTrial {
  readonly launchSeconds: number
  readonly remainingSeconds: number
  /** It reused the server of the trial before it. */
  readonly isShared: boolean
}

/**
 * Estimates the expected seconds of a trial by its configuration. Undefined where all trials take
 * equally long: no parameter can change on a running server, no start was observed yet, or starts
 * are short. The running server is the one of the last trial of this process.
 * @param changeable names of parameters that can change on a running server
 */
export function estimateTrialSeconds(
  { trials, trialsOfProcess }: Pick<Ledger, 'trials' | 'trialsOfProcess'>,
  changeable: ReadonlySet<string> | undefined,
): ((configuration: Configuration) => number) | undefined {
  if (changeable === undefined || changeable.size === 0) return undefined
  const createKey = (configuration: Configuration) => createKeyWithout(configuration, changeable)
  const measured = splitDurations(trials, createKey)
  const starts = measured.filter(({ isShared }) => !isShared)
  const last = trialsOfProcess.at(-1)
  // A server is kept only after a complete trial.
  if (starts.length === 0 || last?.state !== 'complete') return undefined
  const changes = measured.filter(({ isShared }) => isShared)
  const measureS = mean(measured.map(({ remainingSeconds }) => remainingSeconds))
  const startS = mean(starts.map(({ launchSeconds }) => launchSeconds))
  const changeS = changes.length > 0 ? mean(changes.map(({ launchSeconds }) => launchSeconds)) : 0
  if (!(startS - changeS > minStartShare * measureS)) return undefined
  const running = createKey(last.configuration)
  return (configuration) => measureS + (createKey(configuration) === running ? changeS : startS)
}

const splitDurations = (
  trials: readonly FinishedTrial[],
  createKey: (configuration: Configuration) => string,
): readonly MeasuredTrial[] =>
  trials.flatMap((trial, i) => {
    const launchSeconds = trial.state === 'complete' ? trial.usage?.launchSeconds : undefined
    if (launchSeconds === undefined) return []
    const previous = trials[i - 1]
    return [
      {
        launchSeconds,
        remainingSeconds: Math.max(0, trial.seconds - launchSeconds),
        isShared:
          previous !== undefined &&
          createKey(previous.configuration) === createKey(trial.configuration),
      },
    ]
  })

/**
 * What a trial would take where some configurations share a server that runs: the time to measure
 * it, and that of a start only where it needs one. Pure.
 */
import { mean } from 'simple-statistics'
import { configurationKeyWithout } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import type { TrialLog } from './trial-log.ts'

/** Starts that take less than this part of a measurement decide nothing. */
const worthSharing = 0.1

/**
 * Seconds of a trial by its configuration; undefined where that is the same for all: nothing is
 * changed on a server that runs, no start was seen yet, or starts take next to nothing. The server
 * that runs is that of the last trial of this run.
 * @param changes names of parameters that are changed on a server that runs
 */
export function trialSeconds(
  { trials, fresh }: Pick<TrialLog, 'trials' | 'fresh'>,
  changes: ReadonlySet<string> | undefined,
): ((configuration: Configuration) => number) | undefined {
  if (changes === undefined || changes.size === 0) return undefined
  const keyOf = (configuration: Configuration) => configurationKeyWithout(configuration, changes)
  const measured = trials.flatMap((trial, i) => {
    const launchSeconds = trial.state === 'complete' ? trial.usage?.launchSeconds : undefined
    if (launchSeconds === undefined) return []
    const before = trials[i - 1]
    return [
      {
        launchSeconds,
        rest: Math.max(0, trial.seconds - launchSeconds),
        shared: before !== undefined && keyOf(before.configuration) === keyOf(trial.configuration),
      },
    ]
  })
  const starts = measured.filter(({ shared }) => !shared)
  const last = fresh.at(-1)
  // What did not serve to its end is not kept.
  if (starts.length === 0 || last?.state !== 'complete') return undefined
  const measureS = mean(measured.map(({ rest }) => rest))
  const startS = mean(starts.map(({ launchSeconds }) => launchSeconds))
  const changed = measured.filter(({ shared }) => shared)
  const changeS = changed.length > 0 ? mean(changed.map(({ launchSeconds }) => launchSeconds)) : 0
  if (!(startS - changeS > worthSharing * measureS)) return undefined
  const running = keyOf(last.configuration)
  return (configuration) => measureS + (keyOf(configuration) === running ? changeS : startS)
}

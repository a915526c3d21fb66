import { type Moments, momentsOf } from '../statistics/dependence.ts'
import type { LoadRun } from '../types.ts'

/**
 * Plays windows until one is no faster than the one before by more than chance (two standard errors, or 2 %), or `most`. A window that was cut
 * short does not end it; one that is not played (undefined) does.
 */
export async function untilNoFaster(most: number, play: (window: number) => Promise<LoadRun | undefined>): Promise<void> {
  let before: Moments | undefined
  for (let window = 0; window < most; window++) {
    const run = await play(window)
    if (run === undefined) return
    const now = momentsOf(run.latencyMs)
    if (before !== undefined && run.cutMs === undefined && !faster(now, before)) return
    before = now
  }
}

const faster = (now: Moments, before: Moments): boolean =>
  now.mean <= before.mean - Math.max(0.02 * before.mean, 2 * Math.hypot(now.standardError, before.standardError))

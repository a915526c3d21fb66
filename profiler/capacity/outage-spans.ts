/** Times in which a server that had something to do answered nothing. */
import type { LoadRun } from '../model/load-run.ts'

export interface Pause {
  readonly fromMs: number
  readonly untilMs: number
}

/**
 * Pauses of at least `leastMs`: no request was answered, though one had waited as long. One that a
 * cut window ended in counts up to there.
 */
export function pausesOf(run: LoadRun, leastMs: number): Pause[] {
  const endedMs: number[] = []
  for (let i = 0; i < run.sentMs.length; i++) {
    const at = run.sentMs[i]! + run.latencyMs[i]!
    if (!Number.isNaN(at) && !(at >= (run.cutMs ?? Number.POSITIVE_INFINITY) - 1e-6))
      endedMs.push(at)
  }
  endedMs.sort((a, b) => a - b)
  if (run.cutMs !== undefined) endedMs.push(run.cutMs)
  const pauses: Pause[] = []
  let oldest = 0
  for (const [i, untilMs] of endedMs.entries()) {
    const answeredMs = endedMs[i - 1] ?? 0
    if (untilMs - answeredMs < leastMs) continue
    // Nobody waits for an idle server: a pause begins with the first request that is there.
    while (
      oldest < run.sentMs.length &&
      !(run.sentMs[oldest]! + run.latencyMs[oldest]! > answeredMs + 1e-6)
    )
      oldest++
    const fromMs = Math.max(answeredMs, run.sentMs[oldest] ?? untilMs)
    if (untilMs - fromMs >= leastMs) pauses.push({ fromMs, untilMs })
  }
  return pauses
}

/** Outages within a run: spans in which a server with requests in the system answered none. */
import type { LoadRun } from '../model/load-run.ts'

export interface OutageSpan {
  readonly fromMs: number
  readonly untilMs: number
}

/**
 * Finds outages of at least `minMs`. In a window that was cut short, the last outage ends at the
 * cut at the latest.
 */
export function findOutageSpans(run: LoadRun, minMs: number): OutageSpan[] {
  const endedMs: number[] = []
  for (let i = 0; i < run.sentMs.length; i++) {
    const at = run.sentMs[i]! + run.latencyMs[i]!
    if (!Number.isNaN(at) && !(at >= (run.cutMs ?? Number.POSITIVE_INFINITY) - 1e-6))
      endedMs.push(at)
  }
  endedMs.sort((a, b) => a - b)
  if (run.cutMs !== undefined) endedMs.push(run.cutMs)
  const outages: OutageSpan[] = []
  let oldest = 0
  for (const [i, untilMs] of endedMs.entries()) {
    const answeredMs = endedMs[i - 1] ?? 0
    if (untilMs - answeredMs < minMs) continue
    // An idle server has no outage, so the outage begins no earlier than the first waiting request.
    while (
      oldest < run.sentMs.length &&
      !(run.sentMs[oldest]! + run.latencyMs[oldest]! > answeredMs + 1e-6)
    )
      oldest++
    const fromMs = Math.max(answeredMs, run.sentMs[oldest] ?? untilMs)
    if (untilMs - fromMs >= minMs) outages.push({ fromMs, untilMs })
  }
  return outages
}

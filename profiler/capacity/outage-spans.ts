/** Outages within a run: spans in which a server with requests in the system answered none. */
import type { LoadRun } from '../model/load-run.ts'

/** Tolerance for the rounding of times, ms. */
const roundingMs = 1e-6

export interface OutageSpan {
  readonly fromMs: number
  readonly untilMs: number
}

/**
 * Finds outages of at least `minMs`. In a window that was cut short, the last outage ends at the
 * cut at the latest.
 */
export function findOutageSpans(run: LoadRun, minMs: number): OutageSpan[] {
  const { sentMs, latencyMs, cutMs = Number.POSITIVE_INFINITY } = run
  const answersMs = sentMs.map((ms, i) => ms + latencyMs[i]!)
  /** Ends of spans without an answer: the answers, and the cut. */
  const endsMs = [...answersMs]
    .filter((ms) => !Number.isNaN(ms) && ms < cutMs - roundingMs)
    .sort((a, b) => a - b)
  if (run.cutMs !== undefined) endsMs.push(run.cutMs)
  const outages: OutageSpan[] = []
  /** Index of the first request that is unanswered at the start of a span. */
  let firstUnanswered = 0
  for (const [i, untilMs] of endsMs.entries()) {
    const lastAnswerMs = endsMs[i - 1] ?? 0
    if (untilMs - lastAnswerMs < minMs) continue
    // A failed request (NaN) counts as answered, so the comparison is negated.
    while (
      firstUnanswered < sentMs.length &&
      !(answersMs[firstUnanswered]! > lastAnswerMs + roundingMs)
    )
      firstUnanswered++
    // An idle server has no outage, so the outage begins no earlier than the first waiting request.
    const fromMs = Math.max(lastAnswerMs, sentMs[firstUnanswered] ?? untilMs)
    if (untilMs - fromMs >= minMs) outages.push({ fromMs, untilMs })
  }
  return outages
}

/** Throughput of a run, from the times of its answers. */
import { linearRegression, mean } from 'simple-statistics'
import type { LoadRun } from '../model/load-run.ts'

/**
 * Computes the answers per second from the start to the last answer. Requests that take longer than
 * the window finish after it, so a rate within the window would miss most of them.
 */
export const computeMeanThroughput = ({ latencyMs, elapsedS }: LoadRun): number =>
  elapsedS > 0
    ? latencyMs.reduce((count, ms) => (Number.isNaN(ms) ? count : count + 1), 0) / elapsedS
    : 0

/**
 * Computes the throughput of a closed loop in the steady state, requests per second. It is the
 * least-squares slope of the answer count over time, from the first `connections` answers to the
 * end of sending. Before that, connections open and the first requests queue up, which takes most
 * of a short window with many connections. The slope over a single batch is no rate, so Little's
 * law bounds it: connections divided by their mean latency.
 * @returns 0 with fewer than `connections` answers after the first ones
 */
export function computeSteadyThroughput(
  { sentMs, latencyMs, stream, seconds }: LoadRun,
  connections: number,
): number {
  const e2eMs = stream?.latenciesMs.e2e ?? latencyMs
  const answers = Array.from(e2eMs, (ms, i) => ({ at: sentMs[i]! + ms, ms })).filter(
    ({ at }) => at <= 1000 * seconds,
  )
  const steadyAnswers = answers.sort((a, b) => a.at - b.at).slice(connections)
  if (steadyAnswers.length < connections) return 0
  const { m: slopeRps } = linearRegression(steadyAnswers.map(({ at }, i) => [at / 1000, i]))
  return Number.isFinite(slopeRps)
    ? Math.min(slopeRps, (1000 * connections) / mean(steadyAnswers.map(({ ms }) => ms)))
    : 0
}

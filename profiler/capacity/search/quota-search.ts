/** Capacity of a server with a CPU quota, by open windows alone. */
import { sum } from 'simple-statistics'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import {
  collectAnswerTimes,
  countLoopConnections,
  describeQuotaWait,
  findLongestSilences,
  periodMs,
} from '../admission-limits/cpu-quota.ts'
import { computeHalfWidth, type SearchResult } from '../capacity-bounds.ts'
import type { LoopFacts } from './measure-saturation.ts'
import { bisectRate } from './rate-bisection.ts'
import type { SearchContext } from './search-context.ts'
import type { ObservedWindow } from './short-windows.ts'

/**
 * Share of each CPU-quota period that a server waits, from which a queue model of it is useless.
 * Assumed; its figures are in docs/research/capacity.md, CPU quotas.
 */
const maxModelWaitShare = 0.4

/**
 * Whether the server waits for its CPU quota much of the time. Its waits depend on the load, and
 * closed loops always use up the quota. So they do not show the waits under less load.
 */
export const isThrottled = ({ quotaWaitShare }: LoopFacts): boolean =>
  quotaWaitShare >= maxModelWaitShare

/** Searches for the capacity of a throttled server. */
export async function searchThrottledCapacity(
  context: SearchContext,
  unloaded: LoadPoint,
  { quotaWaitShare }: LoopFacts,
): Promise<SearchResult> {
  const { session, effort } = context
  session.startBudget()
  // A request that arrives during a wait has, on average, half of the wait ahead of it.
  const delayed = { ...unloaded, p50Ms: unloaded.p50Ms + (quotaWaitShare * periodMs) / 2 }
  const found = await bisectRate(context, delayed, measureLoopThroughput(session.loops))
  // Bisection also ends on a narrow bracket of rates, whatever the interval of its joint estimate.
  const isWide = found.outcome === 'converged' && computeHalfWidth(found) >= 2 * effort.precision
  return {
    ...found,
    ...(isWide && {
      outcome: 'budget',
      detail: 'open windows alone determine the capacity no more precisely',
    }),
    caveats: [describeQuotaWait(quotaWaitShare)],
  }
}

/**
 * Describes the closed loops with many connections as one overloaded window, from the end of one
 * wait to the end of a later one. So it covers whole quota periods; incomplete ones would bias it.
 * Undefined where no loop has two waits.
 */
function measureLoopThroughput(loops: readonly LoadRun[]): ObservedWindow | undefined {
  const maxConnections = Math.max(...loops.map(countLoopConnections))
  const spans = loops
    .filter((loop) => countLoopConnections(loop) >= maxConnections / 2)
    .flatMap((loop) => {
      const waitEndsMs = findLongestSilences(loop).map(({ endedMs }) => endedMs)
      if (waitEndsMs.length < 2) return []
      const [fromMs, toMs] = [waitEndsMs[0]!, waitEndsMs.at(-1)!]
      return [
        {
          answers: collectAnswerTimes(loop).filter((ms) => ms > fromMs && ms <= toMs).length,
          seconds: (toMs - fromMs) / 1000,
        },
      ]
    })
  if (spans.length === 0) return undefined
  const [answers, seconds] = [
    sum(spans.map((span) => span.answers)),
    sum(spans.map((span) => span.seconds)),
  ]
  // As an overloaded window: `overload` bounds the throughput. Closed loops are no evidence about the
  // SLO under open load, so no request counts towards the likelihood (`nEff`).
  return {
    rateRps: answers / seconds,
    seconds,
    nEff: 0,
    over: 1,
    overload: { answers, seconds, dispersion: 1 },
  }
}

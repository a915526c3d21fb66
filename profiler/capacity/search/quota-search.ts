/**
 * Searches for the capacity of a server that its CPU quota throttles (cgroup CPU limit). Uses
 * windows of open load only, no queue model.
 */
import { sum } from 'simple-statistics'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import {
  collectAnswerTimes,
  countLoopConnections,
  describeQuotaWait,
  findThrottledWaits,
  periodMs,
} from '../admission-limits/cpu-quota.ts'
import { computeHalfWidth, type SearchResult } from '../capacity-bounds.ts'
import type { LoopFacts } from './measure-saturation.ts'
import { bisectRate } from './rate-bisection.ts'
import type { SearchContext } from './search-context.ts'
import type { ObservedWindow } from './short-windows.ts'

/**
 * A server that is throttled for at least this share of each quota period cannot be described by
 * the queue model. Assumed; the figures are in docs/research/capacity.md, CPU quotas.
 */
const minThrottledShare = 0.4

/**
 * Whether the server is throttled for much of the time. Throttling depends on the load. Closed
 * loops always use up the quota, so they do not show how much a lower rate is throttled.
 */
export const isThrottled = ({ quotaWaitShare }: LoopFacts): boolean =>
  quotaWaitShare >= minThrottledShare

/** Searches for the capacity of a throttled server. */
export async function searchThrottledCapacity(
  context: SearchContext,
  unloaded: LoadPoint,
  { quotaWaitShare }: LoopFacts,
): Promise<SearchResult> {
  const { session, effort } = context
  session.startBudget()
  // Mean residual wait of a request that arrives while the server is throttled: half of the wait.
  const residualWaitMs = (quotaWaitShare * periodMs) / 2
  const throttledUnloaded = { ...unloaded, p50Ms: unloaded.p50Ms + residualWaitMs }
  const result = await bisectRate(context, throttledUnloaded, measureLoopThroughput(session.loops))
  // Bisection may end because the bracket of rates is narrow, while the interval of the joint
  // estimate is still wide.
  const isWide = result.outcome === 'converged' && computeHalfWidth(result) >= 2 * effort.precision
  return {
    ...result,
    ...(isWide && {
      outcome: 'budget',
      detail:
        'the interval is wide: because of the CPU quota, only windows of open load show the capacity',
    }),
    caveats: [describeQuotaWait(quotaWaitShare)],
  }
}

/**
 * Pools the closed loops with the most connections into one pseudo-window at full load. Each loop
 * counts from the end of its first throttled wait to the end of its last, so that it covers whole
 * quota periods; incomplete ones would bias the throughput. Undefined where no loop has two waits.
 */
function measureLoopThroughput(loops: readonly LoadRun[]): ObservedWindow | undefined {
  const maxConnections = Math.max(...loops.map(countLoopConnections))
  const spans = loops
    // Loops with far fewer connections may leave the server idle.
    .filter((loop) => countLoopConnections(loop) >= maxConnections / 2)
    .flatMap((loop) => {
      const waitEndsMs = findThrottledWaits(loop).map(({ endedMs }) => endedMs)
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
  const answers = sum(spans.map((span) => span.answers))
  const seconds = sum(spans.map((span) => span.seconds))
  // `overload` gives the throughput. Closed loops are no evidence about the SLO under open load, so
  // `nEff` is 0: no request counts towards the likelihood, and `violationShare` has no weight.
  return {
    rateRps: answers / seconds,
    seconds,
    nEff: 0,
    violationShare: 1,
    overload: { answers, seconds, dispersion: 1 },
  }
}

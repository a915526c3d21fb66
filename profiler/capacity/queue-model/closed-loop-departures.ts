/** Service steps at queue lengths that closed loops reached and open windows did not. */
import { compareDurations } from '../changes/slowdown.ts'
import { filterServiceLog, joinServiceLogs, type ServiceLog } from '../service-log/service-log.ts'

/** A queue length counts as observed with at least this many steps at it or beyond. */
const minStepsObserved = 8
/**
 * A loop shows the present server where its durations at observed queue lengths differ by no more
 * than this share, or this many standard errors.
 */
const maxSpeedDifference = 0.05
const maxStandardErrors = 3

/**
 * Collects steps of closed loops at queue lengths beyond those of the open windows. Only for a
 * single server in arrival order: where its speed depends on the queue length (small caches,
 * swapping, contending threads), a queue model without these steps would be too fast. Empty for
 * other servers, whose stages a closed loop leaves idle.
 * @param loops in time order; read from the last one back to the first one of a different speed
 */
export function collectDeeperQueueSteps(
  windows: readonly ServiceLog[],
  loops: readonly ServiceLog[],
): ServiceLog[] {
  const observed = joinServiceLogs(windows)
  if (observed.departed.some((departed) => departed > 1) || observed.rank.some((rank) => rank > 0))
    return []
  const deepest = observed.present.toSorted((a, b) => b - a)[minStepsObserved - 1]
  if (deepest === undefined) return []
  const deeper: ServiceLog[] = []
  // Loops without comparable steps count as the loop before them in time order.
  let pending: ServiceLog[] = []
  for (const loop of loops.toReversed()) {
    const { slower, error } = compareDurations(
      observed,
      filterServiceLog(loop, (i) => loop.present[i]! <= deepest),
    )
    pending.unshift(
      filterServiceLog(
        loop,
        (i) => loop.present[i]! > deepest && loop.departed[i] === 1 && loop.rank[i] === 0,
      ),
    )
    if (!Number.isFinite(error)) continue
    if (Math.abs(slower) > Math.max(maxSpeedDifference, maxStandardErrors * error)) break
    deeper.unshift(...pending)
    pending = []
  }
  return deeper
}

/** Service steps at longer queues than open windows reached, from closed loops. */
import { canShowChange } from '../../statistics/change-detector.ts'
import { compareSpeeds } from '../changes/speed-change.ts'
import { filterServiceLog, joinServiceLogs, type ServiceLog } from '../service-log/service-log.ts'

/** A queue length counts as observed where at least this many steps have it or a longer one. */
const minStepsObserved = 8

/**
 * Collects steps of closed loops at queue lengths beyond those of the open windows. The speed of a
 * server may fall with its queue length (small caches, swapping, contending threads), and a queue
 * model without these steps would be too fast. Only for a single server in arrival order. Empty for
 * other servers, because a closed loop leaves some of their stages idle.
 * @param loops in time order; read backwards until one differs in speed from the windows
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
  // A loop without comparable steps is taken or left with the loop before it in time.
  let pending: ServiceLog[] = []
  for (const loop of loops.toReversed()) {
    const comparable = filterServiceLog(loop, (i) => loop.present[i]! <= deepest)
    pending.unshift(
      filterServiceLog(
        loop,
        (i) => loop.present[i]! > deepest && loop.departed[i] === 1 && loop.rank[i] === 0,
      ),
    )
    if (!canShowChange(observed.tookMs.length, comparable.tookMs.length)) continue
    if (compareSpeeds([observed], comparable).changed) break
    deeper.unshift(...pending)
    pending = []
  }
  return deeper
}

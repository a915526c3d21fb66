/** What closed loops show of a queue that is deeper than open windows ever saw. */
import { comparison } from '../changes/slowdown.ts'
import { joinSteps, type Steps, stepsWhere } from '../service-log/service-log.ts'

/** Steps with as many present, or more, of which the number is said to have been seen. */
const fewestSeen = 8
/**
 * A loop is of the server as it is now where its steps at numbers that windows saw take as long,
 * but for this share or chance (standard errors).
 */
const same = 0.05
const certain = 3

/**
 * Steps of closed loops at more requests than open windows had time to heap up, of a server that
 * serves one after the other, in the order of arrival: where its speed hangs on how many wait
 * (caches that are too small for all, memory that swaps, threads in each other's way), a twin
 * without them would be too fast. None of others, whose stages a closed loop idles.
 * @param loops in the order of time: used from the last one back to the first that was served
 * otherwise
 */
export function deeperSteps(windows: readonly Steps[], loops: readonly Steps[]): Steps[] {
  const seen = joinSteps(windows)
  if (seen.departed.some((departed) => departed > 1) || seen.rank.some((rank) => rank > 0))
    return []
  const deepest = seen.present.toSorted((a, b) => b - a)[fewestSeen - 1]
  if (deepest === undefined) return []
  const deeper: Steps[] = []
  // Those that have no steps to compare are what the one before them is.
  let untold: Steps[] = []
  for (const loop of loops.toReversed()) {
    const { slower, error } = comparison(
      seen,
      stepsWhere(loop, (i) => loop.present[i]! <= deepest),
    )
    untold.unshift(
      stepsWhere(
        loop,
        (i) => loop.present[i]! > deepest && loop.departed[i] === 1 && loop.rank[i] === 0,
      ),
    )
    if (!Number.isFinite(error)) continue
    if (Math.abs(slower) > Math.max(same, certain * error)) break
    deeper.unshift(...untold)
    untold = []
  }
  return deeper
}

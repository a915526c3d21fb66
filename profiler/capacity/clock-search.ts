/** Looks for a limit by windows of the server's clock (window-limit.ts), which shorter windows of open load may have met nothing of. */
import { keeps } from '../slo.ts'
import type { LoadRun } from '../types.ts'
import { rateLimitOf } from './rate-limit.ts'
import type { Played, Session } from './session.ts'
import { letsInByTheClock, type WindowLimit, windowLimitOf } from './window-limit.ts'

/** A window that looks for it asks for so many times what was answered well, for so many seconds: the rest of one count of a second, and two whole ones. */
const overLimit = 2
const limitS = 3.3
/** Such windows, each for more than the one before, as long as they hold or refuse so few that the count was hardly full: it lets in more than was thought. */
export const mostLimitWindows = 3
const hardly = 0.1

/**
 * The limit that runs tell of, or further windows of open load where none does and refusals are no bucket's; undefined where they tell of none either. What held of them is told.
 * @param runs open and closed, in order of time
 * @param answeredRps what was answered well
 * @param mostRps what can be asked for
 */
export async function clockLimit(
  session: Session,
  runs: readonly LoadRun[],
  answeredRps: number,
  mostRps: number,
  seed: number,
): Promise<{ readonly limit?: WindowLimit; readonly held: readonly Played[] }> {
  const held: Played[] = []
  let limit = windowLimitOf(runs)
  if (limit !== undefined || (rateLimitOf(runs) !== undefined && !letsInByTheClock(runs))) return { limit, held }
  const all = [...runs]
  for (let window = 1; limit === undefined && window <= mostLimitWindows; window++) {
    const rateRps = Math.min(mostRps, answeredRps * overLimit ** window)
    if (!(rateRps > 0)) break
    const played = await session.open(rateRps, limitS, seed + window, 'search')
    all.push(played.run)
    limit = windowLimitOf(all)
    const { errors, requests } = played.point
    if (keeps(played.point, session.slo)) held.push(played)
    else if (errors === 0 || errors > hardly * requests) break
  }
  return { limit, held }
}

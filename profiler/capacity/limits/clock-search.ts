/**
 * Looks for a limit by windows of the server's clock (window-limit.ts), which shorter windows of
 * open load may have met nothing of.
 */
import { keeps } from '../../slo.ts'
import type { LoadRun } from '../../types.ts'
import type { Played, Session } from '../session.ts'
import { rateLimitOf } from './rate-limit.ts'
import { letsInByTheClock, type WindowLimit, windowLimitOf } from './window-limit.ts'

/**
 * Windows that look for it ask for so many times what was answered well, each for more than the one
 * before as long as they hold or refuse so few that the count was hardly full.
 */
const overLimit = 2
const hardly = 0.1
/**
 * Their length, seconds: two counts of a second, whenever the first one began; and a whole one more
 * where many were let in at once and those did not tell.
 */
const limitS = 2.3
const longerS = 3.3
const mostTimes = overLimit ** 3
export const mostLimitWindows = 4

/**
 * The limit that runs tell of, or further windows of open load where none does and refusals are no
 * bucket's; undefined where they tell of none either. What held of them is told.
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
  if (limit !== undefined || (rateLimitOf(runs) !== undefined && !letsInByTheClock(runs)))
    return { limit, held }
  const all = [...runs]
  let [times, seconds] = [overLimit, limitS]
  for (
    let window = 1;
    limit === undefined && times <= mostTimes && window <= mostLimitWindows;
    window++
  ) {
    const rateRps = Math.min(mostRps, answeredRps * times)
    if (!(rateRps > 0)) break
    const played = await session.open(rateRps, seconds, seed + window, 'search')
    all.push(played.run)
    limit = windowLimitOf(all)
    const { errors, requests } = played.point
    const holds = keeps(played.point, session.slo)
    if (holds) held.push(played)
    if (holds || (errors > 0 && errors <= hardly * requests)) times *= overLimit
    else if (seconds < longerS && letsInByTheClock([played.run])) seconds = longerS
    else break
  }
  return { limit, held }
}
